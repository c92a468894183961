"""What runs have told between two looks at the queue: who has outlived a bound, who has ended.

A running job tells that it has outlived one of BOUNDS when that comes true; its end
tells the run time. No list of what was told is kept: times alone decide. An event belongs to the
one look at the queue whose interval holds its time; an end belongs to the look that reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from slurm_rl_plugin.domain import EndedJobs, JobTable, QueueSnapshot, RunningJobs
from slurm_rl_plugin.domain.jobs import empty_job_table
from slurm_rl_plugin.features.history.job_keys import job_keys, limit_keys
from slurm_rl_plugin.features.history.run_history import BOUNDS, asked_time, request_class
from slurm_rl_plugin.units import HOUR, MINUTE, BoolArray, FloatArray, IntArray

#: Kind of the event of an end; the kinds before are places in BOUNDS.
ENDED = len(BOUNDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvents:
    """Events in the order in which they count: by time, then kind, then job; shape [n] each.

    Attributes:
        time: seconds since the epoch.
        kind: place in BOUNDS of what was outlived, or ENDED.
        job_id: who tells.
        run_time: seconds; of ends only, else 0.
        processors: of the job.
        time_limit: requested seconds, `run_history.NO_LIMIT` where none.
        alike: class of the request, a whole number (`run_history.request_class`).
        user, limits, template: keys of `history.job_keys`.
    """

    time: FloatArray
    kind: IntArray
    job_id: IntArray
    run_time: FloatArray
    processors: IntArray
    time_limit: FloatArray
    alike: FloatArray
    user: FloatArray
    limits: FloatArray
    template: FloatArray

    def __len__(self) -> int:
        return len(self.time)

    @classmethod
    def between(cls, last: float, snapshot: QueueSnapshot) -> Self:
        """The events that a snapshot adds to what was known at `last`.

        An end that is reported late, with a time before `last`, counts now; what the job had
        outlived until then was told by the job while it ran, and does not count again.

        Args:
            last: time of the snapshot before, seconds; -inf for none.
            snapshot: the queue.
        """
        parts: list[_Part] = [
            *_of_running(snapshot.running, last, snapshot.now),
            *_of_ended(snapshot.ended, last),
        ]
        if not parts:  # as most looks at a queue
            parts = [(empty_job_table(), np.empty(0), 0, np.empty(0))]
        keyed = [_keyed(snapshot.users, *part) for part in parts]
        columns = [np.concatenate(column) for column in zip(*keyed, strict=True)]
        time, kind, job_id = columns[:3]
        order = np.lexsort((job_id, kind, time))
        names = ("time", "kind", "job_id", "run_time", "processors")
        more = ("time_limit", "alike", "user", "limits", "template")
        return cls(
            **{name: column[order] for name, column in zip(names + more, columns, strict=True)}
        )


_Part = tuple[JobTable, FloatArray, int, FloatArray]


def _of_running(running: RunningJobs, last: float, now: float) -> Iterator[_Part]:
    for kind, bound in enumerate(BOUNDS):
        time = running.start + bound
        yield from _part(running.as_requested, time, kind, (time > last) & (time <= now))


def _of_ended(ended: EndedJobs, last: float) -> Iterator[_Part]:
    new = np.isfinite(ended.start) & np.isfinite(ended.end)
    if ended.from_accounting:
        new &= ended.end > last
    for kind, bound in enumerate(BOUNDS):
        time = ended.start + bound
        told = new & (time > last) & (time <= ended.end)
        yield from _part(ended.jobs, time, kind, told)
    run_time = np.maximum(ended.end - ended.start, 0.0)
    yield from _part(ended.jobs, ended.end, ENDED, new, run_time)


def _part(
    jobs: JobTable,
    time: FloatArray,
    kind: int,
    chosen: BoolArray,
    run_time: FloatArray | None = None,
) -> Iterator[_Part]:
    """The events of the chosen jobs; nothing where there is none."""
    places = np.flatnonzero(chosen)
    if len(places):
        told = np.zeros(len(places)) if run_time is None else run_time[places]
        yield jobs.select(places), time[places], kind, told


def _keyed(
    users: tuple[str, ...], jobs: JobTable, time: FloatArray, kind: int, run_time: FloatArray
) -> tuple[FloatArray | IntArray, ...]:
    kinds = np.full(len(jobs), kind, dtype=np.int64)
    asked = asked_time(jobs.time_limit)
    alike = request_class(asked, jobs.processors)
    told = (time, kinds, jobs.job_id, run_time, jobs.processors, asked, alike)
    user, template = job_keys(users, jobs)
    return (*told, user, limit_keys(user, asked), template)


#: Seconds in which a count fades to 1/e.
FADING_TIMES = (10 * MINUTE, 1 * HOUR, 6 * HOUR)
#: What is kept: [time of the counts, one count for each of FADING_TIMES].
ARRIVAL_MEMORY = 1 + len(FADING_TIMES)


def recent_arrivals(snapshot: QueueSnapshot, before: FloatArray | None = None) -> FloatArray:
    """Faded counts of interactive submissions, and when: shape [ARRIVAL_MEMORY].

    Args:
        snapshot: the queue; submissions since `before` are among its pending, running and started
            jobs.
        before: what this function gave at the previous decision; None at the first one.
    """
    fading = np.array(FADING_TIMES)
    counted_until = -np.inf if before is None else before[0]
    started, running = snapshot.started.jobs, snapshot.running.jobs
    gone = started.select(~np.isin(started.job_id, running.job_id))  # the others still run
    age = np.concatenate(
        [
            snapshot.now - table.submit[table.interactive & (table.submit > counted_until)]
            for table in (snapshot.pending.jobs, running, gone)
        ]
    )
    counts = np.exp(-np.maximum(age, 0.0)[:, None] / fading).sum(axis=0)
    if before is not None:
        counts += before[1:] * np.exp(-max(snapshot.now - before[0], 0.0) / fading)
    return np.concatenate([[snapshot.now], counts])
