"""What `slurm-rl check` asks of PBS before plan estimates are switched on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slurm_rl_plugin.batch_systems.pbs.answers.fields import SOFT_WALLTIME, PbsJob
from slurm_rl_plugin.batch_systems.pbs.lever.soft_walltimes import write_soft_walltimes
from slurm_rl_plugin.batch_systems.pbs.lever.writes import ResourceSender
from slurm_rl_plugin.batch_systems.pbs.plan_estimates.requirements import (
    PlanSettings,
    daemon_user,
    requirements,
)
from slurm_rl_plugin.batch_systems.port import FAIL, PASS, WARN, Check
from slurm_rl_plugin.errors import ChangeRejected

#: The release whose scheduler was measured.
TRIED = "23.06"
_SHOWN = 5


def estimate_checks(
    settings: PlanSettings, jobs: Sequence[PbsJob], sender: ResourceSender, *, writes: bool
) -> Iterator[Check]:
    """Every check of plan estimates.

    Args:
        settings: as read now.
        jobs: that wait or run.
        sender: tries the right.
        writes: the right may be tried by a write that changes nothing.

    Raises:
        BatchSystemUnavailable: no answer in time.
        BatchSystemError: an answer that cannot be understood.
    """
    for name, holds, fault in requirements(settings, daemon_user()):
        result, what = (PASS, holds) if fault is None else (FAIL, fault)
        if name == "right" and fault is None and writes:
            result, what = _right(jobs, sender, holds)
        yield Check(result, f"estimates {name}", what)
    yield _alike(settings)
    yield _no_zero(jobs)
    if (config := settings.times.config) is not None and config.ever("backfill_prime"):
        what = "backfill_prime is on: only jobs that are exempt from prime time get estimates"
        yield Check(WARN, "estimates prime time", what)
    release = settings.server.release
    if not release.startswith(TRIED):
        what = f"plan estimates were tried with OpenPBS {TRIED}, not with {release}"
        yield Check(WARN, "estimates release", what)


def _right(jobs: Sequence[PbsJob], sender: ResourceSender, holds: str) -> tuple[str, str]:
    """By taking away what a job does not have, where there is a job."""
    plain = [job for job in jobs if job.state in "QH" and job.soft_walltime is None]
    if not plain:
        return PASS, f"{holds} (not tried: no job waits without one)"
    job = min(plain, key=lambda each: each.job_id).name
    try:
        refused, _ = write_soft_walltimes(sender, {job: 0})
    except ChangeRejected as error:
        return FAIL, str(error)
    if refused:
        return WARN, f"it could not be tried on job {job}: {refused[job]}"
    return PASS, f"{holds} (tried on job {job})"


def _alike(settings: PlanSettings) -> Check:
    """Of jobs that count as alike pbs_sched looks at no second one when the first cannot start."""
    name, config = "estimates resources", settings.times.config
    if config is None:
        return Check(
            WARN, name, f"whether {SOFT_WALLTIME} is in the line `resources:` is not known"
        )
    if SOFT_WALLTIME in config.resources():
        return Check(PASS, name, f"jobs of another {SOFT_WALLTIME} do not count as alike")
    what = (
        f"jobs that ask for the same hide each other whatever their {SOFT_WALLTIME}: add it to the "
        f"line `resources:` of {config.path} and send pbs_sched a HUP"
    )
    return Check(WARN, name, what)


def _no_zero(jobs: Sequence[PbsJob]) -> Check:
    names = [job.name for job in jobs if job.soft_walltime == 0]
    if not names:
        return Check(PASS, "estimates zero", f"no job has a {SOFT_WALLTIME} of 0")
    shown = " ".join(names[:_SHOWN])
    what = f"{len(names)} jobs have a {SOFT_WALLTIME} of 0, which ends pbs_sched: qalter -l "
    return Check(FAIL, "estimates zero", f"{what}{SOFT_WALLTIME}= {shown}")
