"""Configuration files of a private cluster, and the block of ports that it has to itself."""

from __future__ import annotations

import fcntl
import random
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

#: Of slurm.conf and slurmdbd.conf, for a plan that says nothing.
TEMPLATES = Path(__file__).parents[1] / "assets" / "private_cluster"
#: Below the ports that the kernel takes for outgoing connections.
FIRST_PORT, PORTS_A_BLOCK, BLOCKS = 20000, 64, 180

PARTITIONS = (
    "PartitionName=batch Nodes=ALL Default=YES MaxTime=1-0 DefaultTime=10 State=UP",
    "PartitionName=short Nodes=ALL MaxTime=60 DefaultTime=5 State=UP PriorityJobFactor=10",
)
#: The same, in which no job starts.
CLOSED_PARTITIONS = tuple(line.replace("State=UP", "State=DOWN") for line in PARTITIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account of the accounting database; each user has one share.

    Attributes:
        share: a number, or "parent".
        parent: the account above it, which the plan names first.
    """

    share: int | str
    users: tuple[str, ...]
    parent: str = "root"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """Nodes of one type, with a slurmd each that claims to have these resources.

    Attributes:
        name: such as b for nodes b1, b2, ...
        count: number of nodes.
        processors: an even number is two sockets.
        memory: MB.
        gpus: without a device.
        gpu_type: "" for none.
        features: for --constraint.
        weight: Slurm gives nodes with the lowest weight first.
    """

    name: str
    count: int
    processors: int
    memory: int = 16000
    gpus: int = 0
    gpu_type: str = ""
    features: tuple[str, ...] = ()
    weight: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """Of its nodes."""
        return tuple(f"{self.name}{number}" for number in range(1, self.count + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """What kind of cluster to start.

    Attributes:
        nodes: number of slurmd, named n1, n2, ...
        processors_per_node: CPUs that each claims to have.
        kinds: nodes of several types, instead of these two.
        options: slurm.conf keys to set or, with None, to leave out.
        lines: further lines at the end of slurm.conf.
        accounts: account name -> share and users.
        partitions: slurm.conf lines of the partitions.
        controllers: names of hosts with a controller each, the first one in charge; they are
            other names of this machine. Without any, there is one controller.
        files: name -> content of further files next to slurm.conf.
    """

    nodes: int = 2
    processors_per_node: int = 4
    options: Mapping[str, str | None] = field(default_factory=dict)
    lines: Sequence[str] = ()
    accounts: Mapping[str, Account] = field(default_factory=dict)
    partitions: Sequence[str] = PARTITIONS
    controllers: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    kinds: Sequence[NodeKind] = ()

    @property
    def node_names(self) -> tuple[str, ...]:
        """Of all nodes, in the order of slurm.conf."""
        kinds = self.kinds or [NodeKind(name="n", count=self.nodes, processors=1)]
        return tuple(name for kind in kinds for name in kind.names)


class PortBlock:
    """Free TCP ports of this machine that no other private cluster takes while we hold them."""

    def __init__(self) -> None:
        self._lock: IO[str] | None = None
        self.first = 0

    def take(self) -> int:
        """First port of the block.

        Raises:
            RuntimeError: every block is taken.
        """
        folder = Path(tempfile.gettempdir()) / "private-slurm-ports"
        folder.mkdir(exist_ok=True)
        for block in random.sample(range(BLOCKS), BLOCKS):
            lock = folder.joinpath(str(block)).open("w")
            first = FIRST_PORT + block * PORTS_A_BLOCK
            if _locked(lock) and all(_free(first + i) for i in range(PORTS_A_BLOCK)):
                self._lock, self.first = lock, first
                return first
            lock.close()
        raise RuntimeError(f"no block of {PORTS_A_BLOCK} free ports from {FIRST_PORT} upwards")

    def give_back(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def write_slurmdbd_conf(directory: Path, port: int) -> None:
    """Write slurmdbd.conf, which Slurm wants next to slurm.conf, readable only by its owner."""
    path = directory / "etc" / "slurmdbd.conf"
    path.write_text(
        (TEMPLATES / "slurmdbd.conf").read_text().format(directory=directory, port=port)
    )
    path.chmod(0o600)


def write_slurm_conf(
    directory: Path, plan: ClusterPlan, port: int, release: tuple[int, int]
) -> None:
    """Write slurm.conf; `port` is slurmdbd's, the following ones are the other daemons'."""
    host = socket.gethostname().partition(".")[0]
    template = (TEMPLATES / "slurm.conf").read_text()
    said = template.format(directory=directory, port=port, controller=port + 1, node=port + 2)
    usual = (line.split("=", 1) for line in said.splitlines() if not line.startswith("#"))
    settings = {**dict(usual), **plan.options}
    lines = [f"{key}={value}" for key, value in settings.items() if value is not None]
    lines += _nodes(plan, host, port + 3)
    lines += [*_controllers(plan, host), *plan.partitions, *plan.lines, ""]
    etc = directory / "etc"
    etc.joinpath("slurm.conf").write_text("\n".join(lines))
    etc.joinpath("plugstack.conf").write_text("")
    known = Path("/etc/hosts").read_text()
    names = "".join(f"{address} {name}\n" for name, address in _addresses(plan))
    gpus = {"gres.conf": _gres(directory, plan)} if any(kind.gpus for kind in plan.kinds) else {}
    for name, text in {"hosts": names + known, **gpus, **plan.files}.items():
        etc.joinpath(name).write_text(text)
    if release >= (23, 2):  # refused by 22.05 and required by 24.11, see their slurmd logs
        etc.joinpath("cgroup.conf").write_text("CgroupPlugin=disabled\n")


def _nodes(plan: ClusterPlan, host: str, port: int) -> list[str]:
    """Lines of slurm.conf; the first slurmd listens on `port`, the next on the next."""
    where = f"NodeHostname={host} NodeAddr=127.0.0.1"
    if not plan.kinds:
        return [
            f"NodeName=n[1-{plan.nodes}] {where} Port=[{port}-{port + plan.nodes - 1}] "
            f"CPUs={plan.processors_per_node} RealMemory=16000 State=UNKNOWN"
        ]
    lines = ["GresTypes=gpu"] if any(kind.gpus for kind in plan.kinds) else []
    for kind in plan.kinds:
        words = [f"NodeName={kind.name}[1-{kind.count}]", where]
        words += [f"Port=[{port}-{port + kind.count - 1}]", _sockets(kind.processors)]
        words += [f"RealMemory={kind.memory}", f"Weight={kind.weight}", "State=UNKNOWN"]
        of_type = f"gpu:{kind.gpu_type}" if kind.gpu_type else "gpu"
        words += [f"Gres={of_type}:{kind.gpus}"] if kind.gpus else []
        words += [f"Feature={','.join(kind.features)}"] if kind.features else []
        lines.append(" ".join(words))
        port += kind.count
    return lines


def _sockets(processors: int) -> str:
    sockets = 1 + (processors % 2 == 0)
    return f"Sockets={sockets} CoresPerSocket={processors // sockets} ThreadsPerCore=1"


def _gres(directory: Path, plan: ClusterPlan) -> str:
    """Of gres.conf; slurmd counts no GPU without a file, and any file will do."""
    for number in range(max(kind.gpus for kind in plan.kinds)):
        directory.joinpath("run", f"gpu{number}").touch()
    lines = [
        f"NodeName={kind.name}[1-{kind.count}] Name=gpu Count={kind.gpus} "
        f"{f'Type={kind.gpu_type} ' if kind.gpu_type else ''}"
        f"File={directory}/run/gpu[0-{kind.gpus - 1}]\n"
        for kind in plan.kinds
        if kind.gpus
    ]
    return "".join(["AutoDetect=off\n", *lines])


def write_controller_conf(directory: Path, host: str) -> str:
    """A copy of the configuration with a pid file and a log of this controller's own; its path.

    A controller ends another one that it finds in its pid file.
    """
    etc = directory / f"etc-{host}"
    shutil.copytree(directory / "etc", etc, dirs_exist_ok=True)
    path = etc / "slurm.conf"
    text = path.read_text()
    for own in ("run/slurmctld.pid", "log/slurmctld.log"):
        folder, _, name = own.partition("/")
        text = text.replace(f"{directory}/{own}", f"{directory}/{folder}/{host}-{name}")
    path.write_text(text)
    return str(path)


def _controllers(plan: ClusterPlan, host: str) -> list[str]:
    """Lines of slurm.conf."""
    if not plan.controllers:
        return [f"SlurmctldHost={host}(127.0.0.1)"]
    hosts = [f"SlurmctldHost={name}({at})" for name, at in _addresses(plan)]
    return [*hosts, "CommunicationParameters=NoCtldInAddrAny"]  # one port, each its address


def _addresses(plan: ClusterPlan) -> list[tuple[str, str]]:
    return [(name, f"127.0.0.{last}") for last, name in enumerate(plan.controllers, start=2)]
