"""A quantile regression forest on log waits: how long jobs waited that fell into the same leaves.

Meinshausen, "Quantile Regression Forests", JMLR 2006, with the extremely randomized trees of
Geurts, Ernst and Wehenkel, Machine Learning 2006. As ranger does, a leaf keeps a few of its waits
rather than all. Its inputs are the request, the rest of the queue, the poll, and the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from slurm_rl_plugin.domain.resources import GPUS, MEMORY, Rows
from slurm_rl_plugin.forecasts.forecast import log_waits
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import DAY, BoolArray, FloatArray, IntArray
from slurm_rl_plugin.utility.summary import one_user_capped

#: Looks a day, and how many days back.
_LOOKS, _DAYS = 6, 21
#: Waiting jobs of one look that are taken at most, evenly among all.
_OF_ONE_LOOK = 400
#: How old a look may be to count, seconds.
_REMEMBERED = 21.0 * DAY
#: Age at which a wait counts half, seconds.
_HALF_LIFE = 3.0 * DAY
#: What counts as the last day, seconds; a poll each day comes not to the second.
_LAST_DAY = 1.5 * DAY
#: Least and most that a run time over its limit counts.
_USED = (1e-3, 1.5)
REQUEST, QUEUE, SHARE, HISTORY = "request", "queue", "share", "history"
#: Ratios of two columns of a poll, if it has both: how long the queue above takes at this rate.
_OVER = {
    "hours": ("q_{}core_hours_above", "r_{}cores_above"),
    "rest": ("r_{}core_hours_above", "r_{}cores_above"),
    "jobs": ("q_{}jobs_above", "r_{}jobs_above"),
    "cores": ("q_{}cores_above", "r_{}cores_above"),
    "GPU hours": ("q_{}gpu_hours_above", "r_{}gpus_above"),
}
#: Of everybody, of its partition, of its account, of its account in its partition.
_SCOPES = ("", "p_", "a_", "p_a_")
#: In place of an infinite number of a look.
_ENDLESS = 1e15
#: Rows of one template at one moment that are fitted to. A thousand equal jobs hold little more
#: information than a few of them.
MOST_ALIKE = 4
#: A batch of n equal jobs counts as n to this power.
_COUNTS = 0.5
#: A wait that still lasts is taken as this multiple of its length, as in a heavy tail.
_STILL_WAITS = 2.0
_TREES = 60
_LEAST_IN_LEAF = 5
_FEATURES_A_SPLIT = 0.6
#: Waits that each leaf keeps.
_KEPT = 4
#: In place of unknown values; below all known ones, so that a split can separate it.
_UNKNOWN = -20.0


def polled_log(prepared: PreparedLog, now: float) -> SeenJobs:
    """Jobs that waited at looks of the last three weeks, with what is known of them by now.

    Jobs that still wait may be in the log with any start later than `now`.
    """
    log = prepared.log
    first = max(float(log.submit[0]), now - _DAYS * DAY)
    moments = np.arange(now - DAY / _LOOKS, first, -DAY / _LOOKS)[::-1]
    looks = []
    for moment in moments.tolist():
        # as live, nothing is forecast of a job that could not start yet
        could = ~(log.eligible > moment)
        waited = np.flatnonzero((log.submit < moment) & (log.start > moment) & could)
        if len(waited) > _OF_ONE_LOOK:
            waited = waited[np.linspace(0, len(waited) - 1, _OF_ONE_LOOK).astype(np.int64)]
        looks.append(seen_now(prepared, moment, waited))
    nobody = np.empty(0, dtype=np.int64)
    return seen_now(prepared, now, nobody).joined(*looks).as_known_at(now)


def seen_now(prepared: PreparedLog, moment: float, jobs: IntArray) -> SeenJobs:
    """Jobs of a log as they were seen waiting at a moment, with their recorded starts."""
    log = prepared.log.select(jobs)
    asked, nothing = log.requests, np.zeros(len(jobs))
    return SeenJobs(
        moment=np.full(len(jobs), moment),
        submit=log.submit,
        eligible=np.where(np.isfinite(log.eligible), log.eligible, log.submit),
        limit=log.time_limit,
        cpus=log.processors.astype(np.float64),
        memory=nothing if asked is None else asked.of(MEMORY),
        gpus=nothing if asked is None else asked.of(GPUS),
        nodes=np.maximum(nothing if asked is None else asked.nodes, 1.0),
        priority=np.full(len(jobs), np.nan),
        account=log.account,
        partition=log.partition,
        start=log.start,
        end=log.start + log.run_time,
        user=log.user,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJobs(Rows):
    """One row for each time that a job was seen pending; arrays of shape [n]."""

    moment: FloatArray  #: when it was seen, seconds
    submit: FloatArray  #: when it was submitted, seconds
    #: Since when nothing but its place in the queue holds it, seconds; nan where a dependency or a
    #: begin time still holds it. It is not known then when that ends.
    eligible: FloatArray
    limit: FloatArray  #: its time limit, seconds; nan for none
    cpus: FloatArray  #: asked for
    memory: FloatArray  #: asked for, any unit
    gpus: FloatArray  #: asked for
    nodes: FloatArray  #: asked for
    priority: FloatArray  #: at that moment, any unit, higher goes first; nan where unknown
    account: IntArray  #: any number for each account
    partition: IntArray  #: any number for each partition
    start: FloatArray  #: when it started, seconds; nan where it has not
    end: FloatArray  #: when it ended, seconds; nan where it has not
    #: Name -> state of the queue and the machine at that moment, as the polls of Graham and
    #: Cedar (2021) have it: `q_` jobs above it in the queue, `r_` running, of them `p_` in its
    #: partition, `a_` of its account. Empty where accounting alone is known.
    look: Mapping[str, FloatArray] = field(default_factory=dict)
    #: From when on its start counts as known, seconds; None for its start itself, which is right
    #: but where a published protocol knows more.
    told: FloatArray | None = None
    user: IntArray | None = None  #: any number for each user; None where no user is known

    def __len__(self) -> int:
        """How many rows."""
        return len(self.moment)

    @property
    def wait(self) -> FloatArray:
        """Seconds from the look to the start; nan where it has not started."""
        return self.start - self.moment

    @property
    def template(self) -> IntArray:
        """A number for each kind of job: same account, partition and request."""
        asked = (self.cpus, self.memory, self.gpus, np.nan_to_num(self.limit, nan=-1.0))
        return codes_of(self.account, self.partition, *asked)

    def started_by(self, moment: float) -> BoolArray:
        """Whether it is known at a moment when each started."""
        return np.asarray((self.start if self.told is None else self.told) <= moment)

    def log_wait_by(self, moment: float) -> FloatArray:
        """log10 of each wait as known at a later moment: whole, or what it has been so far."""
        return log_waits(np.where(self.started_by(moment), self.wait, moment - self.moment))

    def select(self, which: BoolArray | IntArray) -> SeenJobs:
        """Some of the rows."""
        look = {name: values[which] for name, values in self.look.items()}
        return replace(Rows.select(self, which), look=look)

    def as_known_at(self, moment: float) -> SeenJobs:
        """What was known at a moment: the rows seen before, starts and ends that had happened."""
        seen = self.select(self.moment < moment)
        return replace(
            seen,
            start=np.where(seen.start <= moment, seen.start, np.nan),
            end=np.where(seen.end <= moment, seen.end, np.nan),
        )


def codes_of(*columns: FloatArray | IntArray) -> IntArray:
    """A number from 0 for each distinct row of some columns, in their order, int64[n]."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, place = np.unique(column, return_inverse=True)
        codes = codes * len(values) + place
        # numbered anew each time, so that the product cannot grow out of 64 bits
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return codes


