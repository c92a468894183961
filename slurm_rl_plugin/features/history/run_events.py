"""Events of runs between two snapshots: a job has outlived a bound, a job has ended.

A running job has an event when it outlives one of BOUNDS; its end gives the run time. No list of
past events is kept: times alone decide. An event belongs to the snapshot whose interval holds its
time; an end belongs to the snapshot that reports it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import JobTable, QueueSnapshot
from slurm_rl_plugin.features.history.run_history import (
    BOUNDS,
    asked_time,
    limit_class,
    limit_step,
    request_class,
)
from slurm_rl_plugin.units import HOUR, MINUTE, FloatArray, IntArray

#: A float64 holds integers of 53 bits; at 10,000 keys two are the same once in 10^8 tables.
_SPARE_BITS = np.uint64(12)
#: In place of the limit of a job without one.
_NO_LIMIT = -1.0


@lru_cache(maxsize=65536)
def user_key(name: str) -> float:
    """The key of one user: a whole number of 52 bits, the same on every machine."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return float(int.from_bytes(digest, "little") >> int(_SPARE_BITS))


def user_keys(users: Sequence[str], index: IntArray) -> FloatArray:
    """Keys of the users of some jobs, shape [n]; all without a name count as one user.

    `index` counts in `users`; any other number is for a job whose user is unknown.
    """
    keys, which = met_users(users, index)
    return keys[which]


def met_users(users: Sequence[str], index: IntArray) -> tuple[FloatArray, IntArray]:
    """Keys of the users whom some jobs have, and which of them each job has, shape [n]."""
    names = (*users, "")
    is_known = (index >= 0) & (index < len(users))
    place = np.where(is_known, index, len(users))
    met = np.flatnonzero(np.bincount(place, minlength=len(names)))  # a queue has few of all users
    which = np.zeros(len(names), dtype=np.int64)
    which[met] = np.arange(len(met))
    return np.array([user_key(names[user]) for user in met.tolist()]), which[place]


def template_keys(user: FloatArray, processors: IntArray, time_limit: FloatArray) -> FloatArray:
    """Keys of templates: a user's jobs that ask for the same processors and time limit.

    Mixed from the user's key in numpy: a queue may hold a template for each of 100,000 jobs. The
    time limit is in seconds, NaN where none is known; for a row of history the number of its step
    (`run_history.limit_step`).
    """
    limit = np.where(np.isnan(time_limit), _NO_LIMIT, time_limit) + 0.0  # one zero, not two
    mixed: NDArray[np.uint64] = _mixed(
        user.astype(np.uint64) ^ _mixed(processors.astype(np.uint64))
    )
    bits: NDArray[np.uint64] = np.ascontiguousarray(limit).view(np.uint64)
    mixed = _mixed(mixed ^ bits)
    return (mixed >> _SPARE_BITS).astype(np.float64)


def limit_keys(user: FloatArray, time_limit: FloatArray) -> FloatArray:
    """Keys of users' jobs with similar time limits (`run_history.limit_class`).

    Time limits are in seconds, `run_history.NO_LIMIT` where there is none.
    """
    alike: NDArray[np.uint64] = (1.0 + limit_class(time_limit)).astype(np.uint64)
    mixed: NDArray[np.uint64] = _mixed(user.astype(np.uint64) ^ _mixed(alike))
    return (mixed >> _SPARE_BITS).astype(np.float64)


def _mixed(bits: NDArray[np.uint64]) -> NDArray[Any]:
    """Every bit of the result depends on every bit given (the finish of splitmix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


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
    request: FloatArray  #: as of `run_history.request_class`, a whole number; shape [jobs]
    #: user, limits, template: keys as above, a template's with the step of its limit; shape [jobs].
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
