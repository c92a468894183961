"""A running site on which a fault is tried: a real cluster, its jobs, our daemon."""

from __future__ import annotations

import os
import random
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.faults.daemon_beside import DaemonBeside
from tests.bench.faults.drowsy_hook import SLEEP
from tests.bench.faults.fault import Fault
from tests.bench.faults.jobs_under_fault import JobsUnderFault
from tests.bench.faults.tampered_commands import TamperedCommands
from tests.real.private_cluster import PrivateSlurm


@dataclass(frozen=True, slots=True)
class Scene:
    """See the module.

    Attributes:
        cluster: with real sleep jobs.
        jobs: of it.
        daemon: of ours.
        commands: through which the daemon reaches Slurm.
        rng: of the fault.
        stack: takes away at last what a fault put there.
        others: further daemons of ours.
    """

    cluster: PrivateSlurm
    jobs: JobsUnderFault
    daemon: DaemonBeside
    commands: TamperedCommands
    rng: random.Random
    stack: ExitStack
    others: list[DaemonBeside] = field(default_factory=list)


def set_up(fault: Fault, cluster: PrivateSlurm, folder: Path, seed: int, stack: ExitStack) -> Scene:
    """A scene for a fault; its daemon is not started yet."""
    commands = TamperedCommands(folder / "commands")
    daemon = DaemonBeside(
        cluster=cluster,
        folder=folder,
        path=commands.make(cluster.env["PATH"]),
        program=fault.program,
        model=fault.model.replace("FOLDER", str(folder)),
        more=fault.more.replace("FOLDER", str(folder)),
        stack=stack,
    )
    daemon.files.mkdir()
    os.environ[SLEEP] = str(folder / "sleep")
    rng = random.Random(f"{fault.name} {seed}")
    jobs = JobsUnderFault(cluster, random.Random(seed))
    return Scene(cluster, jobs, daemon, commands, rng, stack)