class _Memory(NamedTuple):
    """Earlier looks as they are known at a moment; arrays of shape [earlier]."""

    moment: float
    rows: IntArray
    seen: FloatArray
    start: FloatArray
    started: FloatArray
    wait: FloatArray
    used: FloatArray


def groups_of(jobs: SeenJobs) -> Mapping[str, IntArray]:
    """Name -> whose history each job shares, int64[n]."""
    limit = _octave(np.nan_to_num(jobs.limit, nan=DAY))
    return {
        "account": codes_of(jobs.account),
        "account in partition": codes_of(jobs.account, jobs.partition),
        "template": jobs.template,
        "partition": codes_of(jobs.partition),
        "size": codes_of(limit, _octave(jobs.cpus), np.minimum(jobs.gpus, 1.0)),
        "all": np.zeros(len(jobs), dtype=np.int64),
    }


def _octave(values: FloatArray) -> FloatArray:
    return np.asarray(np.round(np.log2(np.maximum(values, 1.0))))


def history_features(jobs: SeenJobs, at: float | None = None) -> dict[str, FloatArray]:
    """Columns for each group, float64[n]; nan where unknown and, where `at` is given, elsewhere."""
    groups = groups_of(jobs)
    found: dict[str, FloatArray] = {}
    for moment in np.unique(jobs.moment) if at is None else [at]:
        memory = _memory_at(jobs, moment)
        if len(memory.rows) == 0:
            continue
        now = jobs.moment == moment
        for name, codes in groups.items():
            told = _known_of(codes[memory.rows], int(codes.max()) + 1, memory)
            for column, values in told.items():
                wanted = found.setdefault(f"{name}: {column}", np.full(len(jobs), np.nan))
                wanted[now] = values[codes[now]]
    return found


