"""The experiences of a user's jobs at sites, from which brokers learn, and their exchange.

A routed job is in a small file of its user until its outcome is known, and then as an experience;
the oldest are dropped. Users of one login node share mean waits in a folder: see SharedExperience.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, TypeVar, get_args

from slurm_rl_plugin.brokers.live.job_document import job_document, job_request, strict_object
from slurm_rl_plugin.brokers.port import Outcome, RoutedJob
from slurm_rl_plugin.brokers.registry import FADING, MetAtSite
from slurm_rl_plugin.domain.site import JobRequest
from slurm_rl_plugin.errors import RequestRefused
from slurm_rl_plugin.units import HOUR
from slurm_rl_plugin.whole_file import own_file, read_whole, write_whole

#: Maximum number of jobs in the file, outstanding and ended together.
MOST_JOBS = 500
#: Seconds after which an outstanding job without an accounting record is dropped.
FORGOTTEN = 90 * 86400.0
#: Field of a job -> reads it.
_READ: Mapping[str, Callable[[Any], Any]] = {
    "site": str,
    "job_id": int,
    **dict.fromkeys(("submitted", "started", "ended"), float),
    "outcome": {name: name for name in get_args(Outcome)}.__getitem__,
    "request": job_request,
}
#: Maximum bytes of a user's file, number of files, and sites in a file.
LONGEST_VOICE, MOST_VOICES, MOST_SITES = 16384, 5000, 100
#: The name of a user's file: the user ID without a leading zero.
_VOICE = re.compile(r"(0|[1-9][0-9]{0,9})\.json")
#: Longest shared wait, seconds.
LONGEST_WAIT = FADING
_CLOCKS_DIFFER = HOUR
T = TypeVar("T", "JobOnItsWay", RoutedJob)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOnItsWay:
    """A submitted job without a known end."""

    site: str
    job_id: int
    request: JobRequest
    submitted: float


@dataclass(slots=True, kw_only=True)
class News:
    """Accounting records of the user's jobs; equal if they change the file in the same way."""

    #: (site, number) -> the last run of a routed job that ended.
    ran: dict[tuple[str, int], RoutedJob] = field(default_factory=dict)
    #: Routed jobs that ended without a run, which teach nothing.
    gone: set[tuple[str, int]] = field(default_factory=set)
    others: list[RoutedJob] = field(default_factory=list)  #: further runs of the user's jobs
    asked: list[str] = field(default_factory=list)  #: sites queried for all of the user's jobs
    #: (site, number) -> a routed job that runs.
    running: dict[tuple[str, int], RoutedJob] = field(default_factory=dict, compare=False)
    #: Sites with a response from accounting.
    answered: set[str] = field(default_factory=set, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedJobs:
    """The user's outstanding and ended jobs, oldest first."""

    on_their_way: tuple[JobOnItsWay, ...] = ()  #: routed, without a known end
    ended: tuple[RoutedJob, ...] = ()  #: jobs that ended or were refused, routed or not
    #: Site -> time of the last query for all of the user's jobs.
    asked: Mapping[str, float] = field(default_factory=dict)

    def with_submitted(self, job: JobOnItsWay | RoutedJob) -> RoutedJobs:
        """With one more outstanding or refused job; the oldest beyond MOST_JOBS are dropped."""
        if isinstance(job, RoutedJob):
            return replace(self, ended=(*self.ended, job)[-MOST_JOBS:])
        return replace(self, on_their_way=(*self.on_their_way, job)[-MOST_JOBS:])

    def with_ended(self, news: News, now: float) -> RoutedJobs:
        """With ended and vanished jobs moved out of the outstanding ones.

        News about a routed job that is no longer outstanding, which another call processed, and
        known further runs are skipped.
        """
        left = tuple(
            job
            for job in self.on_their_way
            if (job.site, job.job_id) not in news.ran.keys() | news.gone
            and now - job.submitted < FORGOTTEN
        )
        mine = {(job.site, job.job_id) for job in self.on_their_way}
        known = {(job.site, job.started, job.ended) for job in self.ended}
        new = [job for key, job in news.ran.items() if key in mine]
        new += [job for job in news.others if (job.site, job.started, job.ended) not in known]
        ended = (*self.ended, *sorted(new, key=lambda job: job.ended))
        asked = {**self.asked, **dict.fromkeys(news.asked, now)}
        return RoutedJobs(on_their_way=left, ended=ended[-MOST_JOBS:], asked=asked)


@dataclass(frozen=True, slots=True)
class RoutedJobsFile:
    """The file of routed jobs; an unreadable file counts as empty, as only experience is lost."""

    path: Path

    def read(self) -> RoutedJobs:
        """The jobs of the file; none if it is missing or cannot be parsed."""
        try:
            document = json.loads(read_whole(self.path))
            return RoutedJobs(
                on_their_way=tuple(_job(JobOnItsWay, each) for each in document["on_their_way"]),
                ended=tuple(_job(RoutedJob, each) for each in document["ended"]),
                asked={str(site): float(at) for site, at in document.get("asked", {}).items()},
            )
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
            RequestRefused,
        ):
            return RoutedJobs()

    def change(self, update: Callable[[RoutedJobs], RoutedJobs]) -> RoutedJobs:
        """Change the jobs of the file under a lock, and return them; OSError if unwritable."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        opened = own_file(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
        with os.fdopen(opened, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            jobs = update(self.read())
            document = {
                "on_their_way": [_fields(job) for job in jobs.on_their_way],
                "ended": [_fields(job) for job in jobs.ended],
                "asked": dict(jobs.asked),
            }
            write_whole(self.path, json.dumps(document), mode=0o600)
        return jobs


def _fields(job: JobOnItsWay | RoutedJob) -> dict[str, Any]:
    found = {each.name: getattr(job, each.name) for each in fields(job)}
    return found | {"request": job_document(job.request)}


def _job(kind: type[T], found: Mapping[str, Any]) -> T:
    known = {"outcome": "ran", **found}
    return kind(**{each.name: _READ[each.name](known[each.name]) for each in fields(kind)})


@dataclass(frozen=True, slots=True)
class SharedExperience:
    """The shared folder of one login node, for one user.

    The administrator makes it, owned by root and sticky, so that no user removes the file of
    another. A file counts only if its owner is the user in its name. The median over users counts
    for a site: each user has one vote, and fewer than half of the users cannot move it beyond the
    figures of the rest.
    """

    folder: Path
    user: int  #: user ID

    def waits(self, now: float) -> dict[str, float]:
        """Site -> median of the mean waits of other users, seconds, fading with time.

        Figures older than FADING, or from the future, do not count.

        Raises:
            OSError: the folder cannot be read, or users could replace each other's files.
        """
        self._check()
        shared: dict[str, list[float]] = {}
        with os.scandir(self.folder) as entries:
            for entry in islice(entries, MOST_VOICES):
                found = _VOICE.fullmatch(entry.name)
                if found is not None and (user := int(found[1])) != self.user:
                    for site, wait in _voice(Path(entry.path), user, now):
                        shared.setdefault(site, []).append(wait)
        return {site: median(waits) for site, waits in shared.items()}

    def tell(self, met: Mapping[str, MetAtSite]) -> None:
        """Publish this user's waits and their times, without jobs; OSError as for `waits`."""
        self._check()
        newest = sorted(met.items(), key=lambda each: -each[1].heard)
        sites = {
            name: {"mean_wait": each.mean_wait, "heard": each.heard}
            for name, each in newest[:MOST_SITES]
            if each.count
        }
        path = self.folder / f"{self.user}.json"
        write_whole(path, json.dumps({"sites": sites}), sync=False, for_all=True)

    def _check(self) -> None:
        mode = self.folder.stat().st_mode
        if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
            raise PermissionError(0, "its sticky bit is missing: chmod +t", str(self.folder))


def _voice(path: Path, user: int, now: float) -> Iterator[tuple[str, float]]:
    """Site and wait of each entry in a file that its user owns; none of another file."""
    try:
        with os.fdopen(own_file(path, owners=frozenset({user})), "rb") as file:
            if os.fstat(file.fileno()).st_uid != user:
                return
            sites = strict_object(file.read(LONGEST_VOICE))["sites"]
        found = [(site, float(of["mean_wait"]), float(of["heard"])) for site, of in sites.items()]
    except (OSError, RequestRefused, LookupError, TypeError, ValueError, AttributeError):
        return
    for site, wait, heard in found[:MOST_SITES]:
        if math.isfinite(wait) and -_CLOCKS_DIFFER <= now - heard <= FADING:
            yield site, min(max(wait, 0.0), LONGEST_WAIT) * math.exp(-(now - heard) / FADING)
