"""What runs have told between two looks at the queue: who has outlived a bound, who has ended.

A running job tells that it has outlived one of SHORT_RUN_TIMES when that comes true; its end
tells the run time. No list of what was told is kept: times alone decide. An event belongs to the
one look at the queue whose interval holds its time; an end belongs to the look that reports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from slurm_rl_plugin.domain import EndedJobs, JobTable, QueueSnapshot, RunningJobs
from slurm_rl_plugin.features.history.job_keys import job_keys
from slurm_rl_plugin.features.history.run_history import SHORT_RUN_TIMES
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Kind of the event of an end; the kinds before are places in SHORT_RUN_TIMES.
ENDED = len(SHORT_RUN_TIMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvents:
    """Events in the order in which they count: by time, then kind, then job; shape [n] each.

    Attributes:
        time: seconds since the epoch.
        kind: place in SHORT_RUN_TIMES of what was outlived, or ENDED.
        job_id: who tells.
        run_time: seconds; of ends only, else 0.
        processors: of the job.
        user, template: keys of `history.job_keys`.
    """

    time: FloatArray
    kind: IntArray
    job_id: IntArray
    run_time: FloatArray
    processors: IntArray
    user: FloatArray
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
        parts = [
            *_of_running(snapshot.running, last, snapshot.now),
            *_of_ended(snapshot.ended, last),
        ]
        told = [part for part in parts if len(part[0])] or parts[:1]  # most tell nothing
        keyed = [_keyed(snapshot.users, *part) for part in told]
        columns = [np.concatenate(column) for column in zip(*keyed, strict=True)]
        time, kind, job_id = columns[:3]
        order = np.lexsort((job_id, kind, time))
        names = ("time", "kind", "job_id", "run_time", "processors", "user", "template")
        return cls(**{name: column[order] for name, column in zip(names, columns, strict=True)})


_Part = tuple[JobTable, FloatArray, int, FloatArray]


def _of_running(running: RunningJobs, last: float, now: float) -> list[_Part]:
    parts = []
    for kind, bound in enumerate(SHORT_RUN_TIMES):
        time = running.start + bound
        parts.append(_part(running.as_requested, time, kind, (time > last) & (time <= now)))
    return parts


def _of_ended(ended: EndedJobs, last: float) -> list[_Part]:
    new = np.isfinite(ended.start) & np.isfinite(ended.end)
    if ended.from_accounting:
        new &= ended.end > last
    parts = []
    for kind, bound in enumerate(SHORT_RUN_TIMES):
        time = ended.start + bound
        told = new & (time > last) & (time <= ended.end)
        parts.append(_part(ended.jobs, time, kind, told))
    run_time = np.maximum(ended.end - ended.start, 0.0)
    parts.append(_part(ended.jobs, ended.end, ENDED, new, run_time))
    return parts


def _part(
    jobs: JobTable,
    time: FloatArray,
    kind: int,
    chosen: BoolArray,
    run_time: FloatArray | None = None,
) -> _Part:
    places = np.flatnonzero(chosen)
    told = np.zeros(len(places)) if run_time is None else run_time[places]
    return jobs.select(places), time[places], kind, told


def _keyed(
    users: tuple[str, ...], jobs: JobTable, time: FloatArray, kind: int, run_time: FloatArray
) -> tuple[FloatArray | IntArray, ...]:
    kinds = np.full(len(jobs), kind, dtype=np.int64)
    return (time, kinds, jobs.job_id, run_time, jobs.processors, *job_keys(users, jobs))
