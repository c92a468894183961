"""What the head node remembers of past runs: rows of request classes, users, limits, templates.

The rules are those of `history.run_history`; the simulator keeps the same rows. Events count by
time, then kind, then job. Many are folded at once, with the result of one after the other: each
event multiplies the count of its row and bound and adds its own weight (`run_history.fold_ended`),
so the final weight of an event is what all later events leave of it. All runs of a user, and of a
template, weigh the same there, so the count before an event follows from the number of events
before it. That count weighs the event at the levels above.

Predictions for jobs from past runs and the queue: features of a snapshot, and quantiles.

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
from slurm_rl_plugin.features.history import run_history as rules
from slurm_rl_plugin.features.history.run_history import (
    AT_RISK,
    BOUNDS,
    ENDED,
    ENDED_BEFORE,
    HISTORY,
    INVERSE,
    LAST,
    PARTS,
    PREVIOUS,
    REQUEST_CLASSES,
    SLOW,
    SPENT,
    RunEvents,
)
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray


class Level(NamedTuple):
    """Rows that events change."""

    rows: FloatArray  #: changed in place, shape [HISTORY, rows]
    row: IntArray  #: index of the row that each event changes, shape [n]


class _Turns(NamedTuple):
    """Events by group, and within a group in the order in which they count."""

    order: IntArray  #: place of each event, shape [n]
    first: IntArray  #: where each group begins in `order`, shape [groups]
    length: IntArray  #: events of each group, shape [groups]
    group: IntArray  #: number of each group, shape [groups]

    @classmethod
    def of(cls, group: IntArray) -> _Turns:
        """The turns of events in the order in which they count; `group` has shape [n]."""
        bits = len(group).bit_length()  # sorting numbers is faster than ranking them
        ordered = np.sort((group << bits) + np.arange(len(group)))
        order, group = ordered & ((1 << bits) - 1), ordered >> bits
        first = np.flatnonzero(np.diff(group, prepend=-1))
        return cls(order, first, np.diff(first, append=len(order)), group[first])

    @property
    def last(self) -> IntArray:
        """Where each group ends in `order`, shape [groups]."""
        return self.first + self.length - 1

    def before(self) -> IntArray:
        """Events of the same group before each event of `order`, shape [n]."""
        return np.arange(len(self.order)) - np.repeat(self.first, self.length)

    def counts_before(self, level: Level, keeps: float) -> FloatArray:
        """The count of each event's row and bound before it, shape [n]; all events weigh 1."""
        row, bound = np.divmod(self.group, len(BOUNDS))
        at_risk = level.rows[AT_RISK + bound, row]
        kept = (keeps ** np.arange(int(self.length.max(initial=0))))[self.before()]
        found = np.empty(len(self.order))
        found[self.order] = np.repeat(at_risk, self.length) * kept + (1.0 - kept) / (1.0 - keeps)
        return found

    def fold(self, level: Level, ended: BoolArray, weight: FloatArray, keeps: float) -> None:
        """Add the events to each row and bound of a level; groups are row * len(BOUNDS) + bound.

        `ended` says whether the run ended before the bound, `weight` is of each event, shape [n]
        each.
        """
        row, bound = np.divmod(self.group, len(BOUNDS))
        weight, ended = weight[self.order], ended[self.order]
        kept = np.log1p(-weight * (1.0 - keeps))
        so_far = np.cumsum(kept)
        until = so_far[self.last]
        weight *= np.exp(np.repeat(until, self.length) - so_far)  # what later events leave of it
        of_old = np.exp(until - so_far[self.first] + kept[self.first])
        for place, added in ((AT_RISK, weight), (ENDED_BEFORE, weight * ended)):
            old = level.rows[place + bound, row] * of_old
            level.rows[place + bound, row] = old + np.add.reduceat(added, self.first)


