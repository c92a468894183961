"""The cluster of a log that tells no more than how many processors there were."""

from __future__ import annotations

from slurm_rl_plugin.machine_files.conf_lines import pairs_of
from slurm_rl_plugin.machine_files.reader import DescribedCluster
from slurm_rl_plugin.machine_files.statements import collect

_PLACE = "a cluster of equal processors"
#: Weights and fair share of `multifactor` in docs/definitions.md; the rest is Slurm's default.
_LINES = (
    "ClusterName=processors SelectType=select/cons_tres SelectTypeParameters=CR_Core",
    "PriorityType=priority/multifactor",
    "PriorityWeightAge=1000 PriorityWeightFairshare=10000 PriorityWeightJobSize=1000",
    "PriorityFlags=NO_FAIR_TREE",
)


def plain_cluster(processors: int) -> DescribedCluster:
    """Nodes of one CPU each in one partition, with the weights of the rule `multifactor`."""
    lines = (
        *_LINES,
        f"NodeName=n[1-{processors}] CPUs=1 RealMemory=1",
        "PartitionName=all Nodes=ALL Default=YES",
    )
    return DescribedCluster(said=collect(pairs_of(line, _PLACE) for line in lines))
