"""A simulation on nodes in plain Python: every event looks at every job and every node again.

Nothing is remembered but starts and places. Decisions without backfilling and with EASY are
here, those of slurmctld in `readable_slurmctld`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence

from tests.reference.readable_machine import LimitedGroup, QueuedJob, has_room
from tests.reference.readable_node_reserve import NodeReserve
from tests.reference.readable_placement import Free, Node, Place, find_place, taken, usable

#: One comparable score for each pending job; higher starts earlier.
Scorer = Callable[["World"], Sequence]


class World:
    """The machine at one moment."""

    def __init__(
        self, jobs: Sequence[QueuedJob], nodes: Sequence[Node], reserve: NodeReserve | None = None
    ) -> None:
        self.jobs, self.nodes, self.reserve = jobs, nodes, reserve
        self.now = -math.inf
        self.start: list[float] = [math.nan] * len(jobs)
        self.place: list[Place] = [{} for _ in jobs]
        #: in the order of their starts
        self.started: list[int] = []

    def end(self, j: int) -> float:
        return self.start[j] + self.jobs[j].run_time

    def expected_end(self, j: int) -> float:
        return self.start[j] + self.jobs[j].estimate

    @property
    def running(self) -> list[int]:
        """By their estimated end, then by their start."""
        running = [j for j in self.started if self.end(j) > self.now]
        return sorted(running, key=self.expected_end)

    @property
    def pending(self) -> list[int]:
        jobs = enumerate(self.jobs)
        return [j for j, job in jobs if job.submit <= self.now and math.isnan(self.start[j])]

    def free_beside(self, jobs: Collection[int]) -> list[Free]:
        """What each node has free where these jobs hold what they got."""
        return self.free_but([(j, self.place[j]) for j in jobs])

    def free_but(self, held: Sequence[tuple[int, Place]]) -> list[Free]:
        """What is free on each node next to jobs at the given places."""
        amounts = [dict(node.has) for node in self.nodes]
        count = [0] * len(self.nodes)
        for j, place in held:
            for n, cpus in place.items():
                count[n] += 1
                for resource, amount in taken(self.jobs[j].asks, cpus).items():
                    amounts[n][resource] -= amount
        return [Free(*each) for each in zip(amounts, count, strict=True)]

    @property
    def free(self) -> list[Free]:
        return self.free_beside(self.running)

    def is_held_back(self, j: int) -> bool:
        """Whether a limit keeps a job from starting now."""
        used: dict = defaultdict(lambda: defaultdict(float))
        for k in self.running:
            for group in self.jobs[k].groups:
                _count(used, group, self.jobs[k])
        if not has_room(self.jobs[j].groups, self.jobs[j].counts, used):
            return True
        return self.reserve is not None and self.reserve.holds_back(self, j)

    def find(
        self, j: int, free: Sequence[Free] | None = None, closed: Collection[int] = ()
    ) -> Place | None:
        free = self.free if free is None else free
        return find_place(self.jobs[j].asks, self.nodes, free, closed)

    def is_free(self, j: int, place: Place) -> bool:
        """Whether a job could have this very place now."""
        job, free = self.jobs[j].asks, self.free
        return all(usable(job, self.nodes[n], free[n]) >= cpus for n, cpus in place.items())

    def start_at(self, j: int, place: Place) -> None:
        self.start[j], self.place[j] = self.now, place
        self.started.append(j)

    def in_order(self, scorer: Scorer) -> list[int]:
        """Pending jobs by the tier of their partition, their score, their submission."""
        pending = self.pending
        score = dict(zip(pending, scorer(self), strict=True))
        first = dict.fromkeys(pending, 0)
        if self.reserve is not None:
            first = {j: self.reserve.first(j) for j in pending}
        key = {j: (self.jobs[j].tier, first[j], score[j]) for j in pending}
        return sorted(pending, key=lambda j: key[j], reverse=True)


def _count(used: dict, group: LimitedGroup, job: QueuedJob) -> None:
    for kind in group.most:
        used[group.key][kind] += job.counts.get(kind, 0.0)


def simulate(
    jobs: Sequence[QueuedJob],
    nodes: Sequence[Node],
    scorer: Scorer,
    backfilling: str,
    cycle: float = 0.0,
    reserve: NodeReserve | None = None,
) -> World:
    """Starts and places under "none" or "easy" backfilling."""
    decide = {"none": _first_come, "easy": _easy}[backfilling]
    world = World(jobs, nodes, reserve)
    while any(math.isnan(each) for each in world.start):
        event = next_event(world)
        assert event < math.inf, "a job that never finds room"
        world.now = event if cycle == 0 else math.ceil(event / cycle) * cycle
        if looks(world):
            decide(world, world.in_order(scorer))
    return world


def next_event(world: World) -> float:
    """The next submission or end."""
    times = [job.submit for job in world.jobs] + [world.end(j) for j in world.started]
    times += [] if world.reserve is None else [world.reserve.again]
    return min((time for time in times if time > world.now), default=math.inf)


def looks(world: World) -> bool:
    """Whether anything is decided now; the limit of batch jobs is set only where anybody, all but
    that limit, has room."""
    if world.reserve is None:
        return bool(world.pending)
    world.reserve.lift(world)
    if not any(not world.is_held_back(j) and world.find(j) for j in world.pending):
        return False
    world.reserve.decide(world)
    return True


def _first_come(world: World, order: list[int]) -> list[int]:
    """Start jobs up to the first without room; those from it on are left. Who is at a limit is
    passed over."""
    for place, j in enumerate(order):
        if world.is_held_back(j):
            continue
        found = world.find(j)
        if found is None:
            return order[place:]
        world.start_at(j, found)
    return []


def _easy(world: World, order: list[int]) -> None:
    """Behind the first without room, the head, a job starts that has room and is expected to end
    before the head starts, or to which nodes have room even once the head has started."""
    left = _first_come(world, order)
    shadow = None
    for j in left[1:]:
        found = None if world.is_held_back(j) else world.find(j)
        if found is None:
            continue
        if shadow is None:
            shadow, then = _when_head_starts(world, left[0])
        if world.now + world.jobs[j].estimate > shadow:
            beside = [_less(*each) for each in zip(world.free, world.free_but(then), strict=True)]
            found = world.find(j, beside)
            if found is None:
                continue
            then.append((j, found))
        world.start_at(j, found)


def _less(now: Free, then: Free) -> Free:
    """What a node has free both now and then."""
    amounts = {r: min(now.amounts[r], then.amounts[r]) for r in now.amounts}
    return Free(amounts, max(now.jobs, then.jobs))


def _when_head_starts(world: World, head: int) -> tuple[float, list[tuple[int, Place]]]:
    """When the head finds room, as running jobs are expected to end, and who is where then.

    Those that are expected to end at one time end together; who has outlived his estimate, now.
    """
    running = world.running
    for time in sorted({max(world.expected_end(j), world.now) for j in running}):
        held = [(j, world.place[j]) for j in running if world.expected_end(j) > time]
        found = world.find(head, world.free_but(held))
        if found is not None:
            return time, [*held, (head, found)]
    return math.inf, []
