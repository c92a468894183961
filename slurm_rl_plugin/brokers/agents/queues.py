"""The queues of a simulated grid and the jobs in them, as rows of structured arrays.

Rows for the reason that `agents.memory` gives.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.brokers.agents.grid import Grid, GridSettings
from slurm_rl_plugin.brokers.agents.memory import NO_JOB, Rows
from slurm_rl_plugin.brokers.agents.split import optimal_split
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_inline
from slurm_rl_plugin.units import FloatArray, IntArray

#: A job: what is submitted, where it went, and the lists that it is in (NO_JOB ends them): of those
#: of which agents hear in the same tick, and of those that one agent sent to one resource.
JOB = np.dtype(
    [
        ("tick", np.int64),
        ("agent", np.int64),
        ("size", np.float64),
        ("resource", np.int64),
        ("wait", np.float64),
        ("following", np.int64),
        ("later", np.int64),
    ]
)
#: A resource: work a tick, work in its queue, and the ticks that the queue takes.
RESOURCE = np.dtype([("capacity", np.float64), ("backlog", np.float64), ("load", np.float64)])
#: A tick: mean load, first and last job of which agents hear in it.
TICK = np.dtype([("load", np.float64), ("first", np.int64), ("last", np.int64)])


class GridState(NamedTuple):
    """The jobs and resources of a grid while it is simulated.

    Attributes:
        jobs: of JOB, shape [n].
        resources: of RESOURCE, shape [R].
        ticks: of TICK, shape [ticks].
        born: tick in which an agent began, shape [agents].
        split: probability of the resources up to each in the optimal split, shape [R].
    """

    jobs: Rows
    resources: Rows
    ticks: Rows
    born: IntArray
    split: FloatArray


def begin(settings: GridSettings, grid: Grid) -> GridState:
    """Jobs that nobody has sent yet, and idle resources."""
    jobs = np.zeros(len(grid.tick), dtype=JOB)
    for name in ("tick", "agent", "size"):
        jobs[name] = getattr(grid, name)
    jobs["following"] = jobs["later"] = NO_JOB
    resources = np.zeros(settings.resources, dtype=RESOURCE)
    resources["capacity"] = grid.capacity
    ticks = np.zeros(settings.ticks, dtype=TICK)
    ticks["first"] = ticks["last"] = NO_JOB
    split = optimal_split(grid.capacity, settings.work_rate, settings.size_variability)
    return GridState(
        jobs=jobs,
        resources=resources,
        ticks=ticks,
        born=np.zeros(settings.agents, dtype=np.int64),
        split=np.cumsum(split),
    )


@compiled_inline
def join_queue(sent: Any, to: Any, chosen: int) -> float:
    """A job enters the queue of a resource; its run time there."""
    sent.resource, sent.wait = chosen, to.load
    to.backlog += sent.size
    to.load = to.backlog / to.capacity
    return sent.size / to.capacity


@compiled
def work(resources: Rows) -> float:
    """A tick of work; the mean load before it."""
    total = 0.0
    for each in range(len(resources)):
        resource = resources[each]
        total += resource.load
        resource.backlog = max(resource.backlog - resource.capacity, 0.0)
        resource.load = resource.backlog / resource.capacity
    return total / len(resources)


@compiled
def least_loaded(resources: Rows, least: IntArray) -> int:
    """How many resources have the least load; their numbers come first in `least`."""
    lowest, equal = np.inf, 0
    for each in range(len(resources)):
        load = resources[each].load
        if load < lowest:
            lowest, equal = load, 0
        if load == lowest:
            least[equal] = each
            equal += 1
    return equal


@compiled_inline
def hear_later(jobs: Rows, ticks: Rows, job: int, completion: float) -> None:
    """Put a job into the list of the first tick after its completion, if there is one."""
    # at the end of a tick the next one begins: nobody hears in the tick of the submission
    number = int(np.ceil(completion))
    if number < len(ticks):
        tick = ticks[number]
        if tick.first == NO_JOB:
            tick.first = job
        else:
            jobs[tick.last].following = job
        tick.last = job
