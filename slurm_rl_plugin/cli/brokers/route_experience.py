"""What `slurm-rl route` learns between two calls: accounting tells what became of a user's jobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from slurm_rl_plugin.batch_systems.kind import EndedRun, JobSubmission
from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.routed_jobs import JobOnItsWay, News, RoutedJobs, RoutedJobsFile
from slurm_rl_plugin.brokers.port import Broker, RoutedJob
from slurm_rl_plugin.domain.site import JobRequest
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable
from slurm_rl_plugin.units import DAY, HOUR

#: Seconds between questions for all of a user's jobs at a site; how far the first one looks back.
ASKED_EVERY, FIRST_LOOK = HOUR, 7 * DAY


@runtime_checkable
class HearsOfWaiting(Protocol):
    """A broker that also learns from jobs that have not started yet."""

    def waiting(self, site: str, request: JobRequest, waited: float) -> None:
        """Take notice of a job that has waited so many seconds and has not started."""


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
    unknown = job_request({"processors": 1, "user": user})
    news = _news(known, submission, sites, unknown, now, tell)
    if news != News():
        try:
            with past.changing() as change:
                known = change.jobs = change.jobs.with_ended(news, now)
        except OSError as error:
            tell(f"what became of jobs is not remembered ({error}).")
    for job in known.ended:
        broker.learn(job)
    for each in known.on_their_way:
        if (each.site, each.job_id) in news.running:
            broker.learn(news.running[each.site, each.job_id])
        elif each.site in news.answered and isinstance(broker, HearsOfWaiting):
            broker.waiting(each.site, each.request, max(now - each.submitted, 0.0))


def _news(
    known: RoutedJobs,
    submission: JobSubmission,
    sites: Sequence[str],
    unknown: JobRequest,
    now: float,
    tell: Callable[[str], None],
) -> News:
    """What accounting says; `unknown` stands for what a job asked for that was not routed."""
    on_their_way: dict[str, dict[int, JobOnItsWay]] = {site: {} for site in sites}
    for job in known.on_their_way:
        on_their_way.setdefault(job.site, {})[job.job_id] = job
    news = News()
    for site, jobs in on_their_way.items():
        silence = now - known.asked.get(site, 0.0)
        due = site in sites and silence >= ASKED_EVERY
        try:
            runs, never = submission.ended(site, sorted(jobs)) if jobs else ([], [])
            if due:
                own, _ = submission.ended(site, (), min(silence + ASKED_EVERY, FIRST_LOOK))
                runs = [*runs, *(run for run in own if run.job_id not in jobs)]
        except BatchSystemUnavailable as error:  # one accounting database tells of all sites
            tell(f"nothing is learned: {error}.")
            break
        except BatchSystemError as error:
            tell(f"nothing is learned from {site}: {error}.")
            continue
        news.answered.add(site)
        news.asked += [site] * due
        news.gone |= {(site, job_id) for job_id in never if job_id in jobs}
        for run in runs:
            _add(news, site, run, jobs.get(run.job_id), unknown, now)
    return news


def _add(
    news: News,
    site: str,
    run: EndedRun,
    routed: JobOnItsWay | None,
    unknown: JobRequest,
    now: float,
) -> None:
    key, runs_now = (site, run.job_id), math.isnan(run.ended)
    met = RoutedJob(
        site=site,
        request=unknown if routed is None else routed.request,
        submitted=run.submitted,
        started=run.started,
        ended=now if runs_now else run.ended,
        outcome="failed" if run.failed else "ran",
    )
    if runs_now:
        news.running[key] = met
    elif routed is None:
        news.others.append(met)
    else:
        if key in news.ran:  # it was requeued
            news.others.append(news.ran[key])
        news.ran[key] = met