def fold_events(
    events: RunEvents, site: Level, users: Level, limits: Level, templates: Level
) -> None:
    """Add every event, one at least, to the rows of its levels, which change."""
    of_ends = rules.place_of(events.run_time, events.time_limit)[events.job]
    place = np.where(events.kind == ENDED, of_ends, events.kind + len(BOUNDS))
    counted = np.flatnonzero(place < 2 * len(BOUNDS))
    if len(counted):
        ended, bound = place[counted] < len(BOUNDS), place[counted] % len(BOUNDS)
        site, whose, limits, templates = (
            Level(each.rows, each.row[counted]) for each in (site, users, limits, templates)
        )
        of_site, of_user, of_limits, of_template = (
            _Turns.of(each.row * len(BOUNDS) + bound) for each in (site, whose, limits, templates)
        )
        at_site = rules.weight_at_site(of_user.counts_before(whose, rules.USER_KEEPS))
        among = rules.weight_among_limits(
            of_template.counts_before(templates, rules.TEMPLATE_KEEPS)
        )
        whole = np.ones(len(counted))
        of_site.fold(site, ended, at_site, rules.SITE_KEEPS)
        of_limits.fold(limits, ended, among, rules.LIMIT_KEEPS)
        of_user.fold(whose, ended, whole, rules.USER_KEEPS)
        of_template.fold(templates, ended, whole, rules.TEMPLATE_KEEPS)
    _fold_spent(events, users)
    _fold_last(events, users)


def _fold_spent(events: RunEvents, users: Level) -> None:
    """Add runs that have ended or outlived LONG_RUN to users' rows (`run_history.fold_spent`)."""
    ended = events.kind == ENDED
    pays = np.flatnonzero(ended | (events.kind == BOUNDS.index(rules.LONG_RUN)))
    turns = _Turns.of(users.row[pays])
    pays = pays[turns.order]
    run_time = events.run_time[events.job[pays]]
    long = ~ended[pays] | (run_time >= rules.LONG_RUN)
    if len(pays) == 0:
        return
    place = np.arange(len(pays))
    last_long = np.maximum.reduceat(np.where(long, place, -1), turns.first)
    spent = run_time * events.processors[events.job[pays]]
    spent *= place > np.repeat(last_long, turns.length)
    user = turns.group
    users.rows[SPENT, user] *= last_long < 0
    users.rows[SPENT, user] += np.add.reduceat(spent, turns.first)


def _fold_last(events: RunEvents, users: Level) -> None:
    """Add runs that have ended to users' rows (`run_history.fold_last`)."""
    ends = np.flatnonzero(events.kind == ENDED)
    if len(ends) == 0:
        return
    turns = _Turns.of(users.row[ends])
    run_time = events.run_time[events.job[ends[turns.order]]]
    user, last = turns.group, run_time[turns.last]
    new = users.rows[INVERSE, user] <= 0.0
    weight = SLOW * (1.0 - SLOW) ** (np.repeat(turns.length, turns.length) - 1.0 - turns.before())
    weight[turns.first[new]] /= SLOW  # a first run counts whole
    inverse = np.add.reduceat(weight / np.maximum(run_time, rules.SHORTEST), turns.first)
    users.rows[INVERSE, user] = users.rows[INVERSE, user] * (1.0 - SLOW) ** turns.length + inverse
    previous = np.where(turns.length > 1, run_time[turns.last - 1], users.rows[LAST, user])
    users.rows[PREVIOUS, user] = np.where(previous > 0.0, previous, last)
    users.rows[LAST, user] = last


def _places(known: FloatArray, wanted: FloatArray) -> IntArray:
    """Where each wanted number lies in sorted ones, -1 where it is not among them; shape [m]."""
    if len(known) == 0:
        return np.full(len(wanted), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, place, -1)


#: Numbers of a line: key, time of the last event, the row of history.
LINE = 2 + HISTORY
_KEY, _HEARD, _ROW = 0, 1, 2


