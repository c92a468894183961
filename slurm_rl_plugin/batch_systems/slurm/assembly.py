"""Which adapter for Slurm is taken, and why: pyslurm only where it fits the running Slurm."""

from __future__ import annotations

import importlib.metadata
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm_rl_plugin.batch_systems.kind import AdapterParts
from slurm_rl_plugin.batch_systems.slurm.answers.settings import release_numbers
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCluster
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, commands_of
from slurm_rl_plugin.batch_systems.slurm.queue.reader import MachineLook, Squeue
from slurm_rl_plugin.batch_systems.slurm.site_factor import Scontrol
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError

if TYPE_CHECKING:
    from slurm_rl_plugin.batch_systems.slurm.pyslurm_child.adapter import Slurm

COMMANDS, PYSLURM = "slurm_commands", "slurm"
#: The first release of pyslurm that can change a job; those of newer Slurm all can.
FIRST_THAT_WRITES = (22, 5, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterChoice:
    """The adapter taken, and the reason in a few words for the log."""

    adapter: str
    because: str


def choose_adapter(wanted: str, commands: CommandRunner) -> AdapterChoice:
    """Turn the configured adapter into the one that is taken.

    Slurm is asked for its release only where pyslurm is installed, and pyslurm is not imported.

    Raises:
        ConfigurationError: pyslurm is wanted and cannot work here.
    """
    if wanted == COMMANDS:
        return AdapterChoice(adapter=COMMANDS, because="it is configured")
    pyslurm = installed_pyslurm()
    slurm = running_slurm(commands) if pyslurm else None
    obstacle = _obstacle(pyslurm, slurm)
    if wanted == PYSLURM:
        if obstacle:
            raise ConfigurationError(
                f'[batch_system] adapter = "slurm" cannot work: {obstacle}; install the pyslurm '
                "of your Slurm's release (the same first two numbers) into the Python that runs "
                'slurm-rl, or set adapter = "auto".'
            )
        return AdapterChoice(adapter=PYSLURM, because="it is configured")
    if not obstacle and slurm is None:
        obstacle = "the release of Slurm is not known"
    if obstacle:
        return AdapterChoice(adapter=COMMANDS, because=obstacle)
    return AdapterChoice(adapter=PYSLURM, because=f"pyslurm {pyslurm} is for this Slurm")


def installed_pyslurm() -> str | None:
    """Release of the pyslurm that a child would import, as its metadata say; None for none."""
    try:
        return importlib.metadata.version("pyslurm")
    except importlib.metadata.PackageNotFoundError:
        return None


def running_slurm(commands: CommandRunner) -> str | None:
    """Release of Slurm's commands, `22.05.8` for example; None where they do not tell."""
    try:
        words = commands.read(["scontrol", "--version"]).split()
    except BatchSystemError:
        return None
    return words[-1] if words and len(release_numbers(words[-1])) > 1 else None


def _obstacle(pyslurm: str | None, slurm: str | None) -> str:
    """Why pyslurm cannot work here; "" where nothing is known against it."""
    if pyslurm is None:
        return "pyslurm is not installed"
    if release_numbers(pyslurm) < FIRST_THAT_WRITES:
        return f"pyslurm {pyslurm} cannot change jobs"
    if slurm is not None and release_numbers(pyslurm)[:2] != release_numbers(slurm)[:2]:
        return f"pyslurm {pyslurm} is not for Slurm {slurm}"
    return ""


class SlurmCommands(SlurmCluster):
    """A Slurm cluster reached by commands alone; what it does stands at `SlurmCluster`."""

    name = "slurm_commands"

    def __init__(self, given: AdapterParts) -> None:
        commands = commands_of(given)
        machine = MachineLook(commands, given.clock)
        super().__init__(given, commands, Squeue(commands, machine), Scontrol(commands), machine)


logger = logging.getLogger(__name__)


def slurm_batch_system(parts: AdapterParts) -> SlurmCommands | Slurm:
    """By pyslurm where that is wanted or fits, else by commands; the log says which and why.

    Raises:
        ConfigurationError: pyslurm is wanted and cannot work here.
    """
    commands = CommandRunner(environment=None, timeout=parts.timeout, on_call=None)
    choice = choose_adapter(parts.adapter, commands)
    logger.info("adapter=%s because=%s", choice.adapter, choice.because)
    if choice.adapter == PYSLURM:
        from slurm_rl_plugin.batch_systems.slurm.pyslurm_child.adapter import Slurm  # noqa: PLC0415 - chosen by name

        return Slurm(parts)
    return SlurmCommands(parts)