def _memory_at(jobs: SeenJobs, moment: float) -> _Memory:
    rows = np.flatnonzero((jobs.moment < moment) & (jobs.moment >= moment - _REMEMBERED))
    seen, start, end = jobs.moment[rows], jobs.start[rows], jobs.end[rows]
    started = start <= moment
    with np.errstate(invalid="ignore"):
        used = np.log10(np.clip((end - start) / jobs.limit[rows], *_USED))
    return _Memory(
        moment=moment,
        rows=rows,
        seen=seen,
        start=np.where(started, start, -np.inf),
        started=started.astype(np.float64),
        wait=log_waits(np.where(started, start, moment) - seen),
        used=np.where(end <= moment, used, np.nan),
    )


def _known_of(codes: IntArray, number: int, memory: _Memory) -> dict[str, FloatArray]:
    """What a memory knows of each group, float64[number] each."""
    age = memory.moment - memory.seen
    weight = 0.5 ** (age / _HALF_LIFE)
    lately = (age < _LAST_DAY).astype(np.float64)
    finished = np.isfinite(memory.used)
    started_lately = memory.started * (memory.start > memory.moment - DAY)
    last = np.full(number, -np.inf)
    np.maximum.at(last, codes, memory.start)

    def total(weights: FloatArray) -> FloatArray:
        return np.bincount(codes, weights, number).astype(np.float64)

    with np.errstate(invalid="ignore", divide="ignore"):
        since = np.where(np.isfinite(last), np.log10(1.0 + memory.moment - last), np.nan)
        return {
            "mean log wait": total(weight * memory.wait) / total(weight),
            "looks": np.log10(0.01 + total(weight)),
            "mean log wait of the last day": total(lately * memory.wait) / total(lately),
            "looks of the last day": np.log10(1.0 + total(lately)),
            "part that still waits": total(1.0 - memory.started) / total(np.ones(len(codes))),
            "starts of the last day": np.log10(1.0 + total(started_lately)),
            "log time since a start": since,
            "mean log part of the limit used": total(weight * np.nan_to_num(memory.used))
            / total(weight * finished),
        }


class FeatureTable(NamedTuple):
    """Inputs of a model."""

    names: tuple[str, ...]  #: of the columns
    values: FloatArray  #: float64[n, names], nan where nothing is known
    kinds: tuple[str, ...]  #: of the columns: REQUEST, QUEUE, SHARE or HISTORY

    def columns(self, *left_out: str) -> BoolArray:
        """Which columns are of no kind that is left out, bool[names]."""
        return np.array([kind not in left_out for kind in self.kinds], dtype=np.bool_)


