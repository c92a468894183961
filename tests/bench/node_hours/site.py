"""The small machine: five kinds of nodes of a real site, and partitions that overlap.

The site has 217 nodes and two partitions that share none. Here jobs that ask for GPUs or for more
memory than most nodes have, which run on few nodes there too, have partitions of their own over
nodes of the large one, and the debug partition shares nodes with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.real.cluster_files import NodeKind

_SMALL, _LARGE = 187000, 754000
_GOLD_6130, _GOLD_6230 = "CPU-Gold-6130", "CPU-Gold-6230"
_N = NodeKind(
    name="n", count=5, processors=32, memory=_SMALL, features=(_GOLD_6130, "OPA"), weight=60
)
#: That the debug partition has too.
_SHARED = NodeKind(
    name="s", count=1, processors=32, memory=_SMALL, features=(_GOLD_6130, "OPA"), weight=60
)
_M = NodeKind(
    name="m", count=4, processors=40, memory=_SMALL, features=(_GOLD_6230, "IB"), weight=70
)
_B = NodeKind(
    name="b", count=3, processors=40, memory=_LARGE, features=(_GOLD_6230, "IB"), weight=160
)
_G = NodeKind(
    name="g",
    count=1,
    processors=40,
    memory=_SMALL,
    gpus=2,
    features=(_GOLD_6230, "IB", "V100"),
    weight=190,
)
_GN = NodeKind(
    name="gn",
    count=1,
    processors=32,
    memory=_SMALL,
    gpus=2,
    features=(_GOLD_6130, "OPA", "P100"),
    weight=190,
)
KINDS = (_N, _SHARED, _M, _B, _G, _GN)
#: MB that each CPU of a job has where it asks for none.
DEFAULT_MEMORY = 2800


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Some of the nodes, and what slurm.conf says beside them."""

    name: str
    kinds: tuple[NodeKind, ...]
    more: str

    @property
    def line(self) -> str:
        """Of slurm.conf."""
        nodes = ",".join(f"{kind.name}[1-{kind.count}]" for kind in self.kinds)
        words = f"MaxTime=UNLIMITED DefMemPerCPU={DEFAULT_MEMORY} State=UP"
        return f"PartitionName={self.name} Nodes={nodes} {words} {self.more}"


GENERAL = Partition(
    name="general-compute",
    kinds=(_N, _SHARED, _M, _B, _G),
    more="Default=YES PriorityJobFactor=100",
)
LARGE = Partition(name="large", kinds=(_B,), more="PriorityJobFactor=200")
GPU = Partition(name="gpu", kinds=(_G,), more="PriorityJobFactor=300")
DEBUG = Partition(name="debug", kinds=(_SHARED, _GN), more="PriorityTier=7 PriorityJobFactor=700")
PARTITIONS = {each.name: each for each in (GENERAL, LARGE, GPU, DEBUG)}
