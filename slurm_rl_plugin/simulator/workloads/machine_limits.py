"""Limits of QOS, accounts and users on the jobs of a log, as groups that the simulator counts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine, ResourceLimit
from slurm_rl_plugin.simulator.nodes.group_limits import GroupLimits, no_limits
from slurm_rl_plugin.simulator.nodes.node_state import ROUNDING
from slurm_rl_plugin.simulator.nodes.requests import NodeRequests
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

_NODES, _JOBS = "nodes", "jobs"
_NOTHING: ResourceLimit = ResourceLimit()


@dataclass(slots=True)
class _Groups:
    """Groups as they are found.

    Attributes:
        kinds: what is limited, by name.
        place: of each group that was met.
        most: of each group.
    """

    kinds: tuple[str, ...]
    place: dict[Hashable, int] = field(default_factory=dict)
    most: list[list[float]] = field(default_factory=list)

    def of(self, key: Hashable, limits: Mapping[str, float]) -> int:
        """The place of a group; -1 where nothing limits it."""
        if not any(kind in limits for kind in self.kinds):
            return -1
        if key not in self.place:
            self.place[key] = len(self.most)
            self.most.append([limits.get(kind, np.inf) for kind in self.kinds])
        return self.place[key]


def limited_kinds(machine: Machine) -> tuple[str, ...]:
    """Names of what may be limited, in the order of the columns of `GroupLimits`."""
    return (*machine.resources, *machine.licences, _NODES, _JOBS)


def machine_limits(
    log: JobLog, machine: Machine, requests: NodeRequests, partition: IntArray
) -> GroupLimits:
    """Every group that a limit of the machine holds for, and which of them each job is of.

    Licences are a limit on all jobs together. `group` limits of accounts above a job's own hold for
    it too; limits of each of its users are those of the own account, to which they have gone down,
    where the user has none.

    Args:
        log: the jobs.
        machine: with its limits.
        requests: of the jobs.
        partition: place of each job's partition, shape [n].
    """
    groups = _Groups(kinds=limited_kinds(machine))
    cache: dict[Hashable, list[int]] = {}
    rows = []
    for place in range(len(log)):
        key = (log.qos[place], partition[place], log.account[place], log.user[place])
        if key not in cache:
            cache[key] = list(_groups_of(log, machine, groups, place, partition))
        rows.append(cache[key])
    widest = max((len(row) for row in rows), default=0)
    if widest == 0:
        none = no_limits(len(log), len(groups.kinds))
        return none._replace(amounts=_amounts(log, machine, requests))
    return GroupLimits(
        groups=np.array([row + [-1] * (widest - len(row)) for row in rows], dtype=np.int64),
        most=np.array(groups.most),
        used=np.zeros((len(groups.most), len(groups.kinds))),
        amounts=_amounts(log, machine, requests),
    )


def ever_within_limits(limits: GroupLimits) -> BoolArray:
    """Which jobs no limit keeps from running alone, shape [n]."""
    within = np.ones(len(limits.groups), dtype=np.bool_)
    for groups in limits.groups.T:
        most = np.where(groups[:, None] < 0, np.inf, limits.most[groups])
        over = (limits.amounts > 0.0) & (limits.amounts > most + ROUNDING)
        within &= ~over.any(axis=1)
    return within


def _amounts(log: JobLog, machine: Machine, requests: NodeRequests) -> FloatArray:
    """What each job counts, shape [n, kinds]: what it asks for."""
    fewest, cpus = requests.fewest[:, None], requests.cpus[:, None]
    total = requests.per_node * fewest + requests.per_cpu * cpus
    total[:, 0] = requests.cpus
    shape, count = requests.shape, len(log)
    licences = np.zeros((count, len(machine.licences)))
    if log.requests is not None:
        for place, name in enumerate(machine.licences):
            licences[:, place] = log.requests.of(name)
    return np.hstack(
        [total[shape], licences, fewest[shape].astype(np.float64), np.ones((count, 1))]
    )


def _groups_of(
    log: JobLog, machine: Machine, groups: _Groups, place: int, partition: IntArray
) -> Iterator[int]:
    user = log.users[log.user[place]] if log.user[place] >= 0 else ""
    account = log.accounts[log.account[place]]
    named = {log.qos[place], machine.partitions[partition[place]].qos} - {""}
    found: list[tuple[Hashable, Mapping[str, float]]] = [(("licences",), machine.licences)]
    for name in sorted(named):
        qos = machine.qos.get(name, _NOTHING)
        found += [(("qos", name), qos.group), (("qos", name, user), qos.user)]
    for name in _with_parents(account, machine.parent_of.get):
        found.append((("account", name), machine.accounts.get(name, _NOTHING).group))
    own = machine.users.get(user, _NOTHING)
    found.append((("user", user), {**own.user, **own.group}))
    of_users = machine.accounts.get(account, _NOTHING).user
    of_user = {kind: most for kind, most in of_users.items() if kind not in own.user}
    found.append((("account", account, user), of_user))
    for key, limits in found:
        group = groups.of(key, limits)
        if group >= 0:
            yield group


def _with_parents(account: str, parent_of: Callable[[str], str | None]) -> Iterator[str]:
    seen: set[str] = set()
    name: str | None = account
    while name and name not in seen:
        yield name
        seen.add(name)
        name = parent_of(name)