def features_of(jobs: SeenJobs, at: float | None = None) -> FeatureTable:
    """What is known of each job at the moment that it was seen, and nothing of later.

    Args:
        at: the one moment whose rows are wanted, seconds, to spare the time for the others, whose
            history stays nan; None for all.
    """
    of_kinds = {
        REQUEST: _request(jobs),
        QUEUE: {**_above(jobs), **_beside(jobs)},
        SHARE: {name: _signed_log(each) for name, each in _told(jobs, queue=False).items()},
        HISTORY: history_features(jobs, at),
    }
    columns = {name: each for columns in of_kinds.values() for name, each in columns.items()}
    return FeatureTable(
        names=tuple(columns),
        values=np.column_stack(list(columns.values())),
        kinds=tuple(kind for kind, columns in of_kinds.items() for _ in columns),
    )


def _request(jobs: SeenJobs) -> dict[str, FloatArray]:
    """What the job asks for, and how long it has waited."""
    cpus, held = np.maximum(jobs.cpus, 1.0), ~np.isfinite(jobs.eligible)
    return {
        "limit": np.log10(np.maximum(jobs.limit, 1.0)),
        "cpus": np.log10(cpus),
        "memory": np.log10(1.0 + jobs.memory),
        "memory a cpu": np.log10(1.0 + jobs.memory / cpus),
        "gpus": jobs.gpus,
        "gpus a cpu": jobs.gpus / cpus,
        "nodes": np.log10(np.maximum(jobs.nodes, 1.0)),
        "age": np.log10(1.0 + np.maximum(jobs.moment - jobs.submit, 0.0)),
        "eligible": np.log10(1.0 + np.maximum(np.where(held, 0.0, jobs.moment - jobs.eligible), 0)),
        "held": held.astype(np.float64),
        "priority": jobs.priority,
        "partition": jobs.partition.astype(np.float64),
        "day of the week": np.floor(jobs.moment / DAY) % 7.0,
    }


def _told(jobs: SeenJobs, *, queue: bool) -> dict[str, FloatArray]:
    """Columns of a poll on queue and machine, or its other columns."""
    return {
        name: np.nan_to_num(values, nan=np.nan, posinf=_ENDLESS, neginf=-_ENDLESS)
        for name, values in jobs.look.items()
        if name.startswith(("q_", "r_")) == queue
    }


def _above(jobs: SeenJobs) -> dict[str, FloatArray]:
    """What waits above and what runs, on a logarithmic scale, and their ratios."""
    told = _told(jobs, queue=True)
    found = {name: _signed_log(values) for name, values in told.items()}
    for scope in _SCOPES:
        for what, (above, below) in _OVER.items():
            upper, lower = above.format(scope), below.format(scope)
            if upper in told and lower in told:
                ratio = np.maximum(told[upper], 0.0) / np.maximum(told[lower], 1.0)
                found[f"{what} above over running, {scope}"] = _signed_log(ratio)
    return found


def _beside(jobs: SeenJobs) -> dict[str, FloatArray]:
    """How many similar jobs wait, and the place of the job among them."""
    found = {}
    groups = groups_of(jobs)
    age = jobs.moment - jobs.submit
    priority = np.nan_to_num(jobs.priority)
    for name in ("account", "account in partition", "template", "partition"):
        codes = codes_of(groups[name], jobs.moment)
        count = np.bincount(codes).astype(np.float64)
        order = np.lexsort((jobs.submit, -priority, codes))
        place = np.empty(len(jobs))
        place[order] = np.arange(len(jobs)) - (np.cumsum(count) - count)[codes[order]]
        mean_age = (np.bincount(codes, age) / np.maximum(count, 1.0))[codes]
        found[f"{name}: waiting"] = np.log10(count[codes])
        found[f"{name}: place"] = np.log10(1.0 + place)
        found[f"{name}: part before it"] = place / count[codes]
        found[f"{name}: older than its like"] = _signed_log(age - mean_age)
    return found


def _signed_log(values: FloatArray) -> FloatArray:
    return np.sign(values) * np.log10(1.0 + np.abs(values))


