"""How slurmctld looks at its queue, in plain Python: main scheduler, backfill and its table.

After each submission and each end the main scheduler looks at the first `depth` jobs, and at all
of them where its last such look is `main_interval` ago. Backfill looks at all jobs when something
has happened since its last look began, a start too, and that is at least `interval` ago.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from slurm_rl_plugin.domain.machine import BackfillSettings
from tests.reference.readable_machine import QueuedJob
from tests.reference.readable_node_reserve import NodeReserve
from tests.reference.readable_nodes import Scorer, World, looks, next_event
from tests.reference.readable_placement import Node, Place

#: Seconds after its limit in which Slurm has ended a job.
KILL_WAIT = 30


def simulate_slurmctld(
    jobs: Sequence[QueuedJob],
    nodes: Sequence[Node],
    scorer: Scorer,
    partitions: Sequence[set[int]],
    how: BackfillSettings,
    reserve: NodeReserve | None = None,
) -> World:
    """Starts and places; `partitions` are the nodes of each."""
    world = World(jobs, nodes, reserve)
    full = planned = changed = -math.inf
    while any(math.isnan(each) for each in world.start):
        event, backfill = next_event(world), math.inf
        if how.backfills and world.pending and changed >= planned:
            backfill = max(planned + how.interval, changed)
        world.now = min(event, backfill)
        assert world.now < math.inf, "a job that never finds room"
        order, waited = world.in_order(scorer) if looks(world) else [], len(world.pending)
        changed = world.now if event == world.now else changed
        is_due = how.backfills and waited and world.now >= planned + how.interval
        is_due = is_due and changed >= planned
        if event == world.now:
            depth = how.depth
            if world.now >= full + how.main_interval:
                depth, full = len(order), world.now
            _main_pass(world, order[:depth], partitions)
        if is_due:
            planned = world.now
            _backfill(world, [j for j in order if math.isnan(world.start[j])], how)
        if len(world.pending) < waited:
            changed = world.now
    return world


def _main_pass(world: World, order: list[int], partitions: Sequence[set[int]]) -> None:
    """The first job of a partition without room closes it, and all of its nodes to others."""
    failed: set[int] = set()
    for j in order:
        partition = world.jobs[j].partition
        if partition in failed or world.is_held_back(j):
            continue
        closed = set().union(*(partitions[each] for each in failed))
        found = world.find(j, closed=closed)
        if found is None:
            failed.add(partition)
        else:
            world.start_at(j, found)


class _Plan(NamedTuple):
    """Whole nodes that a pending job is to have from a time to another."""

    begin: float
    end: float
    nodes: set[int]


class _Slot(NamedTuple):
    """A stretch of the table; `planned` nodes are not free of plans in it."""

    begin: float
    end: float
    planned: set[int]


class _Table:
    """What a pass has planned, from `begin` to `end`, in steps of the resolution."""

    def __init__(self, now: float, how: BackfillSettings) -> None:
        self.grain = how.resolution
        self.begin = now // self.grain * self.grain
        self.end = (now + how.window) // self.grain * self.grain
        self.plans: list[_Plan] = []

    def span(self, start: float, limit: float) -> tuple[float, float]:
        """A job's time in whole steps, one at least."""
        begin = start // self.grain * self.grain
        end = (start + limit + self.grain - 1) // self.grain * self.grain
        return begin, max(end, begin + self.grain)

    @property
    def slots(self) -> list[_Slot]:
        cuts = {each.begin for each in self.plans} | {each.end for each in self.plans}
        cuts = {self.begin, self.end, *(c for c in cuts if self.begin < c < self.end)}
        times = sorted(cuts)
        return [_Slot(a, b, self.planned_between(a, b)) for a, b in itertools.pairwise(times)]

    def planned_between(self, begin: float, end: float) -> set[int]:
        """What lies behind the end of the table is not known."""
        end = min(end, self.end)
        nodes = (each.nodes for each in self.plans if each.begin < end and each.end > begin)
        return set().union(*nodes)

    def closed(self, begin: float, end: float, serving: set[int]) -> tuple[set[int], float]:
        """Nodes that are planned between two times, and when to look again: when a serving node
        becomes free that is not free before; 0 for never."""
        closed: set[int] = set()
        later, slots = 0.0, self.slots
        for place, slot in enumerate(slots):
            if slot.end <= begin:
                continue
            if later == 0.0 and place + 1 < len(slots):
                open_now = serving - closed - slot.planned
                if serving - slots[place + 1].planned - open_now:
                    later = slot.end
            if slot.begin > end:
                if later == 0.0 and place + 2 < len(slots):
                    later = slots[place + 1].end
                break
            closed |= slot.planned
        return closed, later


