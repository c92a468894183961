"""Slurm's commands as children with a time-out, and what their failures mean."""

from __future__ import annotations

from collections.abc import Mapping

from slurm_rl_plugin.batch_systems.command_process import KillableCommands
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
_UNREACHABLE = (
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


class CommandRunner(KillableCommands):
    """Runs Slurm's commands without the filters and formats that an environment may hold."""

    title = "Slurm"
    what_to_do = "check slurmctld with `scontrol ping`"
    unreachable = _UNREACHABLE

    @classmethod
    def child_ended(cls, library: str, words: str) -> BatchSystemError:
        """As without an answer: libslurm ends a process that cannot read slurm.conf."""
        return BatchSystemUnavailable(
            f"the child that runs {library} ended: {words}; check slurm.conf, and {cls.what_to_do}"
        )

    def _prepared(self, environment: Mapping[str, str]) -> dict[str, str]:
        own = {
            key: each for key, each in environment.items() if not key.startswith(FILTER_PREFIXES)
        }
        return {**own, **OF_THIS_CLUSTER, "SLURM_TIME_FORMAT": "%s"}


failure = CommandRunner.failure


def commands_of(given: AdapterParts) -> CommandRunner:
    """What runs Slurm's commands for an adapter."""
    return CommandRunner(
        environment=given.environment, timeout=given.timeout, on_call=given.on_call
    )


def not_understood(command: str, line: str) -> BatchSystemError:
    """Make the error for an answer of another form than this adapter knows."""
    return BatchSystemError(
        f"{command} answered a line that is not understood: {line[:200]!r}; "
        "run it by hand, and report it if this release of Slurm prints another form"
    )
