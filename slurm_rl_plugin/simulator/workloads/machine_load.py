"""What the jobs of a log ask of a machine's nodes, with the defaults of its partitions."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine, ResourceLimit
from slurm_rl_plugin.domain.nodes import meets
from slurm_rl_plugin.domain.resources import CPUS, MEMORY, ResourceRequests
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.nodes.machine_now import (
    GroupLimits,
    NodeMachine,
)
from slurm_rl_plugin.simulator.nodes.node_state import (
    CPU,
    ROUNDING,
    NodeRequests,
    bits_of,
    idle_nodes,
)
from slurm_rl_plugin.simulator.nodes.placement import find_room
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

_NODES, _JOBS = "nodes", "jobs"
_NOTHING: ResourceLimit = ResourceLimit()


@dataclass(slots=True)
class _Groups:
    kinds: tuple[str, ...]  #: what is limited, by name
    place: dict[Hashable, int] = field(default_factory=dict)  #: of each group that was met
    most: list[list[float]] = field(default_factory=list)  #: of each group

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

    Licences limit all jobs together. `group` limits of the accounts above a job's own apply too;
    the limits of an account's users, already passed down, apply where a user has none.
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
    padded = np.array([row + [-1] * (widest - len(row)) for row in rows], dtype=np.int64)
    most = np.array(groups.most, dtype=np.float64).reshape(-1, len(groups.kinds))
    return GroupLimits(
        groups=padded.reshape(len(rows), widest),
        most=most,
        used=np.zeros_like(most),
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
    above: dict[str, None] = {}  # the account and those above it, in order
    name = account
    while name and name not in above:
        above[name] = None
        name = machine.parent_of.get(name, "")
    found += [(("account", each), machine.accounts.get(each, _NOTHING).group) for each in above]
    own = machine.users.get(user, _NOTHING)
    found.append((("user", user), {**own.user, **own.group}))
    of_users = machine.accounts.get(account, _NOTHING).user
    of_user = {kind: most for kind, most in of_users.items() if kind not in own.user}
    found.append((("account", account, user), of_user))
    for key, limits in found:
        group = groups.of(key, limits)
        if group >= 0:
            yield group


_NO_PARTITION, _NO_NODE, _NO_LIMIT = (
    "of a partition that the machine lacks",
    "no node of its partition holds it",
    "a limit or the number of licences holds it back for ever",
)
#: The most partitions and sentences that an error names.
_NAMED = 8


def node_resources(machine: Machine) -> tuple[FloatArray, IntArray]:
    """What each node has, shape [nodes, resources], and its weight, shape [nodes]."""
    counts = [kind.count for kind in machine.kinds]
    each = np.array([kind.resources for kind in machine.kinds], dtype=np.float64)
    weights = np.array([kind.weight for kind in machine.kinds], dtype=np.int64)
    return np.repeat(each, counts, axis=0), np.repeat(weights, counts)


def partition_serves(machine: Machine) -> BoolArray:
    """Whether a node is of a partition, shape [partitions, nodes]."""
    counts = [kind.count for kind in machine.kinds]
    kinds = np.arange(len(counts))
    rows = [np.repeat(np.isin(kinds, each.kinds), counts) for each in machine.partitions]
    return np.array(rows, dtype=np.bool_).reshape(len(rows), sum(counts))


def partition_of(log: JobLog, machine: Machine) -> IntArray:
    """Place of each job's partition in the machine's, shape [n]; -1 where it has none.

    A job that names several, with commas, counts for the first that the machine has; a job that
    names no partition counts for the default one.
    """
    names = {each.name: place for place, each in enumerate(machine.partitions)}
    default = next((each.name for each in machine.partitions if each.is_default), "")
    places = []
    for text in log.partitions:
        known = [names[word] for word in text.split(",") if word in names]
        unnamed = names.get(default, -1) if not text or len(names) == 1 else -1
        places.append(known[0] if known else unnamed)
    return np.array(places, dtype=np.int64)[log.partition]


def fit_to_machine(log: JobLog, machine: Machine) -> tuple[JobLog, dict[str, int]]:
    """The jobs that the idle machine and its limits hold, at least one; how many not, and why."""
    held, dropped = jobs_held(log, machine)
    if not held.any():
        raise ConfigurationError(_why_none(log, machine, dropped))
    return log.select(held), dropped


def _why_none(log: JobLog, machine: Machine, dropped: Mapping[str, int]) -> str:
    why = [f"{reason} ({count})" for reason, count in dropped.items()]
    if _NO_PARTITION in dropped:
        asked = ", ".join(log.partitions[:_NAMED]) or "none"
        there = ", ".join(each.name for each in machine.partitions[:_NAMED])
        why.append(f"the log names the partitions {asked}, the machine has {there}")
    if _NO_NODE in dropped:
        why += _shortages(log.select(partition_of(log, machine) >= 0), machine)
    of_machine = " ".join(machine.left_out[:_NAMED])
    more = len(machine.left_out) - _NAMED
    return (
        f"the machine's nodes hold no job of the log: {'; '.join(why)}: check --cluster."
        + (f" Of the machine: {of_machine}" if of_machine else "")
        + (f" And {more} more." if more > 0 else "")
    )


def _shortages(log: JobLog, machine: Machine) -> Iterator[str]:
    """For each resource: how many jobs lack it, the least that they ask for, and what there is."""
    asked, (has, _) = requests_on(log, machine), node_resources(machine)
    each = asked.per_node + asked.per_cpu * asked.task[:, None]  # of one node, at least
    each[:, CPU] = asked.task
    pools = [
        has[asked.pool_node[first:after]]
        for first, after in itertools.pairwise(asked.pool_first.tolist())
    ]
    jobs = np.bincount(asked.shape, minlength=len(each))
    largest = np.array([pool.max(axis=0, initial=0.0) for pool in pools])[asked.pool]
    together = np.array([pool[:, CPU].sum() for pool in pools])[asked.pool]
    lacking = [
        (name, "one node ", each[:, place], largest[:, place], "at most")
        for place, name in enumerate(machine.resources)
    ]
    for name, whom, least, most, how in [*lacking, (CPUS, "", asked.cpus, together, "together")]:
        short = least > most
        if short.any():
            yield (
                f"{jobs[short].sum()} lack {name}: they ask {whom}for {least[short].min():g} or "
                f"more, their nodes have {most[short].max():g} {how}"
            )
    few = asked.fewest > np.array([len(pool) for pool in pools])[asked.pool]
    if few.any():
        yield (
            f"{jobs[few].sum()} lack nodes: the nodes of their partition that meet their "
            "constraint are too few"
        )


def jobs_held(log: JobLog, machine: Machine) -> tuple[BoolArray, dict[str, int]]:
    """Which jobs the idle machine and its limits hold, shape [n]; how many they do not, and why."""
    partition = partition_of(log, machine)
    places = np.flatnonzero(partition >= 0)
    dropped = {_NO_PARTITION: len(log) - len(places)}
    if len(places):
        asked = requests_on(log.select(places), machine)
        nodes = idle_nodes(*node_resources(machine), asked)
        rooms = [
            find_room(asked, nodes, each, nodes.none_closed) for each in range(len(asked.fewest))
        ]
        fits = (np.array(rooms) > 0)[asked.shape]
        dropped[_NO_NODE] = int((~fits).sum())
        places = places[fits]
    if len(places):
        log_left = log.select(places)
        limits = machine_limits(
            log_left, machine, requests_on(log_left, machine), partition[places]
        )
        within = ever_within_limits(limits)
        dropped[_NO_LIMIT] = int((~within).sum())
        places = places[within]
    held = np.zeros(len(log), dtype=np.bool_)
    held[places] = True
    return held, {reason: count for reason, count in dropped.items() if count}


def limits_of_time(log: JobLog, machine: Machine) -> FloatArray:
    """Time limit of each job: its own, else its partition's, else NaN; seconds, shape [n]."""
    given = np.array(
        [
            each.default_time if np.isfinite(each.default_time) else each.longest
            for each in machine.partitions
        ]
    )
    given[~np.isfinite(given)] = np.nan
    asked = np.isfinite(log.time_limit) & (log.time_limit > 0)
    return np.where(asked, log.time_limit, given[partition_of(log, machine)])


