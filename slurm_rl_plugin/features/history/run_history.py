"""Counts of past runs: rows for a site's similar requests, users, their limits, templates.

A user's jobs whose time limits lie within the same powers of two have a row. So has a template: a
user's jobs that ask for the same processors (Gibbons 1997) and for time limits of one step
(`limit_step`), so that no user escapes past runs by asking for a minute more.
A row counts, for each of BOUNDS, runs that ended before it of those that had outlived the bound
before: how likely a run is to end there if it has come so far. So a running job counts with what it
has outlived, and one that is ended by its own time limit says nothing about how long it would have
run (Kaplan and Meier 1958). Newer runs weigh more.

A large request is judged by its user's runs only where they cost as much as it asks for, and by
those of all users elsewhere, each of whom has about one voice: a place in the queue would be had
for a few seconds of dummy runs otherwise (docs/security.md). See `speaks_for`.

Folds are plain loops over one row, which the simulator compiles; the head node folds many events at
once (`past_runs`). All else is elementwise, in plain numpy style.

A running job has an event (`RunEvents`) when it outlives one of BOUNDS; its end gives the run time.
No list of past events is kept: times alone decide. An event belongs to the snapshot whose interval
holds its time; an end belongs to the snapshot that reports it.

To predict the distribution of a job's run time, each level (similar requests at the site, the user,
the user's jobs with similar limits, the template) is drawn towards the one above it by as many runs
as PRIOR_RUNS says, bound by bound. Nothing is fitted: each run that ends or goes on counts. An
order needs the mean run time, which says what a start costs, and the mean of 1 / max(run time,
10 s), which says what a second of waiting costs in bounded slowdown. Forecasts take quantiles.

The share that is asked of a distribution moves with each run that ends above or below its
prediction, as in adaptive conformal inference (Gibbs and Candes 2021, equation 2): in the long
run a tenth of the runs ends below the quantile of a tenth.

The simulator compiles these very lines for one job, the head node runs them on columns.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import JobTable, QueueSnapshot
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, FloatArray, IntArray

#: Run times in seconds between which runs are counted apart.
BOUNDS = (
    *(10.0, 30.0, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE),
    *(HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR, 18 * HOUR, DAY, 2 * DAY),
)
#: Places in a row: runs that ended before each of BOUNDS of those that had come so far; then, of
#: users, core-seconds of runs since the last long one, the last and the last but one run time in
#: seconds, and the slow mean of 1 / max(run time, 10 s).
ENDED_BEFORE, AT_RISK = 0, len(BOUNDS)
SPENT, LAST, PREVIOUS, INVERSE = (2 * len(BOUNDS) + place for place in range(4))
HISTORY = 2 * len(BOUNDS) + 4
#: Weight of a run after the next one: at a site, of a user, similar limits, a template.
SITE_KEEPS, USER_KEEPS, LIMIT_KEEPS, TEMPLATE_KEEPS = 0.999, 0.9, 0.93, 0.6
#: Run time in seconds from which a run is a long one: what was spent before it no longer counts.
LONG_RUN = 2 * HOUR
#: Core-seconds from which a request is large: 1536 core-hours, a day on 64 processors.
LARGE_REQUEST = 1536 * HOUR
#: What a request without a time limit counts as asking for, seconds.
NO_LIMIT = BOUNDS[-1]
#: From this part of its time limit on a run counts as ended by the limit.
AS_ASKED = 0.99
#: Seconds below which bounded slowdown counts all runs as equal.
SHORTEST = 10.0
#: Weight of the newest run in the mean of inverses.
SLOW = 0.1
#: Classes of requests: by time limit from a minute on and by processors, both in powers of two.
LIMIT_CLASSES, _WIDTH_CLASSES = 16, 14
#: Steps of time limits in a power of two.
LIMIT_STEPS = 4
REQUEST_CLASSES = LIMIT_CLASSES * _WIDTH_CLASSES


def limit_class(time_limit: Any) -> Any:
    """The number of a time limit's class, below LIMIT_CLASSES; elementwise, a whole float."""
    long = np.floor(np.log2(np.maximum(time_limit / MINUTE, 1.0)))
    return np.minimum(long, LIMIT_CLASSES - 1.0)


