"""Fold many events into rows of history at once, with the result of one event after the other.

Each event multiplies the count of its row and bound and adds its own weight
(`run_history.fold_ended`). So the final weight of an event is what all later events leave of it.
All runs of a user, and of a template, weigh the same there, so the count before an event follows
from the number of events before it. That count weighs the event at the levels above.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.features.history.run_events import ENDED, RunEvents
from slurm_rl_plugin.features.history.run_history import (
    AT_RISK,
    BOUNDS,
    ENDED_BEFORE,
    INVERSE,
    LAST,
    LIMIT_KEEPS,
    LONG_RUN,
    PREVIOUS,
    SHORTEST,
    SITE_KEEPS,
    SLOW,
    SPENT,
    TEMPLATE_KEEPS,
    USER_KEEPS,
    place_of,
    weight_among_limits,
    weight_at_site,
)
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray


class Level(NamedTuple):
    """Rows that events change.

    Attributes:
        rows: changed in place, shape [HISTORY, rows].
        row: index of the row that each event changes, shape [n].
    """

    rows: FloatArray
    row: IntArray


class _Turns(NamedTuple):
    """Events by group, and within a group in the order in which they count.

    Attributes:
        order: place of each event, shape [n].
        first: where each group begins in `order`, shape [groups].
        length: events of each group, shape [groups].
        group: number of each group, shape [groups].
    """

    order: IntArray
    first: IntArray
    length: IntArray
    group: IntArray

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

    def counts_before(self, at_risk: FloatArray, keeps: float) -> FloatArray:
        """The group's count before each event, shape [n]; all events weigh 1.

        `at_risk` is the count before all events, shape [groups].
        """
        kept = (keeps ** np.arange(int(self.length.max(initial=0))))[self.before()]
        found = np.empty(len(self.order))
        found[self.order] = np.repeat(at_risk, self.length) * kept + (1.0 - kept) / (1.0 - keeps)
        return found

    def fold(self, level: Level, ended: BoolArray, weight: FloatArray, keeps: float) -> None:
        """Add the events to each row and bound of a level; `_row_and_bound` numbers the groups.

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


def _row_and_bound(row: IntArray, bound: IntArray) -> IntArray:
    return row * len(BOUNDS) + bound


def fold_events(
    events: RunEvents, site: Level, users: Level, limits: Level, templates: Level
) -> None:
    """Add every event, one at least, to the rows of its levels, which change."""
    of_ends = place_of(events.run_time, events.time_limit)[events.job]
    place = np.where(events.kind == ENDED, of_ends, events.kind + len(BOUNDS))
    counted = np.flatnonzero(place < 2 * len(BOUNDS))
    if len(counted):
        ended, bound = place[counted] < len(BOUNDS), place[counted] % len(BOUNDS)
        site, whose, limits, templates = (
            Level(each.rows, each.row[counted]) for each in (site, users, limits, templates)
        )
        of_user, of_template = (
            _Turns.of(_row_and_bound(each.row, bound)) for each in (whose, templates)
        )
        at_site = weight_at_site(of_user.counts_before(_at_risk(of_user, whose), USER_KEEPS))
        of_runs = of_template.counts_before(_at_risk(of_template, templates), TEMPLATE_KEEPS)
        among = weight_among_limits(of_runs)
        whole = np.ones(len(counted))
        _Turns.of(_row_and_bound(site.row, bound)).fold(site, ended, at_site, SITE_KEEPS)
        _Turns.of(_row_and_bound(limits.row, bound)).fold(limits, ended, among, LIMIT_KEEPS)
        of_user.fold(whose, ended, whole, USER_KEEPS)
        of_template.fold(templates, ended, whole, TEMPLATE_KEEPS)
    _fold_spent(events, users)
    _fold_last(events, users)


def _at_risk(turns: _Turns, level: Level) -> FloatArray:
    row, bound = np.divmod(turns.group, len(BOUNDS))
    return np.asarray(level.rows[AT_RISK + bound, row])


def _fold_spent(events: RunEvents, users: Level) -> None:
    """Add runs that have ended or outlived LONG_RUN to users' rows (`run_history.fold_spent`)."""
    ended = events.kind == ENDED
    pays = np.flatnonzero(ended | (events.kind == BOUNDS.index(LONG_RUN)))
    turns = _Turns.of(users.row[pays])
    pays = pays[turns.order]
    run_time = events.run_time[events.job[pays]]
    long = ~ended[pays] | (run_time >= LONG_RUN)
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
    inverse = np.add.reduceat(weight / np.maximum(run_time, SHORTEST), turns.first)
    users.rows[INVERSE, user] = users.rows[INVERSE, user] * (1.0 - SLOW) ** turns.length + inverse
    previous = np.where(turns.length > 1, run_time[turns.last - 1], users.rows[LAST, user])
    users.rows[PREVIOUS, user] = np.where(previous > 0.0, previous, last)
    users.rows[LAST, user] = last
