"""Predictions for jobs from past runs and the queue: features of a snapshot, and quantiles.

Predictions are computed once for all jobs that have the same one, however many are pending: the
jobs of a template with a past run, or a user's jobs of one request class and time limit. Only a run
with a prediction can say whether a quantile was right, so the prediction of a job as it started is
remembered until it ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import JobTable, Memory, QueueSnapshot
from slurm_rl_plugin.features.history.past_runs import PastRuns
from slurm_rl_plugin.features.history.run_events import (
    limit_keys,
    met_users,
    template_keys,
    user_keys,
)
from slurm_rl_plugin.features.history.run_history import (
    BOUNDS,
    LIMIT_CLASSES,
    REQUEST_CLASSES,
    SPENT,
    asked_time,
    limit_class,
    limit_step,
    request_class,
    speaks_for,
)
from slurm_rl_plugin.features.history.run_prediction import (
    PARTS,
    PRIOR_RUNS,
    SHARES,
    UNKNOWN_HAZARD,
    alike_features,
    believed_rate,
    drawn,
    expected_run,
    fill_shares,
    history_features,
    learn_shares,
    nominal_shares,
    run_time_at,
)
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPast:
    """What is known of jobs, once for each group of jobs that have the same prediction."""

    hazards: FloatArray  #: as `run_prediction.fill_hazards`, shape [len(BOUNDS), groups]
    time_limit: FloatArray  #: requested seconds, shape [groups]
    speaks: BoolArray  #: whether its user's runs speak for the request, shape [groups]
    group: IntArray  #: of each template, shape [templates]
    #: Pending and running jobs of each template, shape [templates] each.
    counts: tuple[FloatArray | IntArray, IntArray]
    template: IntArray  #: of each job, shape [n]

    def quantiles(self, asked: FloatArray) -> FloatArray:
        """Seconds below which parts of the jobs' runs end, the limit at most, [n, len(PARTS)].

        `asked` are the shares that are asked for, shape [len(PARTS)].
        """
        shares = np.empty((SHARES, len(self.time_limit)))
        fill_shares(shares, self.hazards)
        found = [
            np.minimum(run_time_at(shares, asked[part]), self.time_limit)
            for part in range(len(PARTS))
        ]
        return np.asarray(np.stack(found, axis=1)[self.group[self.template]])


def known_past(
    snapshot: QueueSnapshot,
    jobs: JobTable,
    past: PastRuns,
    waits_as: FloatArray | None = None,
) -> KnownPast:
    """What past runs and the queue say of jobs of a snapshot, one at least.

    `waits_as` says how many waiting jobs each of them is; by default one.
    """
    users, which = met_users(snapshot.users, jobs.user)
    keys = template_keys(users[which], jobs.processors, jobs.time_limit)
    first, template = _templates(keys)
    of_users = past.users.rows_of(users)
    user, limit = which[first], asked_time(jobs.time_limit[first])
    processors = np.maximum(jobs.processors[first], 1).astype(np.float64)
    request = request_class(limit, processors).astype(np.int64)
    speaks = speaks_for(of_users[SPENT, user], limit, processors)
    own = template_keys(users[user], jobs.processors[first], limit_step(limit))
    row = past.templates.places(own)
    number = (user * REQUEST_CLASSES + request) * 2 + speaks
    same = _one_of_each(np.where(row >= 0, 2 * REQUEST_CLASSES * len(users) + row, number))
    same = np.where(limit == limit[same], same, np.arange(len(same)))
    one, group = _numbered(same)
    requests = _Requests(users, user[one], limit[one], request[one], speaks[one], row[one])
    pending = np.bincount(template, waits_as)
    runs = snapshot.running.as_requested
    running = template_keys(user_keys(snapshot.users, runs.user), runs.processors, runs.time_limit)
    return KnownPast(
        hazards=_hazards(past, of_users, requests),
        time_limit=limit[one],
        speaks=speaks[one],
        group=group,
        counts=(np.maximum(pending, 1), _counted(running, keys[first])),  # a job counts itself
        template=template,
    )


class _Requests(NamedTuple):
    """Requests of n groups of jobs: all columns but `users` have shape [n]."""

    users: FloatArray  #: keys of users
    user: IntArray  #: index into `users`
    time_limit: FloatArray  #: requested seconds
    request: IntArray  #: class of the request (`run_history.request_class`)
    speaks: BoolArray  #: whether its user's runs speak for the request
    template: IntArray  #: row of the template in its table, -1 where it has none


def _hazards(past: PastRuns, of_users: FloatArray, requests: _Requests) -> FloatArray:
    """As `run_prediction.fill_hazards`, each level as often as it has rows, [len(BOUNDS), n]."""
    user, limit, speaks = requests.user, requests.time_limit, requests.speaks
    site = np.full((len(BOUNDS), REQUEST_CLASSES), UNKNOWN_HAZARD)
    _draw(site, past.site.rows_of(np.arange(float(REQUEST_CLASSES))), PRIOR_RUNS[0])
    hazards = np.take(site, requests.request, axis=1)
    _draw(hazards, np.take(of_users, user, axis=1), PRIOR_RUNS[1])
    within = user * LIMIT_CLASSES + limit_class(limit).astype(np.int64)
    one, group = _numbered(_one_of_each(within))
    limits = past.limits.rows_of(limit_keys(requests.users[user[one]], limit[one]))
    _draw(hazards, np.take(limits, group, axis=1), PRIOR_RUNS[2])
    seen = np.flatnonzero(requests.template >= 0)  # few of a long queue's templates have run
    of_seen = hazards[:, seen]
    _draw(of_seen, past.templates.rows[requests.template[seen]].T, PRIOR_RUNS[3])
    hazards[:, seen] = of_seen
    silent = np.flatnonzero(~speaks)
    known = site[:, requests.request[silent]]
    hazards[:, silent] = np.minimum(hazards[:, silent], known)
    return hazards


def _draw(hazards: FloatArray, rows: FloatArray, runs: float) -> None:
    """Turn hazards of the level above, [len(BOUNDS), n], into its own by rows, [HISTORY, n]."""
    for place in range(len(BOUNDS)):
        hazards[place] = drawn(hazards[place], rows, place, runs)


def history_columns(snapshot: QueueSnapshot, past: PastRuns | KnownPast) -> NDArray[np.float32]:
    """History features of the pending jobs of a snapshot, float32[n, len(SITE.history_jobs)].

    `past` are runs up to the snapshot, or what is known of the pending jobs by them.
    """
    if len(snapshot.pending) == 0:
        return np.empty((0, len(SITE.history_jobs)), dtype=np.float32)
    known = past
    if isinstance(known, PastRuns):
        known = known_past(snapshot, snapshot.pending.jobs, known, snapshot.each_waits_as)
    mean, rate = expected_run(known.hazards, known.time_limit)
    predicted = history_features(mean, believed_rate(mean, rate, known.speaks))
    of_groups = np.stack(predicted, axis=1).astype(np.float32)
    columns = np.empty((len(known.group), len(SITE.history_jobs)), dtype=np.float32)
    columns[:, : len(predicted)] = np.take(of_groups, known.group, axis=0)
    for place, each in enumerate(alike_features(*known.counts), len(predicted)):
        columns[:, place] = known.speaks[known.group] * each
    return np.take(columns, known.template, axis=0)


def _templates(keys: FloatArray) -> tuple[IntArray, IntArray]:
    """A place of each key, in the order of keys, and the index into them of each job, [n]."""
    order = np.argsort(keys)
    ordered = keys[order]
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    template = np.empty(len(order), dtype=np.int64)
    template[order] = np.cumsum(begins) - 1
    return order[begins], template


def _one_of_each(numbers: IntArray) -> IntArray:
    """One place of each number, which is >= 0, at every place that has the number; shape [n]."""
    place = np.empty(int(numbers.max()) + 1, dtype=np.int64)
    place[numbers] = np.arange(len(numbers))
    return np.asarray(place[numbers])


def _numbered(same: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct places of `_one_of_each`, and the index into them of each, [n]."""
    is_one = same == np.arange(len(same))
    return np.flatnonzero(is_one), (np.cumsum(is_one) - 1)[same]


