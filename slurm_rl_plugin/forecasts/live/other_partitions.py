"""Which other partitions would accept a pending job as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.machine import Machine, MachinePartition

#: The account above all others.
_TOP = "root"


def other_partitions(snapshot: QueueSnapshot, place: int, machine: Machine | None) -> list[str]:
    """Names of the partitions, the one with the least demand for its processors first.

    Empty for a job that names several partitions or has no time limit, and for a user who is
    bound to some partitions. A partition with an unknown right is left out.
    """
    pending, jobs = snapshot.pending, snapshot.pending.jobs
    if machine is None or pending.one_partition is None or not pending.one_partition[place]:
        return []
    user = snapshot.users[jobs.user[place]] if jobs.user[place] >= 0 else ""
    if not user or user in machine.bound_users:
        return []
    own = snapshot.partitions[jobs.partition[place]]
    account = snapshot.accounts[jobs.account[place]].lower()
    qos = "" if pending.qos is None else snapshot.qos[pending.qos[place]].lower()
    nodes = 0 if jobs.requests is None else int(jobs.requests.nodes[place])
    most_nodes = float(nodes) if nodes else np.inf  # it may be spread over any number
    found = [
        each
        for each in machine.partitions
        if each.name != own
        and each.kinds
        and each.access is not None
        and each.access.accounts.admits(account, *_above(account, machine.parent_of))
        and each.access.qos.admits(qos)
        and each.access.fewest_nodes <= max(nodes, 1)
        and most_nodes <= each.widest
        and jobs.time_limit[place] <= each.longest
    ]
    return [each.name for each in sorted(found, key=lambda one: _demand(one, snapshot, machine))]


def _above(account: str, parent_of: Mapping[str, str]) -> Iterator[str]:
    """The accounts above an account, the nearest first; "" where the next one is not known."""
    seen = set[str]()
    while account not in ("", _TOP):
        seen.add(account)
        above = parent_of.get(account, "")
        account = "" if above in seen else above
        yield account


def _demand(partition: MachinePartition, snapshot: QueueSnapshot, machine: Machine) -> float:
    """Processors that jobs hold or wait for on its nodes, as a multiple of its processors.

    Pending jobs of a lower tier do not count: they start later.
    """
    sharing = [each for each in machine.partitions if set(each.kinds) & set(partition.kinds)]
    running, pending = snapshot.running.jobs, snapshot.pending.jobs
    wanted = pending.processors * snapshot.each_waits_as
    demand = 0.0
    for each in sharing:
        if each.name in snapshot.partitions:
            number = snapshot.partitions.index(each.name)
            demand += float(running.processors[running.partition == number].sum())
            if each.tier >= partition.tier:
                demand += float(wanted[pending.partition == number].sum())
    kinds = [machine.kinds[place] for place in partition.kinds]
    return demand / sum(kind.count * kind.resources[0] for kind in kinds)