class TrainingRows(NamedTuple):
    """Rows to fit to."""

    rows: IntArray  #: places in the jobs, int64[m]
    log_wait: FloatArray  #: log10 of the wait as it is known, float64[m]
    weight: FloatArray  #: how much each counts, float64[m]


def known_log_waits(jobs: SeenJobs, moment: float) -> FloatArray:
    """log10 of each wait as it is taken at a moment, those that still last longer, float64[n]."""
    so_far = jobs.log_wait_by(moment)
    return np.where(jobs.started_by(moment), so_far, so_far + np.log10(_STILL_WAITS))


def training_rows(
    jobs: SeenJobs, moment: float, samples: int, rng: np.random.Generator
) -> list[TrainingRows]:
    """Rows of the jobs that were seen before a moment, and what is known of their waits by then.

    `samples` says how often rows are chosen among equal jobs.
    """
    before = np.flatnonzero(jobs.moment < moment)
    seen = replace(jobs, look={}).select(before)
    log_wait, batch = known_log_waits(seen, moment), codes_of(seen.moment, seen.template)
    count = np.bincount(batch)
    first, number = np.cumsum(count) - count, count[batch]
    weight = number**_COUNTS / np.minimum(number, MOST_ALIKE)
    found = []
    for _ in range(samples):
        order = np.lexsort((rng.random(len(before)), batch))
        kept = np.sort(order[np.arange(len(before)) - first[batch[order]] < MOST_ALIKE])
        counts = weight[kept]
        if seen.user is not None:
            counts = one_user_capped(counts, seen.user[kept])
        found.append(TrainingRows(before[kept], log_wait[kept], counts))
    return found


class WaitForest(NamedTuple):
    """A fitted forest."""

    trees: ExtraTreesRegressor  #: of scikit-learn
    kept: tuple[FloatArray, ...]  #: of each tree, log waits by node, float64[nodes, kept]

    def mean(self, features: FloatArray) -> FloatArray:
        """The mean log10 wait of similar jobs, float64[n]."""
        return np.asarray(self.trees.predict(_known(features)), dtype=np.float64)

    def draws(self, features: FloatArray) -> FloatArray:
        """Log10 waits of similar jobs, float64[n, trees x kept]."""
        leaves = self.trees.apply(_known(features))
        return np.hstack([kept[leaves[:, tree]] for tree, kept in enumerate(self.kept)])


def fit_forest(
    features: FloatArray, log_wait: FloatArray, weight: FloatArray, rng: np.random.Generator
) -> WaitForest:
    """Grow a forest on features, float[n, columns], nan where not known; the others have [n]."""
    trees = ExtraTreesRegressor(
        n_estimators=_TREES,
        min_samples_leaf=_LEAST_IN_LEAF,
        max_features=_FEATURES_A_SPLIT,
        random_state=int(rng.integers(2**31)),
    ).fit(_known(features), log_wait, sample_weight=weight)
    leaves = trees.apply(_known(features))
    kept = tuple(
        _waits_kept(leaves[:, place], tree.tree_.node_count, log_wait, weight, rng)
        for place, tree in enumerate(trees.estimators_)
    )
    return WaitForest(trees, kept)


def _waits_kept(
    leaf: IntArray, nodes: int, log_wait: FloatArray, weight: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """For each node some waits of its jobs, each as often as it counts, float64[nodes, kept]."""
    order = np.lexsort((log_wait, leaf))
    reached = np.cumsum(weight[order])
    total = np.bincount(leaf, weight, nodes)
    first = np.cumsum(total) - total
    part = (np.arange(_KEPT) + rng.random((nodes, _KEPT))) / _KEPT
    at = np.searchsorted(reached, first[:, None] + part * total[:, None])
    return np.asarray(log_wait[order][np.minimum(at, len(leaf) - 1)], dtype=np.float64)


def _known(features: FloatArray) -> FloatArray:
    return np.nan_to_num(features, nan=_UNKNOWN, posinf=-_UNKNOWN, neginf=_UNKNOWN)
