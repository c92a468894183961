"""TimeMin of waiting jobs: read, written in whole minutes, and read back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from slurm_rl_plugin.batch_systems.plan_port import JobEstimate
from slurm_rl_plugin.batch_systems.port import ApplyReport
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SHOW_CONFIG, parse_settings
from slurm_rl_plugin.batch_systems.slurm.levers.writes import FactorWriter, ValueWrite
from slurm_rl_plugin.batch_systems.slurm.plan_estimates.obstacles import Surroundings, obstacle_of
from slurm_rl_plugin.batch_systems.slurm.plan_estimates.preconditions import first_fault
from slurm_rl_plugin.batch_systems.slurm.plan_estimates.reservations import (
    SHOW_RESERVATIONS,
    parse_reservations,
)
from slurm_rl_plugin.batch_systems.slurm.plan_estimates.waiting_jobs import (
    WAITING,
    WaitingJob,
    parse_waiting,
)
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.submission.expected_start import (
    PARTITIONS,
    parse_partitions,
)
from slurm_rl_plugin.units import MINUTE


class TimeMinEstimates:
    """What backfill plans waiting jobs with; see `PlansByEstimates`.

    Running jobs are not told: Slurm takes a write to one without a word, and it has no effect.

    Args:
        commands: run Slurm's commands.
        writer: sets TimeMin of jobs, minutes; 0 takes it away.
        clock: seconds since the epoch.
    """

    def __init__(
        self, commands: CommandRunner, writer: FactorWriter, clock: Callable[[], float]
    ) -> None:
        self._commands = commands
        self._writer = writer
        self._clock = clock

    def refused(self) -> str | None:
        """Why no job may have a TimeMin now; see `PlansByEstimates.estimates_refused`."""
        return first_fault(self._commands)

    def waiting(self) -> dict[int, WaitingJob]:
        """Every waiting job by its number.

        Raises:
            BatchSystemUnavailable: no answer in time.
            BatchSystemError: an answer that cannot be understood.
        """
        return parse_waiting(self._commands.read(WAITING))

    def of_jobs(self) -> dict[int, JobEstimate]:
        """TimeMin and obstacle of every waiting job; raises as `waiting` does."""
        around = self._surroundings()
        return {
            number: JobEstimate(seconds=job.estimate, obstacle=obstacle_of(job, around))
            for number, job in self.waiting().items()
        }

    def write(self, seconds: Mapping[int, int]) -> ApplyReport:
        """Set TimeMin where it differs; see `PlansByEstimates.write_estimates`.

        `applied` counts what was sent and taken; what stands already is not sent. What is refused
        here, because of an obstacle or the limit, shows as what Slurm refuses.
        """
        rejected: dict[int, str] = {}
        changes: list[ValueWrite] = []
        fault = self.refused() if any(seconds.values()) else None
        around = self._surroundings() if any(seconds.values()) else None
        waiting = self.waiting()
        for number, asked in seconds.items():
            job, minutes = waiting.get(number), math.ceil(asked / MINUTE)
            refusal = _refusal(job, asked, around) or (fault if asked else None)
            if refusal is not None:
                rejected[number] = refusal
            elif job is not None and not job.all_have(round(minutes * MINUTE)):
                changes.append((number, minutes))
        if changes:
            rejected |= self._writer.write(changes).rejected
            waiting = self.waiting()
            rejected |= _not_shown([each for each in changes if each[0] not in rejected], waiting)
        sent = [number for number, _ in changes if number not in rejected]
        left = {number for number in rejected if number in waiting and waiting[number].estimate}
        return ApplyReport(applied=len(sent), rejected=rejected, later=frozenset(left))

    def try_right(self, number: int) -> ApplyReport:
        """Take TimeMin away from a waiting job that has none, which changes nothing."""
        return self._writer.write([(number, 0)])

    def _surroundings(self) -> Surroundings:
        settings = parse_settings(self._commands.read(SHOW_CONFIG))
        partitions = parse_partitions(self._commands.read(PARTITIONS))
        return Surroundings(
            now=self._clock(),
            backfill_interval=settings.backfill_interval,
            longest={each.name: each.longest for each in partitions},
            reservations=parse_reservations(self._commands.read(SHOW_RESERVATIONS)),
        )


def _refusal(job: WaitingJob | None, asked: int, around: Surroundings | None) -> str | None:
    """Why an estimate of so many seconds is not sent, None where it is."""
    if job is None:
        return "it waits no longer"
    if asked < 0:
        return f"an estimate of {asked} s is below a minute"
    if asked == 0:
        return None
    assert around is not None
    obstacle = obstacle_of(job, around)
    limit = job.records[0].time_limit
    if obstacle is None and math.ceil(asked / MINUTE) * MINUTE >= limit:
        return f"an estimate of {asked} s is not below its time limit of {limit:.0f} s"
    return obstacle


def _not_shown(written: list[ValueWrite], waiting: Mapping[int, WaitingJob]) -> dict[int, str]:
    """Jobs that wait still and do not show what Slurm said it has taken."""
    return {
        number: f"TimeMin is {waiting[number].estimate} s, and {minutes} min were set"
        for number, minutes in written
        if number in waiting and not waiting[number].all_have(round(minutes * MINUTE))
    }
