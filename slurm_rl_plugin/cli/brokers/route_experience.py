"""What `slurm-rl route` learns between two calls: accounting tells what became of a user's jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from slurm_rl_plugin.batch_systems.submission_port import EndedRun, JobSubmission
from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.routed_jobs import JobOnItsWay, News, RoutedJobs, RoutedJobsFile
from slurm_rl_plugin.brokers.port import Broker, RoutedJob
from slurm_rl_plugin.domain.site import JobRequest
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable
from slurm_rl_plugin.units import DAY, HOUR

#: Seconds between questions for all of a user's jobs at a site; how far the first one looks back.
ASKED_EVERY, FIRST_LOOK = HOUR, 7 * DAY


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
    sites: Sequence[str],
    user: str,
    now: float,
    tell: Callable[[str], None],
) -> None:
    """Ask accounting what became of the user's jobs, and let the broker learn from all that ended.

    It is asked for the routed ones that are on their way, and now and then for all others.
    Whatever fails costs experience, and never the routing.

    Args:
        broker: that has learned nothing yet.
        past: the user's jobs.
        submission: asks accounting.
        sites: that the user can choose.
        user: login name.
        now: seconds since the epoch.
        tell: takes one sentence for the user.
    """
    known = past.read()
    news = _news(known, submission, sites, job_request({"processors": 1, "user": user}), now, tell)
    if news != News():
        try:
            with past.changing() as change:
                known = change.jobs = change.jobs.with_ended(news, now)
        except OSError as error:
            tell(f"what became of jobs is not remembered ({error}).")
    for job in known.ended:
        broker.learn(job)
    if isinstance(broker, HearsOfSubmissions):
        for each in known.on_their_way:
            broker.sent(each.site, each.request, each.submitted)


def _news(
    known: RoutedJobs,
    submission: JobSubmission,
    sites: Sequence[str],
    unknown: JobRequest,
    now: float,
    tell: Callable[[str], None],
) -> News:
    """The answers; `unknown` stands for what a job asked for that was not routed."""
    waiting: dict[str, dict[int, JobOnItsWay]] = {site: {} for site in sites}
    for job in known.on_their_way:
        waiting.setdefault(job.site, {})[job.job_id] = job
    ran: dict[tuple[str, int], RoutedJob] = {}
    gone: set[tuple[str, int]] = set()
    others: list[RoutedJob] = []
    asked: list[str] = []
    for site, jobs in waiting.items():
        silence = now - known.asked.get(site, 0.0)
        due = site in sites and silence >= ASKED_EVERY
        try:
            if due:
                ended, never = submission.ended(site, (), min(silence + ASKED_EVERY, FIRST_LOOK))
                asked.append(site)
            elif jobs:
                ended, never = submission.ended(site, sorted(jobs))
            else:
                continue
        except BatchSystemUnavailable as error:  # one accounting database tells of all sites
            tell(f"nothing is learned: {error}.")
            break
        except BatchSystemError as error:
            tell(f"nothing is learned from {site}: {error}.")
            continue
        last = {run.job_id: run for run in ended if run.job_id in jobs}
        ran |= {
            (site, job_id): _met(site, run, jobs[job_id].request) for job_id, run in last.items()
        }
        others += [_met(site, run, unknown) for run in ended if run is not last.get(run.job_id)]
        gone |= {(site, job_id) for job_id in never if job_id in jobs}
    return News(ran=ran, gone=gone, others=others, asked=asked)


def _met(site: str, run: EndedRun, request: JobRequest) -> RoutedJob:
    return RoutedJob(
        site=site,
        request=request,
        submitted=run.submitted,
        started=run.started,
        ended=run.ended,
        outcome="failed" if run.failed else "ran",
    )
