"""Reads, writes and takes away the soft_walltimes of jobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from slurm_rl_plugin.batch_systems.pbs.answers.fields import PbsJob
from slurm_rl_plugin.batch_systems.pbs.answers.sched_config import sched_folder
from slurm_rl_plugin.batch_systems.pbs.answers.server import PbsServer
from slurm_rl_plugin.batch_systems.pbs.lever.look import look_now
from slurm_rl_plugin.batch_systems.pbs.lever.soft_walltimes import write_soft_walltimes
from slurm_rl_plugin.batch_systems.pbs.lever.writes import ResourceSender
from slurm_rl_plugin.batch_systems.pbs.plan_estimates.closed_times import read_closed_times
from slurm_rl_plugin.batch_systems.pbs.plan_estimates.obstacles import obstacle, unsound
from slurm_rl_plugin.batch_systems.pbs.plan_estimates.requirements import (
    daemon_user,
    read_plan_settings,
    requirements,
)
from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands
from slurm_rl_plugin.batch_systems.plan_port import JobEstimate
from slurm_rl_plugin.batch_systems.port import ApplyReport


class PbsEstimates:
    """The estimates of one cluster; nothing is remembered between two calls.

    Args:
        commands: of PBS.
        clock: seconds since the epoch.
    """

    def __init__(self, commands: PbsCommands, clock: Callable[[], float]) -> None:
        self._commands = commands
        self._clock = clock

    def refused(self, server: PbsServer) -> str | None:
        """The first condition that does not hold; see `PlansByEstimates.estimates_refused`."""
        settings = read_plan_settings(self._commands, server)
        faults = (each.fault for each in requirements(settings, daemon_user()))
        return next((fault for fault in faults if fault is not None), None)

    def read(self, jobs: Sequence[PbsJob]) -> dict[int, JobEstimate]:
        """Of every job that waits, and of every other that has one."""
        times = read_closed_times(sched_folder(self._commands))
        now = self._clock()
        return {
            job.job_id: JobEstimate(seconds=_standing(job), obstacle=obstacle(job, times, now))
            for job in jobs
            if job.waits or job.soft_walltime is not None
        }

    def write(
        self, seconds: Mapping[int, float], jobs: Sequence[PbsJob], sender: ResourceSender
    ) -> ApplyReport:
        """Write what is sound by what the jobs are now; see `PlansByEstimates.write_estimates`.

        Where a job has got one pbs_sched is made to look, or it would start at the next event.

        Args:
            seconds: by the job's number; 0 takes away.
            jobs: as just read.
            sender: who sends them.

        Raises:
            BatchSystemUnavailable: no answer in time; some may have been written.
            BatchSystemError: it cannot be told what was written.
            ChangeRejected: this user may set none at all.
        """
        times = read_closed_times(sched_folder(self._commands))
        now = self._clock()
        here = {job.job_id: job for job in jobs}
        rejected: dict[int, str] = {}
        sound: dict[str, int] = {}
        for job_id, wanted in seconds.items():
            job = here.get(job_id)
            words = unsound(job, wanted, times, now) if job else "Unknown Job Id"
            if words is not None:
                rejected[job_id] = words
            elif job is not None:
                sound[job.name] = math.ceil(wanted)
        refused, still = self._send(sound, jobs, sender) if sound else ({}, frozenset())
        numbers = {job.name: job.job_id for job in jobs}
        rejected.update((numbers[name], words) for name, words in refused.items())
        later = frozenset(numbers[name] for name in still)
        return ApplyReport(applied=len(seconds) - len(rejected), rejected=rejected, later=later)

    def _send(
        self, sound: Mapping[str, int], jobs: Sequence[PbsJob], sender: ResourceSender
    ) -> tuple[dict[str, str], frozenset[str]]:
        stood = {job.name: job.soft_walltime for job in jobs}
        refused, still = write_soft_walltimes(sender, sound)
        given = [name for name, each in sound.items() if each and stood[name] != each]
        if any(name not in refused for name in given):
            look_now(self._commands, "estimates=given")
        return refused, still


def _standing(job: PbsJob) -> int:
    """Whole seconds; 0 for none, and for what is no duration."""
    told = job.soft_walltime
    return int(told) if told is not None and math.isfinite(told) else 0
