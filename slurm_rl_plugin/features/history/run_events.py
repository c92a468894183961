"""Events of runs between two snapshots: a job has outlived a bound, a job has ended.

A running job has an event when it outlives one of BOUNDS; its end gives the run time. No list of
past events is kept: times alone decide. An event belongs to the snapshot whose interval holds its
time; an end belongs to the snapshot that reports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from slurm_rl_plugin.domain import JobTable, QueueSnapshot
from slurm_rl_plugin.features.history.job_keys import limit_keys, template_keys, user_keys
from slurm_rl_plugin.features.history.run_history import (
    BOUNDS,
    asked_time,
    limit_step,
    request_class,
)
from slurm_rl_plugin.units import HOUR, MINUTE, FloatArray, IntArray

#: Kind of the event of an end; the kinds before are places in BOUNDS.
ENDED = len(BOUNDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvents:
    """n events in the order in which they count: by time, then kind, then job."""

    time: FloatArray  #: seconds since the epoch, shape [n]
    kind: IntArray  #: place in BOUNDS of what was outlived, or ENDED; shape [n]
    job: IntArray  #: index into the columns of jobs; shape [n]
    run_time: FloatArray  #: seconds; of ended jobs only, else 0; shape [jobs]
    processors: IntArray  #: requested, shape [jobs]
    time_limit: FloatArray  #: requested seconds, `run_history.NO_LIMIT` where none; shape [jobs]
    #: Class of the request, a whole number (`run_history.request_class`); shape [jobs].
    request: FloatArray
    #: user, limits, template: keys of `history.job_keys`, of the template with the step of its
    #: limit; shape [jobs].
    user: FloatArray
    limits: FloatArray
    template: FloatArray

    def __len__(self) -> int:
        return len(self.time)

    @classmethod
    def between(cls, last: float, snapshot: QueueSnapshot) -> Self:
        """The events that a snapshot adds to what was known at `last`, seconds; -inf for none.

        An end that is reported late, with a time before `last`, counts now; what the job had
        outlived until then has counted while it ran, and does not count again.
        """
        running, over = snapshot.running, snapshot.ended
        new = np.isfinite(over.start) & np.isfinite(over.end)
        if over.from_accounting:
            new &= over.end > last
        over_jobs, began, end = over.jobs.select(new), over.start[new], over.end[new]
        start = np.concatenate([running.start, began])
        until = np.concatenate([np.full(len(running), snapshot.now), end])
        times = start[:, None] + np.array(BOUNDS)
        job, kind = np.nonzero((times > last) & (times <= until[:, None]))
        time = np.concatenate([times[job, kind], end])
        job = np.concatenate([job, np.arange(len(running), len(start))])
        kind = np.concatenate([kind, np.full(len(end), ENDED)])
        met, job = np.unique(job, return_inverse=True)
        job_id, user, processors, limit = (
            np.concatenate(columns)[met]
            for columns in zip(_columns(running.as_requested), _columns(over_jobs), strict=True)
        )
        order = np.lexsort((job_id[job], kind, time))
        keys, asked = user_keys(snapshot.users, user), asked_time(limit)
        ran = np.concatenate([np.zeros(len(running)), np.maximum(end - began, 0.0)])
        return cls(
            time=time[order],
            kind=kind[order],
            job=job[order],
            run_time=ran[met],
            processors=processors,
            time_limit=asked,
            request=request_class(asked, processors),
            user=keys,
            limits=limit_keys(keys, asked),
            template=template_keys(keys, processors, limit_step(asked)),
        )


def _columns(jobs: JobTable) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    return jobs.job_id, jobs.user, jobs.processors, jobs.time_limit


#: Seconds in which a count fades to 1/e.
FADING_TIMES = (10 * MINUTE, 1 * HOUR, 6 * HOUR)
#: What is kept: [time of the counts, one count for each of FADING_TIMES].
ARRIVAL_MEMORY = 1 + len(FADING_TIMES)


def recent_arrivals(snapshot: QueueSnapshot, before: FloatArray | None = None) -> FloatArray:
    """Faded counts of interactive submissions, and when: shape [ARRIVAL_MEMORY].

    Submissions since `before`, what this function gave at the previous decision, are among the
    pending, running and started jobs.
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