#: Over how many nodes a job that names no number may be spread.
_ANY_NODES = 1 << 30


def requests_on(log: JobLog, machine: Machine) -> NodeRequests:
    """What the jobs of a log ask of the nodes of a machine."""
    asked, node_has = completed_requests(log, machine), node_resources(machine)[0]
    partition, resources = partition_of(log, machine), machine.resources
    pools, pool = _pools(asked, partition, machine)
    whole_nodes = np.array([each.whole_nodes or machine.whole_nodes for each in machine.partitions])
    exclusive = asked.exclusive | whole_nodes[partition]
    total = asked.total[:, : len(resources)]
    columns = (asked.nodes, asked.cpus_per_task, asked.memory_per_cpu, exclusive, pool, total)
    chosen, shape = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    count, task, with_cpus, alone, place = chosen[:, :5].T
    whole_job = chosen[:, 5:]
    memory = resources.index(MEMORY) if MEMORY in resources else -1
    named = np.maximum(count, 1.0)
    for row in np.flatnonzero(count == 0):
        has, by_cpu = node_has[pools[int(place[row])]], bool(with_cpus[row])
        count[row] = _nodes_of_equal_parts(whole_job[row], task[row], memory, by_cpu, has)
    fewest, cpus = np.maximum(count, 1.0), np.maximum(whole_job[:, CPU], 1.0)
    per_node = whole_job / fewest[:, None]
    per_node[:, CPU] = 0.0
    per_cpu = np.zeros_like(per_node)
    if memory >= 0:
        per_node[:, memory] = whole_job[:, memory] / named  # asked for by node: each gives it
        per_cpu[:, memory] = np.where(with_cpus > 0, whole_job[:, memory] / cpus, 0.0)
        per_node[with_cpus > 0, memory] = 0.0
    serves = np.zeros((len(pools), len(node_has)), dtype=np.bool_)
    for index, each in enumerate(pools):
        serves[index, each] = True
    return NodeRequests(
        shape=shape.reshape(-1).astype(np.int64),
        fewest=fewest.astype(np.int64),
        most=np.where(count > 0, count, _ANY_NODES).astype(np.int64),
        cpus=cpus,
        task=np.minimum(np.maximum(task, 1.0), cpus),
        per_node=np.ascontiguousarray(per_node),
        per_cpu=np.ascontiguousarray(per_cpu),
        whole=alone > 0,
        pool=place.astype(np.int64),
        pool_first=np.concatenate([[0], np.cumsum([len(each) for each in pools])]).astype(np.int64),
        pool_node=np.concatenate(pools).astype(np.int64),
        serves=bits_of(serves),
    )


