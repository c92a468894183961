"""Answers what-if questions about one job: before it is submitted, or with another request.

RequestRefused is raised where a request is not understood, or the machine never holds the job.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from slurm_rl_plugin.domain import JobTable, PendingJobs, QueueSnapshot
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests
from slurm_rl_plugin.errors import RequestRefused
from slurm_rl_plugin.forecasts.live.forecast_queue import (
    ForecastQueue,
    ahead_of,
    forecast_documents,
)
from slurm_rl_plugin.forecasts.live.forecaster import Forecaster
from slurm_rl_plugin.forecasts.live.other_partitions import other_partitions
from slurm_rl_plugin.forecasts.live.site_at import SiteAt, site_now
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import HOUR, MINUTE, FloatArray, IntArray

_BAD = "400 Bad Request"
#: Number of a job that is not submitted.
NOT_SUBMITTED = 0
#: Most that any number of a request may be.
_MOST = 1e9
#: Chance that a job is killed at a limit that is advised, at most.
KILLED = 0.01
#: Least change of the median start that is reported, seconds.
_WORTH = MINUTE
#: Limits are advised in whole parts of this, seconds.
_STEP = 15.0 * MINUTE
#: Fewer draws than these are nearly all sooner by chance in one of twenty: nothing is said of them.
_FEWEST_DRAWS = 5
#: A job on half of its processors is taken to run this much longer: as one that does the same
#: work, all of it in parallel.
_ON_HALF = 2.0
#: Draws of a run time by which a limit is chosen.
RUN_DRAWS = 1000
#: Other partitions that are replayed at most.
_PARTITIONS = 2
#: Replays of each request at most, and seconds that one may take: the job's own, and each variant.
_DRAWS, _SECONDS = 40, 4.0
#: Seconds after which a question has no further replay: a slow queue is replayed with the job's
#: own request and two variants.
QUESTION_SECONDS = 3.0 * _SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedJob:
    """What a job that is not submitted asks for."""

    #: user, account: names, known or new; "" for any, also as partition.
    user: str
    account: str
    partition: str  #: of several, with commas, the first counts
    processors: int  #: how many
    nodes: int  #: how many it is spread over; 0 for as few as hold it
    time_limit: float  #: seconds; nan for none
    memory: float  #: MiB in all; 0 where it asks for none
    memory_per_cpu: bool  #: its memory goes with its processors; else each node gives an equal part
    gpus: float  #: in all
    interactive: bool  #: job class

    @classmethod
    def of_document(cls, given: Mapping[str, Any]) -> AskedJob:
        """What a document asks for; what it does not name is the least."""
        known = {each.name for each in fields(cls)}
        unknown = sorted(set(given) - known)
        if unknown:
            raise RequestRefused(
                _BAD, f"{unknown[0][:40]!r} is no part of a job: give {', '.join(sorted(known))}."
            )
        return cls(
            user=_name(given, "user"),
            account=_name(given, "account"),
            partition=_name(given, "partition"),
            processors=int(_number(given, "processors", 1.0, least=1.0)),
            nodes=int(_number(given, "nodes", 0.0)),
            time_limit=_number(given, "time_limit", math.nan, least=1.0),
            memory=_number(given, "memory", 0.0),
            memory_per_cpu=given.get("memory_per_cpu") is True,
            gpus=_number(given, "gpus", 0.0),
            interactive=given.get("interactive") is True,
        )


def _name(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str) or len(value) > 200:
        raise RequestRefused(_BAD, f"{name} is no name: give a short text.")
    return value


def _number(given: Mapping[str, Any], name: str, default: float, *, least: float = 0.0) -> float:
    value = given.get(name)
    if value is None:
        return default
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # before it is made a float, which holds no number of hundreds of digits
    if not is_number or not least <= value <= _MOST:
        raise RequestRefused(_BAD, f"{name} is no number from {least:g} to {_MOST:g}.")
    return float(value)


def with_job(snapshot: QueueSnapshot, asked: AskedJob) -> QueueSnapshot:
    """The queue with this job as the last of its pending ones, submitted now."""
    accounts, account = _placed(snapshot.accounts, asked.account)
    users, user = _placed(snapshot.users, asked.user)
    first = snapshot.partitions[0] if snapshot.partitions else ""
    named = asked.partition.split(",")
    partitions, partition = _placed(snapshot.partitions, named[0] or first)
    jobs = snapshot.pending.jobs
    added: dict[str, Any] = {
        "job_id": NOT_SUBMITTED,
        "submit": snapshot.now,
        "eligible": snapshot.now,
        "processors": asked.processors,
        "time_limit": asked.time_limit,
        "account": account,
        "user": user,
        "partition": partition,
        "interactive": asked.interactive,
    }
    columns = {name: np.append(getattr(jobs, name), value) for name, value in added.items()}
    total = np.array([[float(asked.processors), asked.memory, asked.gpus]])
    nodes, by_cpu = np.array([asked.nodes], dtype=np.int64), np.array([asked.memory_per_cpu])
    own = ResourceRequests.of_totals(total, names=BASIC_RESOURCES, nodes=nodes)
    asks = replace(own, memory_per_cpu=by_cpu)
    requests = None if jobs.requests is None else jobs.requests.joined(asks)
    more = np.zeros(len(accounts) - len(snapshot.accounts))
    qos, no_qos = _placed(snapshot.qos, "")
    pending = _longer(snapshot.pending, JobTable(**columns, requests=requests), no_qos)
    one_partition = np.zeros(len(pending), dtype=np.bool_)
    one_partition[-1] = len(named) == 1 and named[0] != ""
    return replace(
        snapshot,
        pending=replace(pending, one_partition=one_partition),
        accounts=accounts,
        users=users,
        partitions=partitions,
        qos=qos,
        shares=np.append(snapshot.shares, more),
        usage=np.append(snapshot.usage, more),
    )


def _placed(names: tuple[str, ...], name: str) -> tuple[tuple[str, ...], int]:
    if name in names:
        return names, names.index(name)
    return (*names, name), len(names)


#: Values of one more job in the columns of pending jobs, if not 0.
_NEW: Mapping[str, Any] = {"tasks": 1, "expected": np.nan, "for_processors": True, "reason": -1}


def _longer(pending: PendingJobs, jobs: JobTable, qos: int) -> PendingJobs:
    columns: dict[str, Any] = {}
    values = {**_NEW, "qos": qos}
    for each in fields(pending):
        value = getattr(pending, each.name)
        if isinstance(value, np.ndarray):
            columns[each.name] = np.append(value, value.dtype.type(values.get(each.name, 0)))
    return replace(pending, jobs=jobs, **columns)


def asking_for(snapshot: QueueSnapshot, place: int, asks: Mapping[str, Any]) -> QueueSnapshot:
    """The queue where a pending job asks for something else, by the names of `Variant.asks`."""
    jobs, partitions = snapshot.pending.jobs, snapshot.partitions
    here = np.arange(len(jobs)) == place
    changed: dict[str, Any] = {}
    if "partition" in asks:
        partitions, number = _placed(partitions, asks["partition"])
        changed["partition"] = np.where(here, number, jobs.partition)
    if "time_limit" in asks:
        changed["time_limit"] = np.where(here, asks["time_limit"], jobs.time_limit)
    if "processors" in asks:
        part = np.where(here, asks["processors"] / float(jobs.processors[place]), 1.0)
        changed["processors"] = np.where(here, int(asks["processors"]), jobs.processors)
        if jobs.requests is not None:
            total = jobs.requests.total * part[:, None]
            nodes = np.ceil(jobs.requests.nodes * part).astype(np.int64)
            changed["requests"] = replace(jobs.requests, total=total, nodes=nodes)
    pending = replace(snapshot.pending, jobs=replace(jobs, **changed))
    return replace(snapshot, pending=pending, partitions=partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Another request of the same job."""

    words: str  #: what it asks for
    #: What changes: time_limit in seconds, processors (memory and GPUs go with them), partition.
    asks: Mapping[str, Any]
    runs_longer: float = 1.0  #: how many times as long it is taken to run
    #: Chance that it then runs into another limit than its own, by its predicted run time.
    killed: float = 0.0

    def is_sure(self, sooner: FloatArray, run_times: FloatArray) -> bool:
        """Whether the job starts and ends significantly sooner by it, and by at least _WORTH.

        How long it runs itself does not move its own start in a replay, but its end. All in
        seconds, `sooner` of one replay at least.
        """
        ends_sooner = np.subtract.outer(sooner, (self.runs_longer - 1.0) * run_times)
        low, middle = np.quantile(sooner, [0.05, 0.5])
        return bool(low > 0.0 and middle >= _WORTH and np.quantile(ends_sooner, 0.05) > 0.0)