def _backfill(world: World, order: list[int], how: BackfillSettings) -> None:
    """Every job in order starts where it may now, or is planned for the earliest time it may."""
    table, looked_at, tested = _Table(world.now, how), Counter[int](), 0
    for j in order:
        if tested >= how.most_jobs:
            return
        if world.is_held_back(j):
            continue
        looked_at[world.jobs[j].user] += 1
        if how.most_of_user and looked_at[world.jobs[j].user] > how.most_of_user:
            continue
        tested += 1
        start, place = _earliest(world, table, j, table.begin + how.window)
        if place is None:
            continue
        if start <= world.now and world.is_free(j, place):
            world.start_at(j, place)
        elif start <= world.now + how.window:
            table.plans.append(_Plan(*table.span(start, world.jobs[j].estimate), set(place)))


def _earliest(world: World, table: _Table, j: int, last: float) -> tuple[float, Place | None]:
    """When and where a job may start next to the plans, from now to `last`."""
    limit = world.jobs[j].estimate
    serving, later = set(world.jobs[j].asks.serving), world.now
    while True:
        begin = later
        if begin > last:
            return math.inf, None
        closed, later = table.closed(begin, begin + limit, serving)
        start, place = _will_run(world, j, closed, begin, later)
        if place is not None:
            start = max(start, begin)
            if start > world.now and set(place) & table.planned_between(*table.span(start, limit)):
                later = start + (table.grain if start == begin else 0.0)
                continue
            if later == 0.0 or start <= later:
                return start, place
        if later == 0.0:
            return math.inf, None


def _will_run(
    world: World, j: int, closed: set[int], begin: float, until: float
) -> tuple[float, Place | None]:
    """When a job finds room on open nodes as running jobs come to their limits, and where.

    Now, where it has room now (if `begin` is now) or once all are gone that end by `begin`. Else
    ends are looked at from `begin` on, those after `until` never: together what ends within 30
    seconds of the half minute in which the first does, then within the double of it, and so on.
    """
    now = world.now
    if begin <= now and (found := world.find(j, closed=closed)) is not None:
        return now, found
    running = world.running
    rest = [k for k in running if world.expected_end(k) > begin]
    found = world.find(j, world.free_beside(rest), closed)
    if found is not None:
        return now, found
    open_nodes = set(world.jobs[j].asks.serving) - closed
    matter = [k for k in rest if set(world.place[k]) & open_nodes]
    if not matter:
        return math.inf, None
    first = world.expected_end(matter[0])
    origin, window = first + 30 - first % 30, 30.0
    gone: list[int] = []
    rest = rest[rest.index(matter[0]) :]
    while rest and not 0 < until < world.expected_end(rest[0]):
        while rest and not 0 < until < world.expected_end(rest[0]):
            k, *rest = rest
            gone += [k] if k in matter else []
            if k in matter and rest and world.expected_end(rest[0]) > origin + window:
                break  # this is not checked behind a job that does not matter
        left = [k for k in matter if k not in gone]
        found = world.find(j, world.free_beside(left), closed)
        if found is not None:
            return _ends(world, [k for k in gone if set(world.place[k]) & set(found)][-1]), found
        window *= 2
        while rest and world.expected_end(rest[0]) > origin + window:
            window *= 2
    return math.inf, None


def _ends(world: World, k: int) -> float:
    """When a running job ends; Slurm kills it some time after its limit."""
    end = world.expected_end(k)
    return end if end > world.now else max(end + KILL_WAIT, world.now + 1)
