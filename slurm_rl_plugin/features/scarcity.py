"""What is scarce on a machine now: the resource of which jobs ask for the largest part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.jobs import JobColumns
from slurm_rl_plugin.domain.resources import CPUS, shares_of_machine
from slurm_rl_plugin.units import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Scarcity:
    """The scarce resource of a queue, and what its jobs ask for.

    Attributes:
        shares: parts of the machine's resources that each pending job asks for, shape [pending,
            resources]; of processors alone where the machine tells nothing else.
        resource: column of the scarce one, of which running and pending jobs together ask for the
            largest part; the first of equals.
        free: the part of it that no job has, in [0, 1].
        demand: what pending jobs ask of it together, in parts of the machine's.
    """

    shares: FloatArray
    resource: int
    free: float
    demand: float


def scarcity_of(snapshot: QueueSnapshot) -> Scarcity:
    """What is scarce on the machine of a snapshot."""
    machine = snapshot.resources
    names: tuple[str, ...] = (CPUS,)
    capacity = np.array([float(max(snapshot.capacity, 1))])
    if machine is not None:
        names, capacity = machine.names, machine.capacity

    def shares_of(jobs: JobColumns) -> FloatArray:
        return shares_of_machine(jobs.processors, jobs.requests, names, capacity)

    waiting, running = shares_of(snapshot.pending.jobs), shares_of(snapshot.running.jobs)
    demand, held = waiting.sum(axis=0), running.sum(axis=0)
    scarce = int(np.argmax(demand + held))
    free = 1.0 - float(held[scarce])
    if machine is not None and capacity[scarce] > 0.0:
        free = float(machine.free[scarce] / capacity[scarce])
    return Scarcity(
        shares=waiting, resource=scarce, free=max(free, 0.0), demand=float(demand[scarce])
    )
