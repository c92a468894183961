"""Slurm's commands as children with a time-out, and what their failures mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from slurm_rl_plugin.batch_systems.command_process import KillableCommands, first_line
from slurm_rl_plugin.batch_systems.kind import AdapterParts
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable

#: Slurm's commands take filters and formats from variables of these names too.
FILTER_PREFIXES = (
    "SQUEUE_",
    "SPRIO_",
    "SSHARE_",
    "SINFO_",
    "SCONTROL_",
    "SACCT_",
    "SBATCH_",
    "SLURM_CLUSTERS",
)
#: Each is --local of a command: one that shows a whole federation (`fed_display`) would count the
#: nodes of its other clusters as this one's, and take their jobs for ours of the same number.
OF_THIS_CLUSTER = {
    f"{command}_LOCAL": "1" for command in ("SQUEUE", "SPRIO", "SINFO", "SCONTROL", "SACCT")
}
#: Words of a command that could not reach slurmctld.
UNREACHABLE = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "connect failure",
    "Connection refused",
    "Communication connection failure",
    "Communication shutdown failure",
    "Zero Bytes were transmitted",
    "Transport endpoint",
    "Connection reset by peer",
    "Connection timed out",
    "Broken pipe",
    "No route to host",
    "Protocol authentication error",
    "Unable to process configuration file",
    "Could not establish a configuration source",
    "in standby mode",  # of two controllers, while the other takes over
)
WHAT_TO_DO = "check slurmctld with `scontrol ping`"


class CommandRunner(KillableCommands):
    """Runs Slurm's commands with a clean environment and a time-out."""

    def __init__(
        self,
        *,
        environment: Mapping[str, str] | None,
        timeout: float,
        on_call: Callable[[str, float], None] | None,
    ) -> None:
        super().__init__(
            environment={
                **clean_environment(environment),
                **OF_THIS_CLUSTER,
                "SLURM_TIME_FORMAT": "%s",
            },
            timeout=timeout,
            on_call=on_call,
            failure=failure,
            without_answer=WHAT_TO_DO,
            without_command="install Slurm's client commands or put them on the PATH",
        )


def commands_of(given: AdapterParts) -> CommandRunner:
    """What runs Slurm's commands for an adapter."""
    return CommandRunner(
        environment=given.environment, timeout=given.timeout, on_call=given.on_call
    )


def clean_environment(environment: Mapping[str, str] | None) -> dict[str, str]:
    """Variables for a child that talks to Slurm, without filters; None takes this process's own."""
    base = os.environ if environment is None else environment
    return {key: value for key, value in base.items() if not key.startswith(FILTER_PREFIXES)}


def failure(command: str, words: str) -> BatchSystemError:
    """Make the error for a command that failed with these words."""
    first = first_line(words)
    if any(phrase in words for phrase in UNREACHABLE):
        return BatchSystemUnavailable(f"{command} cannot reach Slurm: {first}; {WHAT_TO_DO}")
    return BatchSystemError(f"{command} failed: {first}; run it by hand to see more")


def not_understood(command: str, line: str) -> BatchSystemError:
    """Make the error for an answer of another form than this adapter knows."""
    return BatchSystemError(
        f"{command} answered a line that is not understood: {line[:200]!r}; "
        "run it by hand, and report it if this release of Slurm prints another form"
    )