def limit_step(time_limit: Any) -> Any:
    """The number of a time limit's step, a quarter of a power of two; elementwise, a whole float.

    Limits that people ask for, such as 10 minutes, an hour, a day or a week, are 1.6 % or more away
    from where a step begins.
    """
    return np.floor(LIMIT_STEPS * np.log2(np.maximum(time_limit / MINUTE, 1.0)) + 0.5)


def request_class(time_limit: Any, processors: Any) -> Any:
    """The number of a request's class, below REQUEST_CLASSES; elementwise, a whole float."""
    wide = np.floor(np.log2(np.maximum(processors, 1.0)))
    return limit_class(time_limit) * _WIDTH_CLASSES + np.minimum(wide, _WIDTH_CLASSES - 1.0)


def place_of(run_time: Any, time_limit: Any) -> Any:
    """The place in BOUNDS of the first bound above the length of a run that has ended.

    If its limit ended the run, len(BOUNDS) more: it has outlived that bound as far as it could.
    Twice len(BOUNDS) adds nothing to what the run has outlived before. Elementwise.
    """
    place = 0
    beyond = 0  # bounds that it reached only after its limit
    for bound in BOUNDS:
        place = place + (run_time >= bound)
        beyond = beyond + (run_time >= bound) * (bound >= AS_ASKED * time_limit)
    by_limit = run_time >= AS_ASKED * time_limit
    counts = (place < len(BOUNDS)) * (beyond == 0)
    return (place + len(BOUNDS) * by_limit) * counts + 2 * len(BOUNDS) * (1 - counts)


def asked_time(time_limit: Any) -> Any:
    """Requested seconds; NO_LIMIT where none is known. Elementwise."""
    return np.where(np.isfinite(time_limit) & (time_limit > 0.0), time_limit, NO_LIMIT)


def weight_at_site(runs: Any) -> Any:
    """The weight of a run in its request class; it falls with the user's runs there.

    So each user has about the weight of one run: a thousand dummy runs weigh some ten times as
    much as one. Elementwise.
    """
    return 1.0 / (1.0 + runs) ** 2


def weight_among_limits(runs: Any) -> Any:
    """The weight of a run among its user's of one limit class: less if its template had more.

    So a template that ran a hundred times does not decide for the user's others. Elementwise.
    """
    return 1.0 / (1.0 + runs)


def fold_outlived(row: Any, place: int, keeps: float, weight: float) -> None:
    """A run has outlived BOUNDS[place]; changes the row, shape [HISTORY], in place.

    `keeps` is SITE_KEEPS, USER_KEEPS, LIMIT_KEEPS or TEMPLATE_KEEPS; `weight` of the run is
    `weight_at_site`, `weight_among_limits`, else 1.
    """
    kept = 1.0 - weight * (1.0 - keeps)
    row[ENDED_BEFORE + place] = row[ENDED_BEFORE + place] * kept
    row[AT_RISK + place] = row[AT_RISK + place] * kept + weight


def fold_ended(row: Any, place: int, keeps: float, weight: float) -> None:
    """A run has ended at a place of `place_of`; else as `fold_outlived`."""
    if place < 2 * len(BOUNDS):
        bound = place % len(BOUNDS)
        fold_outlived(row, bound, keeps, weight)
        row[ENDED_BEFORE + bound] += weight * (place < len(BOUNDS))


def fold_spent(row: Any, run_time: float, processors: float) -> None:
    """A user's run has ended or outlived LONG_RUN; changes the user's row in place.

    The row has shape [HISTORY], the run time is in seconds.
    """
    if run_time >= LONG_RUN:
        row[SPENT] = 0.0
    else:
        row[SPENT] += run_time * processors


