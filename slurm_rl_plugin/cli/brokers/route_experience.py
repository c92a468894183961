"""What `slurm-rl route` learns between two calls: accounting tells what became of routed jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from slurm_rl_plugin.batch_systems.submission_port import EndedRun, JobSubmission
from slurm_rl_plugin.brokers.live.routed_jobs import JobOnItsWay, RoutedJobs, RoutedJobsFile
from slurm_rl_plugin.brokers.port import Broker, RoutedJob
from slurm_rl_plugin.domain.site import JobRequest
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable


@runtime_checkable
class HearsOfSubmissions(Protocol):
    """A broker that also learns from jobs of which nothing has been heard yet."""

    def sent(self, site: str, request: JobRequest, submitted: float) -> None:
        """Take notice of a job that was submitted at a time, seconds since the epoch."""


def state_file(environment: Mapping[str, str]) -> Path:
    """Where this user's routed jobs are kept."""
    home = environment.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(home) / "slurm-rl" / "routed-jobs.json"


def learn_from_past(
    broker: Broker,
    past: RoutedJobsFile,
    submission: JobSubmission,
    now: float,
    tell: Callable[[str], None],
) -> None:
    """Ask accounting for jobs that were on their way, and let the broker learn from all that ended.

    Whatever fails costs experience, and never the routing.

    Args:
        broker: that has learned nothing yet.
        past: the user's routed jobs.
        submission: asks accounting.
        now: seconds since the epoch.
        tell: takes one sentence for the user.
    """
    known = past.read()
    if known.on_their_way:
        ran, gone = _outcomes(known, submission, tell)
        if ran or gone:
            try:
                with past.changing() as change:
                    known = change.jobs = change.jobs.with_ended(ran, gone, now)
            except OSError as error:
                tell(f"what became of routed jobs is not remembered ({error}).")
    for job in known.ended:
        broker.learn(job)
    if isinstance(broker, HearsOfSubmissions):  # after: a job that ended takes one notice away
        for each in known.on_their_way:
            broker.sent(each.site, each.request, each.submitted)


def _outcomes(
    known: RoutedJobs, submission: JobSubmission, tell: Callable[[str], None]
) -> tuple[dict[tuple[str, int], RoutedJob], set[tuple[str, int]]]:
    """(site, number) -> the job that ran there; and those that ended without having run."""
    waiting: dict[str, dict[int, JobOnItsWay]] = {}
    for job in known.on_their_way:
        waiting.setdefault(job.site, {})[job.job_id] = job
    ran: dict[tuple[str, int], RoutedJob] = {}
    gone: set[tuple[str, int]] = set()
    for site, jobs in waiting.items():
        try:
            ended, never = submission.ended(site, sorted(jobs))
        except BatchSystemUnavailable as error:  # one accounting database tells of all sites
            tell(f"nothing is learned: {error}.")
            break
        except BatchSystemError as error:
            tell(f"nothing is learned from {site}: {error}.")
            continue
        ran |= {
            (site, run.job_id): _routed(jobs[run.job_id], run)
            for run in ended
            if run.job_id in jobs
        }
        gone |= {(site, job_id) for job_id in never if job_id in jobs}
    return ran, gone


def _routed(job: JobOnItsWay, run: EndedRun) -> RoutedJob:
    return RoutedJob(
        site=job.site,
        request=job.request,
        submitted=run.submitted,
        started=run.started,
        ended=run.ended,
    )