def _counted(keys: FloatArray, wanted: FloatArray) -> IntArray:
    """How many of `keys` are each of `wanted`."""
    met = np.sort(keys)
    return np.searchsorted(met, wanted, side="right") - np.searchsorted(met, wanted, side="left")


#: Numbers of a line (job, quantiles); numbers before them (layout, lines, shares asked for).
_LINE, _HEAD = 1 + len(PARTS), 2 + len(PARTS)
_LAYOUT = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForetoldRuns:
    """What is remembered."""

    #: Shares that are asked for, so that PARTS of the runs end below; shape [len(PARTS)].
    asked: FloatArray = field(default_factory=nominal_shares)
    #: Number and quantiles, seconds, of each running job, by number; shape [m, 1 + len(PARTS)].
    lines: FloatArray = field(default_factory=lambda: np.empty((0, _LINE)))

    @classmethod
    def from_memory(cls, memory: Memory) -> tuple[Self, Memory | None]:
        """What `to_memory` gave, and the memory behind it; None for numbers of another form."""
        count = memory[1] if len(memory) >= _HEAD and memory[0] == _LAYOUT else -1.0
        behind = _HEAD + _LINE * int(count)
        if count < 0 or count % 1 or behind > len(memory):
            return cls(), None
        lines = memory[_HEAD:behind].reshape(-1, _LINE)
        return cls(asked=memory[2:_HEAD], lines=lines), memory[behind:]

    def to_memory(self) -> Memory:
        """All of it as one vector: a head of fixed length, then the lines."""
        return np.concatenate([[_LAYOUT, len(self.lines)], self.asked, self.lines.ravel()])

    def after(self, snapshot: QueueSnapshot, past: PastRuns) -> Self:
        """Update by a snapshot: ended runs are learned, started ones get predictions by `past`."""
        learned = replace(self, asked=self._learned(snapshot))
        running = snapshot.running.as_requested
        order = np.argsort(running.job_id)
        lines = np.full((len(order), _LINE), np.nan)
        lines[:, 0] = running.job_id[order]
        met, new = _places(self.lines[:, 0], lines[:, 0])
        lines[~new] = self.lines[met[~new]]
        if new.any():
            started = running.select(order[new])
            told = known_past(snapshot, started, past)
            lines[new, 1:] = told.quantiles(learned.asked)
        return replace(learned, lines=lines)

    def _learned(self, snapshot: QueueSnapshot) -> FloatArray:
        asked = self.asked.copy()
        ended = snapshot.ended
        place, unknown = _places(self.lines[:, 0], ended.jobs.job_id.astype(np.float64))
        run_time = np.maximum(ended.end - ended.start, 0.0)
        told = ~unknown & np.isfinite(run_time)
        chosen = np.flatnonzero(told)
        for end in chosen[np.lexsort((ended.jobs.job_id[chosen], ended.end[chosen]))].tolist():
            learn_shares(asked, self.lines[place[end], 1:], run_time[end])
        return asked


def _places(known: FloatArray, wanted: FloatArray) -> tuple[IntArray, BoolArray]:
    """Where each wanted number lies in sorted ones, and which are not among them."""
    if len(known) == 0:
        return np.zeros(len(wanted), dtype=np.int64), np.ones(len(wanted), dtype=np.bool_)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return place, known[place] != wanted


def foretold_now(told: KnownPast | None, foretold: ForetoldRuns) -> FloatArray:
    """Quantiles of the pending jobs by the shares that are asked for, seconds, [n, len(PARTS)]."""
    return np.empty((0, len(PARTS))) if told is None else told.quantiles(foretold.asked)