@dataclass(frozen=True, slots=True)
class HistoryTable:
    """Rows of history (`history.run_history`); `lines` has shape [n, LINE], sorted by key."""

    lines: FloatArray

    def __len__(self) -> int:
        return len(self.lines)

    @classmethod
    def empty(cls) -> Self:
        """A table without rows, shape [0, LINE]."""
        return cls(np.empty((0, LINE)))

    @property
    def rows(self) -> FloatArray:
        """The rows in the order of the table, shape [n, HISTORY]."""
        return self.lines[:, _ROW:]

    def places(self, keys: FloatArray) -> IntArray:
        """Place of each key, -1 where it has no row; shape [m]."""
        return _places(np.ascontiguousarray(self.lines[:, _KEY]), keys)

    def rows_of(self, keys: FloatArray) -> FloatArray:
        """A copy of the row of each key, zeros where there is none; shape [HISTORY, m]."""
        place = self.places(keys)
        known = place >= 0
        if not known.any():
            return np.zeros((HISTORY, len(keys)))
        rows = np.take(self.rows.T, place, axis=1)
        rows *= known
        return rows

    def with_rows(
        self, keys: FloatArray, heard: FloatArray, rows: FloatArray, at_most: int
    ) -> Self:
        """A table with rows [HISTORY, m] replaced or added, and no more than `at_most` of them.

        Their keys are ascending. Beyond `at_most` the rows with the oldest last event, which was
        `heard` in seconds since the epoch, are dropped.
        """
        changed = np.concatenate([[keys, heard], rows]).T
        place = self.places(keys)
        lines, old = self.lines.copy(), place >= 0
        earlier = lines[place[old], _HEARD]
        lines[place[old]] = changed[old]
        lines[place[old], _HEARD] = np.maximum(earlier, heard[old])
        added = changed[~old]
        at = np.searchsorted(lines[:, _KEY], added[:, _KEY])
        lines = np.insert(lines, at, added, axis=0)
        too_many = len(lines) - at_most
        if too_many > 0:  # of one time the smallest keys stay
            times = lines[:, _HEARD]
            last = np.partition(times, too_many - 1)[too_many - 1]
            silent = np.flatnonzero(times <= last)
            silent = silent[np.lexsort((-lines[silent, _KEY], times[silent]))[:too_many]]
            lines = np.delete(lines, silent, axis=0)
        return type(self)(lines)


#: What is remembered at most; beyond that, those with the oldest last events are dropped.
USERS_AT_MOST = 2_000
LIMITS_AT_MOST = 4_000
TEMPLATES_AT_MOST = 8_000
#: Seconds by which the time of a memory may be ahead of a clock that was set back: no event counts
#: twice. Further ahead, the time is of a clock that was wrong: no event would count until then.
LONGEST_AHEAD = 3600.0
#: Version of the order of numbers in a memory.
_LAYOUT = 5.0
#: Numbers before the tables: layout, time, how many rows each of them has.
_HEAD = 2 + 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRuns:
    """Rows of history as the runs up to a time have filled them."""

    time: float = -np.inf  #: until which events have counted, seconds; -inf before the first
    #: A row for each class of requests (`run_history.request_class`).
    site: HistoryTable = field(default_factory=HistoryTable.empty)
    users: HistoryTable = field(default_factory=HistoryTable.empty)  #: a row for each user
    #: A row for each user's jobs of one limit class (`run_history.limit_class`).
    limits: HistoryTable = field(default_factory=HistoryTable.empty)
    templates: HistoryTable = field(default_factory=HistoryTable.empty)  #: a row for each template

    @classmethod
    def from_memory(cls, memory: Memory) -> Self | None:
        """What `to_memory` gave, joined, as a view of it; None for numbers of another form."""
        if len(memory) < _HEAD or memory[0] != _LAYOUT:
            return None
        behind = memory[_HEAD:]
        rows = memory[2:_HEAD]
        if (rows < 0).any() or (rows % 1 != 0).any() or rows.sum() * LINE != len(behind):
            return None
        ends = np.cumsum(rows[:-1]).astype(np.int64)
        tables = np.split(behind.reshape(-1, LINE), ends)
        site, users, limits, templates = (HistoryTable(each) for each in tables)
        time = float(memory[1])
        return cls(time=time, site=site, users=users, limits=limits, templates=templates)

    def to_memory(self) -> list[FloatArray]:
        """Vectors to be joined: a head of fixed length, then the lines of the tables; no copies."""
        tables = (self.site, self.users, self.limits, self.templates)
        head = np.array([_LAYOUT, self.time, *(len(each) for each in tables)])
        return [head, *(table.lines.ravel() for table in tables)]

    def after(self, snapshot: QueueSnapshot) -> Self:
        """What is known after a snapshot; each event counts once, at any pace of snapshots."""
        events = RunEvents.between(self.time, snapshot)
        ahead = self.time - snapshot.now > LONGEST_AHEAD
        now = snapshot.now if ahead else max(self.time, snapshot.now)
        if len(events) == 0:
            return replace(self, time=now)
        keys = (events.request, events.user, events.limits, events.template)
        tables = (self.site, self.users, self.limits, self.templates)
        most = (REQUEST_CLASSES, USERS_AT_MOST, LIMITS_AT_MOST, TEMPLATES_AT_MOST)
        known, levels = [], []
        for table, each in zip(tables, keys, strict=True):
            distinct, row = np.unique(each, return_inverse=True)
            known.append(distinct)
            levels.append(Level(table.rows_of(distinct), row[events.job]))
        fold_events(events, *levels)
        site, users, limits, templates = (
            table.with_rows(each, _heard(level, events.time), level.rows, at_most)
            for table, each, level, at_most in zip(tables, known, levels, most, strict=True)
        )
        return replace(self, time=now, site=site, users=users, limits=limits, templates=templates)


