"""How much of each resource of a machine jobs have, wait for, and could have."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.domain.queue_snapshot import QueueSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """One resource; memory in MiB.

    Attributes:
        name: one of the snapshot's resources.
        usable: what usable nodes have of it.
        running: what running jobs have of it.
        pending: what pending jobs ask for, a pending array as one job.
    """

    name: str
    usable: float
    running: float
    pending: float


def resource_use(snapshot: QueueSnapshot) -> tuple[ResourceUse, ...]:
    """Each resource of the machine; none where the system tells of processors alone."""
    machine = snapshot.resources
    waiting, having = snapshot.pending.jobs.requests, snapshot.running.jobs.requests
    if machine is None:
        return ()
    return tuple(
        ResourceUse(
            name=name,
            usable=usable,
            running=0.0 if having is None else float(having.of(name).sum()),
            pending=0.0 if waiting is None else float(waiting.of(name).sum()),
        )
        for name, usable in zip(machine.names, machine.capacity.tolist(), strict=True)
    )