def _nodes_of_equal_parts(
    total: FloatArray, task: float, memory: int, by_cpu: bool, has: FloatArray
) -> int:
    """The fewest nodes that hold a job in equal parts; 0 where one node has its GPUs, or none do.

    Slurm spreads `--gpus=8` of a job that names no nodes over two nodes of four. `has`: what each
    node that may serve has, shape [nodes, resources].
    """
    others = [column for column in range(len(total)) if column not in (CPU, memory)]
    if (has[:, others] >= total[others]).all(axis=1).any():
        return 0
    cpus, task = max(total[CPU], 1.0), max(task, 1.0)
    for nodes in range(2, int(min(len(has), cpus // task)) + 1):
        own = np.ceil(cpus / task / nodes) * task
        holds = (has[:, others] * nodes >= total[others]).all(axis=1) & (has[:, CPU] >= own)
        if memory >= 0:
            holds &= has[:, memory] >= (total[memory] / cpus * own if by_cpu else total[memory])
        if np.count_nonzero(holds) >= nodes:
            return nodes
    return 0


def node_machine(log: JobLog, machine: Machine) -> NodeMachine:
    """The nodes of a machine for the jobs of a log; a partition holds each job."""
    whole, weight = node_resources(machine)
    requests, partition = requests_on(log, machine), partition_of(log, machine)
    limits = machine_limits(log, machine, requests, partition)
    amounts = requests.per_node.sum(axis=0) + requests.per_cpu.sum(axis=0)
    counted = amounts > 0.0  # skips resources that no job asks for
    counted[CPU] = True
    tiers = np.array([each.tier for each in machine.partitions], dtype=np.int64)
    return NodeMachine(
        whole=np.ascontiguousarray(whole[:, counted]),
        weight=weight,
        requests=requests._replace(
            per_node=np.ascontiguousarray(requests.per_node[:, counted]),
            per_cpu=np.ascontiguousarray(requests.per_cpu[:, counted]),
        ),
        limits=limits,
        partition=partition,
        tier=tiers[partition],
        user=log.user,
        serves=partition_serves(machine),
        backfill=machine.backfill,
        kinds=limited_kinds(machine),
        together=dict(zip(machine.resources, machine.capacity.tolist(), strict=True)),
    )


def completed_requests(log: JobLog, machine: Machine) -> ResourceRequests:
    """The requests in the machine's columns, with the default memory of each partition.

    After the columns of nodes come the licences of the machine.
    """
    asked = log.requests
    if asked is None:
        asked = ResourceRequests.of_totals(
            log.processors[:, None].astype(np.float64),
            names=(CPUS,),
            nodes=np.zeros(len(log), dtype=np.int64),
        )
    names = (*machine.resources, *machine.licences)
    total = np.column_stack([asked.of(name) for name in names])
    total[:, 0] = np.maximum(total[:, 0], 1.0)
    asked = replace(asked, names=names, total=total)
    if MEMORY not in machine.resources:
        return asked
    return _with_default_memory(asked, partition_of(log, machine), machine)


def all_requests(log: JobLog, machine: Machine) -> ResourceRequests:
    """The same, with requests that no node has, such as licences."""
    asked, recorded = completed_requests(log, machine), log.requests
    others = [] if recorded is None else [n for n in recorded.names if n not in asked.names]
    if recorded is None or not others:
        return asked
    columns = [asked.total, *(recorded.of(name)[:, None] for name in others)]
    return replace(asked, names=(*asked.names, *others), total=np.hstack(columns))


def _with_default_memory(
    asked: ResourceRequests, partition: IntArray, machine: Machine
) -> ResourceRequests:
    column = machine.resources.index(MEMORY)
    total, by_cpu = asked.total.copy(), asked.memory_per_cpu.copy()
    if not machine.counts_memory:
        total[:, column] = 0.0
        return replace(asked, total=total)
    for place, each in enumerate(machine.partitions):
        silent = (partition == place) & (total[:, column] <= 0.0)
        by_cpu[silent] = of_cpus = each.default_memory_per_cpu > 0.0
        memory = each.default_memory_per_node * np.maximum(asked.nodes, 1)
        if of_cpus:
            memory = each.default_memory_per_cpu * asked.total[:, 0]
        total[silent, column] = memory[silent]
    return replace(asked, total=total, memory_per_cpu=by_cpu)


def _pools(
    asked: ResourceRequests, partition: IntArray, machine: Machine
) -> tuple[list[IntArray], IntArray]:
    pairs, pool = np.unique(
        np.column_stack([partition, asked.constraint]), axis=0, return_inverse=True
    )
    serves = partition_serves(machine)
    counts = [kind.count for kind in machine.kinds]
    features = [kind.features for kind in machine.kinds]
    pools = []
    for place, constraint in pairs:
        meet = np.repeat([meets(asked.constraints[constraint], each) for each in features], counts)
        pools.append(np.flatnonzero(serves[place] & meet))
    return pools, pool.reshape(-1).astype(np.int64)
