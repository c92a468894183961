"""What is scarce on a machine now: the resource of which jobs ask for the largest part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
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
    waiting = snapshot.shares_asked(snapshot.pending.jobs)
    running = snapshot.shares_asked(snapshot.running.jobs)
    demand = (snapshot.each_waits_as[:, None] * waiting).sum(axis=0)
    held = running.sum(axis=0)
    scarce = int(np.argmax(demand + held))
    free = 1.0 - float(held[scarce])
    if machine is not None and machine.capacity[scarce] > 0.0:
        free = float(machine.free[scarce] / machine.capacity[scarce])
    return Scarcity(
        shares=waiting, resource=scarce, free=max(free, 0.0), demand=float(demand[scarce])
    )