def _heard(level: Level, time: FloatArray) -> FloatArray:
    """Time of each row's last event, seconds since the epoch; `time` of events is ascending."""
    heard = np.empty(level.rows.shape[1])
    heard[level.row] = time  # the last one stays
    return heard


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPast:
    """What is known of jobs, once for each group of jobs that have the same prediction."""

    hazards: FloatArray  #: as `run_history.fill_hazards`, shape [len(BOUNDS), groups]
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
        shares = np.empty((rules.SHARES, len(self.time_limit)))
        rules.fill_shares(shares, self.hazards)
        found = [
            np.minimum(rules.run_time_at(shares, asked[part]), self.time_limit)
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
    users, which = rules.met_users(snapshot.users, jobs.user)
    keys = rules.template_keys(users[which], jobs.processors, jobs.time_limit)
    first, template = _templates(keys)
    of_users = past.users.rows_of(users)
    user, limit = which[first], rules.asked_time(jobs.time_limit[first])
    processors = np.maximum(jobs.processors[first], 1).astype(np.float64)
    request = rules.request_class(limit, processors).astype(np.int64)
    speaks = rules.speaks_for(of_users[SPENT, user], limit, processors)
    own = rules.template_keys(users[user], jobs.processors[first], rules.limit_step(limit))
    row = past.templates.places(own)
    number = (user * REQUEST_CLASSES + request) * 2 + speaks
    same = _one_of_each(np.where(row >= 0, 2 * REQUEST_CLASSES * len(users) + row, number))
    same = np.where(limit == limit[same], same, np.arange(len(same)))
    one, group = _numbered(same)
    requests = _Requests(users, user[one], limit[one], request[one], speaks[one], row[one])
    pending = np.bincount(template, waits_as)
    runs = snapshot.running.as_requested
    running = rules.template_keys(
        rules.user_keys(snapshot.users, runs.user), runs.processors, runs.time_limit
    )
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
    """As `run_history.fill_hazards`, each level as often as it has rows, [len(BOUNDS), n]."""
    user, limit, speaks = requests.user, requests.time_limit, requests.speaks
    site = np.full((len(BOUNDS), REQUEST_CLASSES), rules.UNKNOWN_HAZARD)
    _draw(
        site,
        past.site.rows_of(np.arange(float(REQUEST_CLASSES))),
        rules.PRIOR_RUNS[0],
    )
    hazards = np.take(site, requests.request, axis=1)
    _draw(hazards, np.take(of_users, user, axis=1), rules.PRIOR_RUNS[1])
    within = user * rules.LIMIT_CLASSES + rules.limit_class(limit).astype(np.int64)
    one, group = _numbered(_one_of_each(within))
    limits = past.limits.rows_of(rules.limit_keys(requests.users[user[one]], limit[one]))
    _draw(hazards, np.take(limits, group, axis=1), rules.PRIOR_RUNS[2])
    seen = np.flatnonzero(requests.template >= 0)  # few of a long queue's templates have run
    of_seen = hazards[:, seen]
    _draw(of_seen, past.templates.rows[requests.template[seen]].T, rules.PRIOR_RUNS[3])
    hazards[:, seen] = of_seen
    silent = np.flatnonzero(~speaks)
    known = site[:, requests.request[silent]]
    hazards[:, silent] = np.minimum(hazards[:, silent], known)
    return hazards


def _draw(hazards: FloatArray, rows: FloatArray, runs: float) -> None:
    """Turn hazards of the level above, [len(BOUNDS), n], into its own by rows, [HISTORY, n]."""
    for place in range(len(BOUNDS)):
        hazards[place] = rules.drawn(hazards[place], rows, place, runs)


def history_columns(snapshot: QueueSnapshot, past: PastRuns | KnownPast) -> NDArray[np.float32]:
    """History features of the pending jobs of a snapshot, float32[n, len(SITE.history_jobs)].

    `past` are runs up to the snapshot, or what is known of the pending jobs by them.
    """
    if len(snapshot.pending) == 0:
        return np.empty((0, len(SITE.history_jobs)), dtype=np.float32)
    known = past
    if isinstance(known, PastRuns):
        known = known_past(snapshot, snapshot.pending.jobs, known, snapshot.each_waits_as)
    mean, rate = rules.expected_run(known.hazards, known.time_limit)
    predicted = rules.history_features(mean, rules.believed_rate(mean, rate, known.speaks))
    of_groups = np.stack(predicted, axis=1).astype(np.float32)
    columns = np.empty((len(known.group), len(SITE.history_jobs)), dtype=np.float32)
    columns[:, : len(predicted)] = np.take(of_groups, known.group, axis=0)
    for place, each in enumerate(rules.alike_features(*known.counts), len(predicted)):
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
_LINE, _SHARES_HEAD = 1 + len(PARTS), 2 + len(PARTS)
_SHARES_LAYOUT = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForetoldRuns:
    """What is remembered."""

    #: Shares that are asked for, so that PARTS of the runs end below; shape [len(PARTS)].
    asked: FloatArray = field(default_factory=rules.nominal_shares)
    #: Number and quantiles, seconds, of each running job, by number; shape [m, 1 + len(PARTS)].
    lines: FloatArray = field(default_factory=lambda: np.empty((0, _LINE)))

    @classmethod
    def from_memory(cls, memory: Memory) -> tuple[Self, Memory | None]:
        """What `to_memory` gave, and the memory behind it; None for numbers of another form."""
        count = memory[1] if len(memory) >= _SHARES_HEAD and memory[0] == _SHARES_LAYOUT else -1.0
        behind = _SHARES_HEAD + _LINE * int(count)
        if count < 0 or count % 1 or behind > len(memory):
            return cls(), None
        lines = memory[_SHARES_HEAD:behind].reshape(-1, _LINE)
        return cls(asked=memory[2:_SHARES_HEAD], lines=lines), memory[behind:]

    def to_memory(self) -> Memory:
        """All of it as one vector: a head of fixed length, then the lines."""
        return np.concatenate([[_SHARES_LAYOUT, len(self.lines)], self.asked, self.lines.ravel()])

    def after(self, snapshot: QueueSnapshot, past: PastRuns) -> Self:
        """Update by a snapshot: ended runs are learned, started ones get predictions by `past`."""
        learned = replace(self, asked=self._learned(snapshot))
        running = snapshot.running.as_requested
        order = np.argsort(running.job_id)
        lines = np.full((len(order), _LINE), np.nan)
        lines[:, 0] = running.job_id[order]
        met = _places(self.lines[:, 0], lines[:, 0])
        new = met < 0
        lines[~new] = self.lines[met[~new]]
        if new.any():
            started = running.select(order[new])
            known = known_past(snapshot, started, past)
            lines[new, 1:] = known.quantiles(learned.asked)
        return replace(learned, lines=lines)

    def _learned(self, snapshot: QueueSnapshot) -> FloatArray:
        asked = self.asked.copy()
        ended = snapshot.ended
        place = _places(self.lines[:, 0], ended.jobs.job_id.astype(np.float64))
        run_time = np.maximum(ended.end - ended.start, 0.0)
        chosen = np.flatnonzero((place >= 0) & np.isfinite(run_time))
        for end in chosen[np.lexsort((ended.jobs.job_id[chosen], ended.end[chosen]))].tolist():
            rules.learn_shares(asked, self.lines[place[end], 1:], run_time[end])
        return asked


def quantiles_now(known: KnownPast | None, foretold: ForetoldRuns) -> FloatArray:
    """Quantiles of the pending jobs by the shares that are asked for, seconds, [n, len(PARTS)]."""
    return np.empty((0, len(PARTS))) if known is None else known.quantiles(foretold.asked)
