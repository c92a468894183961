"""The jobs that one user had routed: a small file of his own, from which brokers learn again.

A job is kept as long as nobody knows what became of it, and then as one that the broker learns
from; the oldest are forgotten.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.brokers.live.job_document import job_document, job_request
from slurm_rl_plugin.brokers.port import RoutedJob
from slurm_rl_plugin.domain.site import JobRequest
from slurm_rl_plugin.errors import RequestRefused
from slurm_rl_plugin.whole_file import own_file, read_whole, write_whole

#: Jobs that are remembered, on their way and ended together.
MOST_JOBS = 500
#: Seconds after which a job that accounting never told of is forgotten.
FORGOTTEN = 90 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOnItsWay:
    """A job that was submitted and has not been seen to end."""

    site: str
    job_id: int
    request: JobRequest
    submitted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedJobs:
    """The user's routed jobs: those not known to have ended, and those that have; oldest first."""

    on_their_way: tuple[JobOnItsWay, ...] = ()
    ended: tuple[RoutedJob, ...] = ()

    def with_submitted(self, job: JobOnItsWay) -> RoutedJobs:
        """The same with one more job on its way; of too many the oldest are dropped."""
        return replace(self, on_their_way=(*self.on_their_way, job)[-MOST_JOBS:])

    def with_ended(
        self, ran: Mapping[tuple[str, int], RoutedJob], gone: set[tuple[str, int]], now: float
    ) -> RoutedJobs:
        """The same, with jobs that ended or vanished moved out of those on their way.

        Args:
            ran: (site, number) -> the job that ran there; one that is not on its way any more was
                taken over by another call.
            gone: those that ended without having run: nothing is learned of them.
            now: seconds since the epoch.
        """
        left = tuple(
            job
            for job in self.on_their_way
            if (job.site, job.job_id) not in ran.keys() | gone and now - job.submitted < FORGOTTEN
        )
        mine = {(job.site, job.job_id) for job in self.on_their_way}
        new = [job for key, job in ran.items() if key in mine]
        ended = (*self.ended, *sorted(new, key=lambda job: job.ended))
        return RoutedJobs(on_their_way=left, ended=ended[-MOST_JOBS:])


@dataclass(frozen=True, slots=True)
class RoutedJobsFile:
    """Keeps them; a file that cannot be read is as good as none, since only experience is lost."""

    path: Path

    def read(self) -> RoutedJobs:
        """The jobs that the file holds; none where it is missing or cannot be understood."""
        try:
            document = json.loads(read_whole(self.path))
            return RoutedJobs(
                on_their_way=tuple(_on_its_way(each) for each in document["on_their_way"]),
                ended=tuple(_ended(each) for each in document["ended"]),
            )
        except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
            return RoutedJobs()
        except (RecursionError, RequestRefused):
            return RoutedJobs()

    @contextmanager
    def changing(self) -> Iterator[RoutedJobsChange]:
        """Change what the file holds: nobody else does meanwhile.

        Raises:
            OSError: the file cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        opened = own_file(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
        with os.fdopen(opened, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            change = RoutedJobsChange(self.read())
            yield change
            write_whole(self.path, json.dumps(_document(change.jobs)), mode=0o600)


@dataclass(slots=True)
class RoutedJobsChange:
    """The jobs as read from the file; what they are at the end is written to it."""

    jobs: RoutedJobs = field(default_factory=RoutedJobs)


def _document(jobs: RoutedJobs) -> dict[str, Any]:
    return {
        "on_their_way": [
            {
                "site": job.site,
                "job_id": job.job_id,
                "submitted": job.submitted,
                "request": job_document(job.request),
            }
            for job in jobs.on_their_way
        ],
        "ended": [
            {
                "site": job.site,
                "submitted": job.submitted,
                "started": job.started,
                "ended": job.ended,
                "request": job_document(job.request),
            }
            for job in jobs.ended
        ],
    }


def _on_its_way(found: Mapping[str, Any]) -> JobOnItsWay:
    return JobOnItsWay(
        site=str(found["site"]),
        job_id=int(found["job_id"]),
        submitted=float(found["submitted"]),
        request=job_request(found["request"]),
    )


def _ended(found: Mapping[str, Any]) -> RoutedJob:
    return RoutedJob(
        site=str(found["site"]),
        submitted=float(found["submitted"]),
        started=float(found["started"]),
        ended=float(found["ended"]),
        request=job_request(found["request"]),
    )
