"""What brokers are told of a cluster: its name, its size, and when it would start a job."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.slurm.answers.nodes import SINFO, parse_all_processors
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SHOW_CONFIG, parse_cluster_name
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.submission.expected_start import (
    PARTITIONS,
    check_partitions,
    parse_partitions,
    parse_start,
    will_run_command,
)
from slurm_rl_plugin.domain.site import JobRequest


@dataclass(frozen=True, slots=True)
class SlurmOffers:
    """What brokers are told of a site with Slurm. Any number of threads may ask at once.

    Slurm tests as the user who asks, so accounts and QOS are checked by *his* associations.

    Args:
        commands: runs Slurm's commands as this process's user.
        account: that every will-run test is made under; "" takes the job's own.
    """

    commands: CommandRunner
    account: str

    def expected_start(self, request: JobRequest) -> float | None:
        """Slurm's own estimate, in seconds since the epoch; nothing is submitted.

        Raises:
            JobNotAccepted: Slurm would not take the job, or no partition would ever start it.
            BatchSystemUnavailable: no answer in time, or slurmctld cannot be reached.
            BatchSystemError: an answer that cannot be understood.
        """
        check_partitions(request, parse_partitions(self.commands.read(PARTITIONS)))
        answer = self.commands.call(will_run_command(request, self.account))
        return parse_start(answer.status, answer.errors + answer.output)

    def name(self) -> str:
        """ClusterName of slurm.conf."""
        return parse_cluster_name(self.commands.read(SHOW_CONFIG))

    def processors(self) -> int:
        """All processors by `sinfo`, those of nodes that are down as well."""
        return parse_all_processors(self.commands.read(SINFO))


def slurm_offers(timeout: float, account: str) -> SlurmOffers:
    """Asks the Slurm that is here.

    Args:
        timeout: seconds that a call may take.
        account: see `SlurmOffers`.
    """
    commands = CommandRunner(environment=None, timeout=timeout, on_call=None)
    return SlurmOffers(commands, account)
