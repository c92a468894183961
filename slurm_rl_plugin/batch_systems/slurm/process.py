"""Slurm's commands as child processes with a time-out, and what their failures mean."""

from __future__ import annotations

from collections.abc import Mapping

from slurm_rl_plugin.batch_systems.command_process import KillableCommands
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable

#: Slurm's commands also take filters and formats from variables with these names.
FILTER_PREFIXES = (
    *("SQUEUE_", "SPRIO_", "SSHARE_", "SINFO_", "SCONTROL_", "SACCT_", "SBATCH_"),
    "SLURM_CLUSTERS",
)
#: Each is --local of a command. A command that shows a whole federation (`fed_display`) would count
#: the other clusters' nodes as ours, and confuse their jobs with ours of the same number.
OF_THIS_CLUSTER = {
    f"{command}_LOCAL": "1" for command in ("SQUEUE", "SPRIO", "SINFO", "SCONTROL", "SACCT")
}


class CommandRunner(KillableCommands):
    """Runs Slurm's commands without the filters and formats that an environment may hold."""

    title = "Slurm"
    what_to_do = "check slurmctld with `scontrol ping`"
    unreachable = (
        *("Unable to contact slurm controller", "Socket timed out", "connect failure"),
        *("Connection refused", "Communication connection failure", "No route to host"),
        *("Communication shutdown failure", "Zero Bytes were transmitted", "Transport endpoint"),
        *("Connection reset by peer", "Connection timed out", "Broken pipe"),
        *("Protocol authentication error", "Unable to process configuration file"),
        "Could not establish a configuration source",
        "in standby mode",  # of two controllers, while the other takes over
    )

    @classmethod
    def child_ended(cls, library: str, words: str) -> BatchSystemError:
        """Make the error of no answer: libslurm ends a process that cannot read slurm.conf."""
        return BatchSystemUnavailable(
            f"the child that runs {library} ended: {words}; check slurm.conf, and {cls.what_to_do}"
        )

    def _prepared(self, environment: Mapping[str, str]) -> dict[str, str]:
        own = {
            key: each for key, each in environment.items() if not key.startswith(FILTER_PREFIXES)
        }
        return {**own, **OF_THIS_CLUSTER, "SLURM_TIME_FORMAT": "%s"}


failure, not_understood = CommandRunner.failure, CommandRunner.not_understood