def fold_last(row: Any, run_time: float) -> None:
    """A user's run has ended: it is the last one now; arguments as of `fold_spent`."""
    inverse = 1.0 / max(run_time, SHORTEST)
    row[INVERSE] += (SLOW if row[INVERSE] > 0.0 else 1.0) * (inverse - row[INVERSE])
    row[PREVIOUS] = row[LAST] if row[LAST] > 0.0 else run_time
    row[LAST] = run_time


def speaks_for(spent: Any, time_limit: Any, processors: Any) -> Any:
    """Whether its user's runs speak for a request: for a large one only where they cost as much.

    `spent` are the core-seconds of the user's runs since the last long one; the time limit is in
    seconds. Elementwise.
    """
    asked = time_limit * processors
    return (asked < LARGE_REQUEST) | (spent >= asked)


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


#: Part of the runs that end before the next bound where nothing is known.
UNKNOWN_HAZARD = 0.12
#: By how many runs of the level above a site, a user, similar limits, a template are drawn.
PRIOR_RUNS = (5.0, 10.0, 6.0, 3.0)
#: The parts of the runs that are to end below the quantiles.
PARTS = (0.1, 0.25, 0.5, 0.75, 0.9)
#: log10 of the run times between which shares rise: 1 s, the bounds, ten days.
GRID = (0.0, *(math.log10(bound) for bound in BOUNDS), math.log10(10 * DAY))
#: Shares of one prediction: below each number of GRID.
SHARES = len(GRID)
#: Mean run time times mean inverse, at most, of requests for which their users' runs do not speak:
#: such runs count as an eighth of their mean at least, as large ones do on the logs.
UNPAID = 64.0
_LOG_BOUNDS = tuple(math.log(bound) for bound in BOUNDS)
#: Predicted runs count as no shorter than a minute.
_LOG_MINUTE = math.log(MINUTE)
#: Mean seconds of runs that end before the first bound.
_AT_ONCE = 6.0
#: Most similar jobs that count if none of them runs: a thousand copies count no more.
MOST_ALIKE = 8.0
#: How far a run moves what is asked for, and its least distance from 0 and 1.
_RATE, _EDGE = 0.005, 0.001
#: Keeps a step of no height from dividing by 0, and a bound from touching the next.
_NO_RISE = 1e-9


def drawn(above: Any, row: Any, place: int, runs: float) -> Any:
    """The part of the runs that end before a bound, drawn towards that of the level above.

    `row` is of the level (`run_history`), shape [HISTORY] or [HISTORY, n]; the level above counts
    as a number of `runs`, one of PRIOR_RUNS. Elementwise.
    """
    return (row[ENDED_BEFORE + place] + runs * above) / (row[AT_RISK + place] + runs)


def fill_hazards(
    hazards: Any, site: Any, user: Any, limits: Any, template: Any, speaks: Any
) -> None:
    """Parts of the runs that end before each of BOUNDS, of those that have come so far.

    If its user's runs do not speak for a request, they may only say that it runs longer than
    similar requests, not that it ends sooner: no user gains by an incredibly large request.
    `speaks` is that of `speaks_for`. Of one job, or of columns of n: hazards, which are filled,
    have the shape [len(BOUNDS)] or [len(BOUNDS), n]; rows of each level, [HISTORY] or [HISTORY, n],
    are zeros where nothing is known.
    """
    for place in range(len(BOUNDS)):
        known = drawn(UNKNOWN_HAZARD, site, place, PRIOR_RUNS[0])
        own = drawn(known, user, place, PRIOR_RUNS[1])
        own = drawn(own, limits, place, PRIOR_RUNS[2])
        own = drawn(own, template, place, PRIOR_RUNS[3])
        hazards[place] = own * speaks + np.minimum(own, known) * (1.0 - speaks)


