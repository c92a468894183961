"""The reserve on nodes in plain Python: what batch jobs may have together, looked at at each event.

Written from docs/reserve.md and `hook.rails.reserve`; it shares no line with the simulator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.reference.readable_nodes import World


class Rule(NamedTuple):
    """As [reserve] has it; times in seconds, other resources by name."""

    widest: int
    interval: float
    lift_after: float
    idle_after: float
    narrow_first: bool
    most: float
    most_resources: Mapping[str, float]
    widest_resources: Mapping[str, float]


class NodeReserve:
    """The limit of batch jobs in force, and since when."""

    def __init__(
        self, wanted: int, rule: Rule, interactive: Sequence[bool], whole: Mapping[str, float]
    ) -> None:
        self.wanted, self.rule, self.interactive, self.whole = wanted, rule, interactive, whole
        self.limits: dict[str, float] = {}
        self.since, self.again = -math.inf, math.inf
        self.starving: list[int] = []
        self.lifted = False
        self.processors: list[float] = []

    def lift(self, world: World) -> None:
        """Lift the limit, to find out whether any job has room."""
        self.lifted = True
        self.processors = [job.counts["cpus"] for job in world.jobs]
        if self.again <= world.now:
            self.again = math.inf

    def decide(self, world: World) -> None:
        """Change the limit where it should be another one and may change."""
        self.lifted, now = False, world.now
        wanted = min(self.wanted, self.rule.most, self.whole["cpus"])
        came = [job.submit for j, job in enumerate(world.jobs) if self.interactive[j]]
        last = max((submit for submit in came if submit <= now), default=-math.inf)
        nobody = last + self.rule.idle_after if last > -math.inf else -math.inf
        due = {
            j: world.jobs[j].submit + self.rule.lift_after
            for j in world.pending
            if self._asks_for_much(world, j)
        }
        starving = [j for j, time in due.items() if time <= now]
        somebody = wanted > 0 and nobody > now
        self.starving = starving if somebody else []
        should = self._wanted(world, wanted) if somebody and not starving else {}
        free_to_change = now >= self.since + self.rule.interval or bool(self.starving)
        differs = should != self.limits
        if differs and free_to_change:
            self.limits, self.since, differs = should, now, False
        moments = [time for time in (min(due.values(), default=math.inf), nobody) if time > now]
        if differs:
            moments.append(self.since + self.rule.interval)
        self.again = min(moments, default=math.inf)

    def _asks_for_much(self, world: World, j: int) -> bool:
        counts = world.jobs[j].counts
        if self.interactive[j]:
            return False
        for name in self.rule.most_resources:
            fits = self.rule.widest_resources.get(name, math.inf) if name == "memory" else 1
            if counts.get(name, 0.0) > fits:
                return True
        return counts["cpus"] > 1

    def _wanted(self, world: World, wanted: float) -> dict[str, float]:
        def in_use(name: str) -> float:
            return sum(
                world.jobs[k].counts.get(name, 0.0) for k in world.running if self.interactive[k]
            )

        kept = {"cpus": wanted}
        for name, most in self.rule.most_resources.items():
            kept[name] = math.ceil(most * wanted / self.rule.most)
        found = {}
        for name, amount in kept.items():
            widest = self.rule.widest if name == "cpus" else self.rule.widest_resources.get(name, 1)
            whole = math.floor(self.whole.get(name, 0))
            limit = max(whole - math.ceil(in_use(name)) - amount, widest, 1)
            if amount and limit < whole:
                found[name] = limit
        return found

    def holds_back(self, world: World, j: int) -> bool:
        """Whether batch jobs have no room below their limit for one more."""
        if self.lifted or self.interactive[j]:
            return False
        batch = [k for k in world.running if not self.interactive[k]]
        for name, most in self.limits.items():
            asked = world.jobs[j].counts.get(name, 0.0)
            used = sum(world.jobs[k].counts.get(name, 0.0) for k in batch)
            if asked > 0 and used + asked > most + 1e-6:
                return True
        return False

    def first(self, j: int) -> float:
        """The sort key of the rail: starving jobs in turn, or interactive ones below a limit."""
        if self.starving:
            return 1 / (1 + j) if j in self.starving else 0
        if "cpus" not in self.limits:
            return 0
        if self.interactive[j]:
            return 2
        narrow = self.processors[j] <= self.rule.widest
        return int(self.rule.narrow_first and narrow)
