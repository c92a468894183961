"""What `slurm-rl check` says of plan estimates by TimeMin: what must hold, and what users meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurm_rl_plugin.batch_systems.port import FAIL, PASS, WARN, Check
from slurm_rl_plugin.batch_systems.slurm.answers.settings import (
    SHOW_CONFIG,
    SlurmSettings,
    parse_settings,
    release_numbers,
)
from slurm_rl_plugin.batch_systems.slurm.plan_estimates.estimates import TimeMinEstimates
from slurm_rl_plugin.batch_systems.slurm.plan_estimates.preconditions import FLAG, preconditions
from slurm_rl_plugin.batch_systems.slurm.plan_estimates.waiting_jobs import WaitingJob
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue.job_tables import some_jobs
from slurm_rl_plugin.errors import ChangeRejected

#: The first release whose backfill expects running jobs to end by TimeMin too.
PLANS_RUNNING = (25, 5, 4)
#: Of EnforcePartLimits, what refuses at submission whatever is longer than a partition allows.
ALL = "ALL"


def estimate_checks(
    commands: CommandRunner, estimates: TimeMinEstimates, *, writes: bool
) -> Iterator[Check]:
    """Every check.

    Args:
        commands: run Slurm's commands.
        estimates: of waiting jobs.
        writes: the right may be tried by a write that changes nothing.

    Raises:
        BatchSystemUnavailable: no answer in time.
        BatchSystemError: an answer that cannot be understood.
    """
    for each in preconditions(commands):
        result = PASS if each.fault is None else FAIL
        yield Check(result, f"estimates {each.name}", each.fault or each.holds)
    settings = parse_settings(commands.read(SHOW_CONFIG))
    waiting = estimates.waiting()
    yield _running_jobs(settings)
    yield _right(estimates, waiting, writes=writes)
    yield _partition_limits(settings)
    yield _of_users(waiting)
    what = (
        "SLURM_JOB_END_TIME is start + TimeMin inside a job with an estimate that backfill starts: "
        "who stops or saves by it has to read `squeue -h -j $SLURM_JOB_ID -o %e`"
    )
    yield Check(WARN, "estimates end time", what)
    what = (
        f"while a job has a TimeMin, {FLAG} must not leave slurm.conf, or its limit is cut: first "
        "stop the daemon and see that `squeue -h -r -t PD -O MinTime` shows 0:00 alone"
    )
    yield Check(WARN, "estimates way out", what)


def _running_jobs(settings: SlurmSettings) -> Check:
    name = "estimates running jobs"
    if release_numbers(settings.release) < PLANS_RUNNING:
        what = (
            f"Slurm {settings.release} expects running jobs to end by their limits, so only the "
            "promise keeps short estimates from passing a wide job for ever: 25.05.4 plans by both"
        )
        return Check(WARN, name, what)
    return Check(PASS, name, f"Slurm {settings.release} plans running jobs by TimeMin too")


def _right(
    estimates: TimeMinEstimates, waiting: Mapping[int, WaitingJob], *, writes: bool
) -> Check:
    """Whether TimeMin may be written, tried on a job that has none."""
    name = "estimates right"
    if not writes:
        return Check(WARN, name, "not tried: a daemon runs")
    plain = (number for number, job in waiting.items() if job.all_have(0))
    number = next(plain, None)
    if number is None:
        return Check(WARN, name, "not tried: no job without a TimeMin waits")
    try:
        refused = estimates.try_right(number).rejected
    except ChangeRejected as error:
        return Check(FAIL, name, str(error))
    if refused:
        return Check(WARN, name, f"job {number}: {refused[number]}")
    return Check(PASS, name, f"job {number}, which has no TimeMin, was written none")


def _partition_limits(settings: SlurmSettings) -> Check:
    name = "estimates partitions"
    if settings.partition_limits == ALL:
        return Check(PASS, name, "EnforcePartLimits=ALL refuses jobs that are too long")
    what = (
        f"EnforcePartLimits={settings.partition_limits}, and with {FLAG} any user's --time-min "
        "lets a job run beyond MaxTime of its partition: set EnforcePartLimits=ALL in slurm.conf"
    )
    return Check(WARN, name, what)


def _of_users(waiting: Mapping[int, WaitingJob]) -> Check:
    what = (
        f"with {FLAG} a user's own --time-min costs nothing and lets the job pass in front, into "
        "reservations too: forbid it by time_min in job_submit.lua, see docs/plan-estimates.md"
    )
    having = [number for number, job in waiting.items() if job.estimate]
    if having:
        what += f"; now with a TimeMin: {some_jobs(having)}"
    return Check(WARN, "estimates of users", what)