def expected_run(hazards: Any, time_limit: Any) -> tuple[Any, Any]:
    """Mean run time in seconds, and mean of 1 / max(run time, SHORTEST), of such runs.

    Between two bounds runs are spread evenly in the logarithm of their length; who outlives all
    below the limit, requested seconds, runs as long as asked. Hazards are as of `fill_hazards`.
    """
    limit = np.maximum(time_limit, 1.0)
    log_limit, by_itself = np.log(limit), AS_ASKED * limit
    ended = hazards[0] * (by_itself > 0.0)
    mean = ended * np.minimum(_AT_ONCE, limit)
    rate = ended / SHORTEST
    outlived = 1.0 - ended
    for place in range(1, len(BOUNDS)):
        low = BOUNDS[place - 1]
        high = np.maximum(np.minimum(BOUNDS[place], limit), low * (1.0 + _NO_RISE))
        ended = outlived * hazards[place] * (low < by_itself)
        log_low = _LOG_BOUNDS[place - 1]
        span = np.maximum(np.minimum(_LOG_BOUNDS[place], log_limit) - log_low, _NO_RISE)
        seconds = ended * (high - low) / span
        mean = mean + seconds
        rate = rate + seconds / (low * high)
        outlived = outlived - ended
    return mean + outlived * limit, rate + outlived / np.maximum(limit, SHORTEST)


def believed_rate(mean: Any, rate: Any, speaks: Any) -> Any:
    """Mean inverse that counts, 1/s: at most UNPAID over the mean where its user does not speak.

    How many of such runs end at once is cheap to make up, by runs of a second; how long they are in
    the mean is not. `mean` and `rate` are those of `expected_run`. Elementwise.
    """
    return np.minimum(rate, UNPAID / mean) * (1.0 - speaks) + rate * speaks


def history_features(mean: Any, rate: Any) -> tuple[Any, ...]:
    """Features of a prediction, in the order of the `site` schema.

    The length that counts is the root of the mean run time, in seconds, over the mean inverse, a
    minute at least; the spread is near 0 where the run time is certain.
    """
    log_mean, log_rate = np.log(mean), np.log(rate)
    length = np.maximum(0.5 * (log_mean - log_rate), _LOG_MINUTE)
    return length, 0.5 * (log_mean + log_rate)


def alike_features(pending_alike: Any, running_alike: Any) -> tuple[Any, ...]:
    """Features of how many jobs of the same template there are, after those of the prediction.

    If many wait, the job itself included, and none runs, starting one of them shows how long the
    others run.
    """
    return (np.log(np.minimum(1.0 * pending_alike, MOST_ALIKE)) * (running_alike == 0),)


def nominal_shares() -> FloatArray:
    """What is asked for before any run has ended: PARTS themselves, shape [len(PARTS)]."""
    return np.array(PARTS)


def fill_shares(shares: Any, hazards: Any) -> None:
    """Fill the shares of runs below each number of GRID, [SHARES] or [SHARES, n]; they never fall.

    Hazards are as of `fill_hazards`.
    """
    shares[0] = 0.0
    for place in range(len(BOUNDS)):
        shares[place + 1] = shares[place] + (1.0 - shares[place]) * hazards[place]
    shares[SHARES - 1] = 1.0


def run_time_at(shares: Any, asked: Any) -> Any:
    """Run time in seconds below which a share of the runs falls, 1 s to ten days; elementwise."""
    length = 0.0 * shares[0]
    for step in range(SHARES - 1):
        rise = np.maximum(shares[step + 1] - shares[step], _NO_RISE)
        part = np.minimum(np.maximum((asked - shares[step]) / rise, 0.0), 1.0)
        length = length + (GRID[step + 1] - GRID[step]) * part
    return 10.0**length


def learn_shares(asked: Any, predicted: Any, run_time: float) -> None:
    """A run has ended: what is asked for moves in place, so that PARTS of the runs end below.

    By the quantiles of this run at its start; NaN without a prediction teaches nothing. In seconds,
    shape [len(PARTS)].
    """
    if math.isnan(predicted[0]):
        return
    for place in range(len(PARTS)):
        below = 1.0 if run_time <= predicted[place] else 0.0
        moved = asked[place] + _RATE * (PARTS[place] - below)
        asked[place] = min(max(moved, _EDGE), 1.0 - _EDGE)
        if place > 0 and asked[place] < asked[place - 1]:
            asked[place] = asked[place - 1]  # quantiles never cross
