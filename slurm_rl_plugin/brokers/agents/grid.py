"""The grid of the 2005 paper: sequential resources of unequal speed, and agents that submit jobs.

A. Galstyan, K. Czajkowski, K. Lerman, "Resource allocation in the Grid with learning agents"
(2005), sections 2 and 3. Time is counted in ticks; a resource of capacity C does C units of work in
a tick, one job at a time, first come first served.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.units import FloatArray, IntArray

#: Ticks with submissions drawn at once, to bound memory.
_TICKS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class GridSettings:
    """Sizes of a grid and its load."""

    agents: int = 1000  #: N, submitting independently
    resources: int = 250
    ticks: int = 6000
    rate: float = 0.2  #: g, probability that an agent submits a job in a tick
    #: Lowest and highest, drawn uniformly; work a tick.
    capacity: tuple[float, float] = (10.0, 1000.0)
    #: Lowest and highest, drawn uniformly; work, that is ticks at capacity 1.
    job_size: tuple[float, float] = (10.0, 1000.0)
    #: Probability that an agent is replaced by one that knows nothing, in a tick.
    leaving: float = 0.0

    @property
    def mean_size(self) -> float:
        """Expected work of a job."""
        return sum(self.job_size) / 2.0

    @property
    def size_variability(self) -> float:
        """E[J^2] / E[J]^2; 1 for equal jobs, 2 for exponential ones."""
        low, high = self.job_size
        return 1.0 + (high - low) ** 2 / 12.0 / self.mean_size**2

    @property
    def work_rate(self) -> float:
        """Expected work that is submitted in a tick."""
        return self.rate * self.agents * self.mean_size


class Grid(NamedTuple):
    """One draw of a grid with all its submissions, the same for every rule."""

    capacity: FloatArray  #: work a tick, shape [R]
    tick: IntArray  #: of each submission, ascending, shape [n]
    agent: IntArray  #: of each submission, in random order within a tick, shape [n]
    size: FloatArray  #: work, shape [n]
    #: leaver_tick, leaver: replacements of agents, ascending, both of shape [m].
    leaver_tick: IntArray
    leaver: IntArray


def draw_grid(settings: GridSettings, seed: int) -> Grid:
    """Capacities, submissions and replacements; the same seed gives the same bytes."""
    capacities, submissions, sizes, leavers = (
        np.random.default_rng(each) for each in np.random.SeedSequence(seed).spawn(4)
    )
    tick, agent = _happenings(submissions, settings, settings.rate)
    leaver_tick, leaver = _happenings(leavers, settings, settings.leaving)
    return Grid(
        capacity=capacities.uniform(*settings.capacity, size=settings.resources),
        tick=tick,
        agent=agent,
        size=sizes.uniform(*settings.job_size, size=len(tick)),
        leaver_tick=leaver_tick,
        leaver=leaver,
    )


def _happenings(
    rng: np.random.Generator, settings: GridSettings, probability: float
) -> tuple[IntArray, IntArray]:
    """Ticks and agents of events with a probability for each agent and tick."""
    ticks, agents = [], []
    for first in range(0, settings.ticks if probability > 0.0 else 0, _TICKS_AT_ONCE):
        size = (min(_TICKS_AT_ONCE, settings.ticks - first), settings.agents)
        tick, agent = np.nonzero(rng.random(size) < probability)
        # no agent is first in every tick
        order = np.lexsort((rng.random(len(tick)), tick))
        ticks.append(first + tick[order])
        agents.append(agent[order])
    if not ticks:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    return np.concatenate(ticks), np.concatenate(agents)


_BISECTIONS = 200


def utilization_at(price: float, capacity: FloatArray, variability: float) -> FloatArray:
    """Utilization at which one more unit of work costs `price`; 0 if it always costs more.

    Args:
        price: the common derivative, ticks a unit of work over E[J].
        variability: k = E[J^2]/E[J]^2.
    """
    over = np.maximum(price * capacity - 1.0, 0.0)
    return np.asarray(1.0 - 1.0 / np.sqrt(1.0 + 2.0 / variability * over))


def optimal_split(capacity: FloatArray, work_rate: float, variability: float) -> FloatArray:
    """Probability of each resource, shape [R], sum 1.

    Work beyond all capacities is split in proportion to them. `variability` is E[J^2]/E[J]^2.
    """
    if work_rate >= capacity.sum():
        return np.asarray(capacity / capacity.sum())
    low = 1.0 / float(capacity.max())  # the fastest takes the first unit at this price
    high = 2.0 * low
    while (utilization_at(high, capacity, variability) * capacity).sum() < work_rate:
        high *= 2.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if (utilization_at(middle, capacity, variability) * capacity).sum() < work_rate:
            low = middle
        else:
            high = middle
    work = utilization_at(high, capacity, variability) * capacity
    return np.asarray(work / work.sum())
