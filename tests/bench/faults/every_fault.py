"""Every fault of the campaign, in the order of the table."""

from __future__ import annotations

from tests.bench.faults.fault import Fault
from tests.bench.faults.faults_of_commands import FAULTS_OF_COMMANDS
from tests.bench.faults.faults_of_files import FAULTS_OF_FILES
from tests.bench.faults.faults_of_slurm import FAULTS_OF_SLURM
from tests.bench.faults.faults_of_the_daemon import FAULTS_OF_THE_DAEMON

FAULTS: tuple[Fault, ...] = (
    *FAULTS_OF_SLURM,
    *FAULTS_OF_COMMANDS,
    *FAULTS_OF_FILES,
    *FAULTS_OF_THE_DAEMON,
)


def fault_named(name: str) -> Fault:
    """The fault of that name.

    Raises:
        KeyError: there is none.
    """
    return {fault.name: fault for fault in FAULTS}[name]