#: Waits of the job in a queue where it asks for something else, seconds, shape [draws]; fewer
#: of the same draws where there is no time for all.
Waits = Callable[[QueueSnapshot], FloatArray]


def variants_of(limit: float, processors: int, run_times: FloatArray) -> Iterator[Variant]:
    """Requests that might start sooner and would rarely be killed.

    On half of the processors a job asks for up to twice its limit where it could need that. The
    limit, nan for none, and the draws of how long it may run are in seconds.
    """
    safe = float(np.quantile(run_times, 1.0 - KILLED))
    advised = float(np.ceil(safe / _STEP) * _STEP)
    if np.isfinite(limit) and advised < limit:
        yield Variant(
            words=f"a limit of {_hours(advised)} instead of {_hours(limit)}",
            asks={"time_limit": advised},
            killed=float((run_times > advised).mean()),
        )
    half = (processors + 1) // 2
    if half == processors:
        return
    asks, words = dict[str, float](), f"{half} processors instead of {processors}"
    longer = float(np.ceil(_ON_HALF * safe / _STEP) * _STEP)
    if longer > limit:
        asks["time_limit"] = min(longer, _ON_HALF * limit)
        words += f" and a limit of {_hours(asks['time_limit'])} instead of {_hours(limit)}"
    killed = float((_ON_HALF * run_times > asks.get("time_limit", limit)).mean())
    if killed <= KILLED:
        asks["processors"] = float(half)
        words += ", its run time taken to double"
        yield Variant(words=words, asks=asks, runs_longer=_ON_HALF, killed=killed)


