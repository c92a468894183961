"""What brokers are told of a cluster: its name, its size, and when it would start a job."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.slurm.answers.fields import parse_all_processors, parse_time
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SHOW_CONFIG, parse_cluster_name
from slurm_rl_plugin.batch_systems.slurm.cluster import SINFO
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, failure, not_understood
from slurm_rl_plugin.batch_systems.slurm.queue.reader import SQUEUE
from slurm_rl_plugin.batch_systems.slurm.submission.expected_start import (
    PARTITIONS,
    check_partitions,
    parse_partitions,
    parse_start,
    will_run_command,
)
from slurm_rl_plugin.domain.site import Allocation, JobRequest
from slurm_rl_plugin.errors import JobNotAccepted
from slurm_rl_plugin.units import MINUTE

#: What scontrol says of a reservation that a job uses, and of one that is not there.
_IN_USE, _NO_RESERVATION = "reservation is in use", "reservation is invalid"
#: Processors, start and end of each job; those of a pending one are Slurm's plan, or N/A.
SCHEDULE = (
    *SQUEUE,
    "--states=RUNNING,SUSPENDED,PENDING",
    "-O",
    "NumCPUs:|,StartTime:|,EndTime:",
)


def parse_schedule(text: str) -> list[Allocation]:
    """The allocations that squeue prints; a job without a planned start has none.

    Raises:
        BatchSystemError: a line that is not understood.
    """
    found = []
    for line in text.splitlines():
        try:
            processors, begin, end = line.split("|")
            each = Allocation(
                parse_time(begin, math.nan), parse_time(end, math.inf), int(processors)
            )
        except ValueError:
            raise not_understood(SCHEDULE[0], line) from None
        if each.begin < each.end < math.inf:
            found.append(each)
    return found


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

    def reserve(self, name: str, request: JobRequest, start: float, idle: float) -> None:
        """An advance reservation for the account, long enough for a job that comes in time.

        Raises:
            JobNotAccepted: Slurm makes none; in its own words.
            BatchSystemUnavailable: no answer in time: nobody knows whether it was made.
        """
        job, spare = request.job, math.ceil(idle / MINUTE)
        words = {
            "reservationname": name,
            "accounts": job.account,
            "partition": job.partition,
            "starttime": f"uts{math.ceil(start)}",
            "duration": str(math.ceil(job.time_limit / MINUTE) + spare + 1),
            "tres": f"cpu={request.processors}",
            "flags": f"PURGE_COMP={spare // 60:02}:{spare % 60:02}:00",
        }
        given = [f"{key}={value}" for key, value in words.items() if value]
        answer = self.commands.call(("scontrol", "create", "reservation", *given))
        if answer.status:
            said = (answer.errors or answer.output).strip().splitlines()
            raise JobNotAccepted(said[0] if said else "scontrol gives no reason")

    def release(self, name: str) -> bool:
        """Delete a reservation; False where a pending or running job uses it.

        Raises:
            BatchSystemUnavailable: no answer in time.
            BatchSystemError: refused for another reason.
        """
        answer = self.commands.call(("scontrol", "delete", f"reservationname={name}"))
        said = answer.errors + answer.output
        if answer.status == 0 or _NO_RESERVATION in said:
            return True
        if _IN_USE in said:
            return False
        raise failure("scontrol", said)

    def schedule(self) -> list[Allocation]:
        """Jobs that run until their time limits, and pending ones that backfilling has planned.

        Raises:
            BatchSystemUnavailable: no answer in time.
            BatchSystemError: an answer that cannot be understood.
        """
        return parse_schedule(self.commands.read(SCHEDULE))

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