def advice_for(
    snapshot: QueueSnapshot,
    place: int,
    run_times: FloatArray,
    base: FloatArray,
    waits: Waits,
    partitions: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """What other requests of one pending job would bring; only what is sure is said.

    Args:
        run_times: draws of how long it may run, seconds.
        base: its waits with its own request, seconds, shape [draws].
        waits: plays another queue forward, by the same draws, as far as there is time.
        partitions: that would accept the job as it is; the first few are tried.
    """
    if len(base) < _FEWEST_DRAWS:
        return []
    jobs = snapshot.pending.jobs
    limit, processors = float(jobs.time_limit[place]), int(jobs.processors[place])
    own = snapshot.partitions[jobs.partition[place]]
    variants = [
        *variants_of(limit, processors, run_times),
        *(
            Variant(words=f"partition {name} instead of {own}", asks={"partition": name})
            for name in partitions[:_PARTITIONS]
        ),
    ]
    found = []
    for each in variants:
        played = waits(asking_for(snapshot, place, each.asks))
        if len(played) < _FEWEST_DRAWS:
            continue
        sooner = base[: len(played)] - played
        if each.is_sure(sooner, run_times):
            low, middle, high = np.quantile(sooner, [0.05, 0.5, 0.95]).tolist()
            told = {"sooner": middle, "interval": [low, high], "killed": each.killed}
            found.append({"words": each.words, "asks": each.asks, **told})
    return found


def _hours(seconds: float) -> str:
    if seconds < HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.3g} h"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQueue:
    """Replays the last look with the request that a client asks about.

    A question ends QUESTION_SECONDS after it began, and then the replay under way: who asks has
    fewer draws from a queue that is slow to play, and an answer.
    """

    forecaster: Forecaster  #: of the site
    history: Callable[[], PreparedLog]  #: runs known from accounting now

    def new_job(self, queue: ForecastQueue, request: Mapping[str, Any]) -> dict[str, Any]:
        """The document of a job that is not submitted, and of other requests of it."""
        until = self.forecaster.monotonic() + QUESTION_SECONDS
        wanted = dict(request)
        advice = wanted.pop("advice", False) is True
        snapshot = with_job(queue.snapshot, AskedJob.of_document(wanted))
        place = len(snapshot.pending) - 1
        site, row, job = self._placed(snapshot, place)
        draws = self._replayed(site, job, _DRAWS, until)
        told = self.forecaster.joined(site, job, draws)
        # who is not submitted has no priority: by the order of replays
        scores = np.full(len(row), -np.inf)
        scores[row >= 0] = -self.forecaster.source.ranks(site)[row[row >= 0]]
        ahead, of_account = ahead_of(snapshot, scores)
        document = {
            "job": NOT_SUBMITTED,
            "forecast": forecast_documents(told.forecasts, snapshot.now)[0],
            "ahead": int(ahead[place]),
            "ahead_of_account": int(of_account[place]),
            "calibrated": queue.calibrated,
            "note": queue.note or None,
            "advice": self._advice(snapshot, place, site, job, draws, until) if advice else [],
        }
        return {"jobs": [document]}

    def advice(self, queue: ForecastQueue, place: int) -> list[dict[str, Any]]:
        """What other requests of a pending job of the last forecast would bring."""
        until = self.forecaster.monotonic() + QUESTION_SECONDS
        site, _, job = self._placed(queue.snapshot, place)
        draws = self._replayed(site, job, _DRAWS, until)
        return self._advice(queue.snapshot, place, site, job, draws, until)

    def _advice(
        self,
        snapshot: QueueSnapshot,
        place: int,
        site: SiteAt,
        job: IntArray,
        draws: FloatArray,
        until: float,
    ) -> list[dict[str, Any]]:
        if not site.knows_runs:  # nothing says how much shorter a limit could be
            return []
        count = draws.shape[1]

        def waits(other: QueueSnapshot) -> FloatArray:
            if self.forecaster.monotonic() >= until:
                return np.empty(0)
            try:
                there, _, asked = self._placed(other, place)
            except RequestRefused:  # so asked it never starts
                return np.full(count, np.inf)
            return np.asarray(self._replayed(there, asked, count, until)[0])

        run_times = self.forecaster.source.run_times(site, int(job[0]), RUN_DRAWS)
        others = other_partitions(snapshot, place, site.prepared.machine)
        return advice_for(snapshot, place, run_times, draws[0], waits, others)

    def _replayed(self, site: SiteAt, job: IntArray, most: int, until: float) -> FloatArray:
        """Waits of one job, [1, draws]: one, and more as far as the question's time goes."""
        seconds = min(_SECONDS, until - self.forecaster.monotonic())
        return self.forecaster.replayed(site, job, most, seconds, least=1)

    def _placed(self, snapshot: QueueSnapshot, place: int) -> tuple[SiteAt, IntArray, IntArray]:
        """The site of a look, the row of each of its pending jobs, and one of these jobs, [1]."""
        site, row = site_now(self.history(), snapshot, self.forecaster.source.half_life)
        if row[place] < 0:
            raise RequestRefused(_BAD, "the machine as it is now never holds such a job.")
        return site, row, site.pending[row[[place]]]
