"""A machine and what jobs ask of its nodes, in plain Python: one object for each node and job.

Written from docs/research/machine.md and the docstrings of the domain; it shares no line with the
simulator.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine, MachinePartition, ResourceLimit
from tests.reference.readable_placement import Node, NodeJob, all_idle, find_place


class LimitedGroup(NamedTuple):
    """Jobs that share a limit: what they may have together, by resource, "nodes" and "jobs"."""

    key: tuple[str, ...]
    most: Mapping[str, float]


class QueuedJob(NamedTuple):
    """A job, what it asks of nodes, and what else counts; `named` nodes, 1 for none named."""

    submit: float
    run_time: float
    estimate: float
    asks: NodeJob
    partition: int
    tier: int
    user: int
    groups: tuple[LimitedGroup, ...]
    counts: Mapping[str, float]
    named: int


def nodes_of(machine: Machine) -> list[Node]:
    """Every node, in the order in which Slurm numbers them."""
    return [
        Node(dict(zip(machine.resources, kind.resources, strict=True)), kind.weight)
        for kind in machine.kinds
        for _ in range(kind.count)
    ]


def meets(constraint: str, features: frozenset[str]) -> bool:
    """`&` and `,` before `|`; numbers of nodes are left out, brackets are parentheses."""
    text = re.sub(r"\*\d+", "", constraint).replace(",", "&").replace(" ", "")
    text = text.replace("[", "(").replace("]", ")")
    if not text:
        return True
    words = re.sub(r"[^&|()]+", lambda word: str(word[0] in features), text)
    return bool(eval(words.replace("&", " and ").replace("|", " or ")))


def _partition_of(name: str, machine: Machine) -> int | None:
    """The first that a job names; that of a machine with a single one, or the default, for none."""
    names = [each.name for each in machine.partitions]
    for word in name.split(","):
        if word in names:
            return names.index(word)
    if name and len(names) > 1:
        return None
    return next((p for p, each in enumerate(machine.partitions) if each.is_default), None)


def _serving(partition: MachinePartition, constraint: str, machine: Machine) -> list[int]:
    first, found = 0, []
    for place, kind in enumerate(machine.kinds):
        if place in partition.kinds and meets(constraint, kind.features):
            found += range(first, first + kind.count)
        first += kind.count
    return found


def _asks(log: JobLog, place: int, partition: MachinePartition, machine: Machine) -> NodeJob:
    asked = log.requests
    count = int(asked.nodes[place])
    total = {name: float(asked.of(name)[place]) for name in machine.resources}
    cpus = max(total["cpus"], 1.0)
    memory, with_cpus = total["memory"], bool(asked.memory_per_cpu[place])
    if memory <= 0.0 and machine.counts_memory:
        with_cpus = partition.default_memory_per_cpu > 0.0
        memory = partition.default_memory_per_node * max(count, 1)
        if with_cpus:
            memory = partition.default_memory_per_cpu * cpus
    if not machine.counts_memory:
        memory = 0.0
    of_node = 0.0 if with_cpus else memory / max(count, 1)
    of_cpu = memory / cpus if with_cpus else 0.0
    task = max(int(asked.cpus_per_task[place]), 1)
    serving = _serving(partition, asked.constraints[asked.constraint[place]], machine)
    if count == 0:
        nodes = nodes_of(machine)
        count = _in_equal_parts(total, cpus, task, of_node, of_cpu, [nodes[n].has for n in serving])
    per_node = {name: total[name] / max(count, 1) for name in machine.resources if name != "cpus"}
    per_node["memory"] = of_node
    return NodeJob(
        cpus=cpus,
        fewest=max(count, 1),
        most=count or math.inf,
        task=min(task, cpus),
        per_node=per_node,
        memory_per_cpu=of_cpu,
        alone=bool(asked.exclusive[place]) or partition.whole_nodes or machine.whole_nodes,
        serving=serving,
    )


def _in_equal_parts(total, cpus, task, of_node, of_cpu, serving: Sequence[Mapping[str, float]]):
    """On how many nodes a job fits in equal parts, if no node alone has its GPUs; else 0."""
    beside = [name for name in total if name not in ("cpus", "memory")]

    def holding(count: int) -> int:
        own = math.ceil(cpus / task / count) * task
        return sum(
            all(node[name] * count >= total[name] for name in beside)
            and node["cpus"] >= own
            and node["memory"] >= of_node + of_cpu * own
            for node in serving
        )

    if any(all(node[name] >= total[name] for name in beside) for node in serving):
        return 0
    counts = range(2, min(len(serving), int(cpus // task)) + 1)
    return next((count for count in counts if holding(count) >= count), 0)


def _counts(job: NodeJob, licences: Mapping[str, float]) -> dict[str, float]:
    """What a job counts against limits: what it asks for in all."""
    counts = {name: amount * job.fewest for name, amount in job.per_node.items()}
    counts["memory"] += job.memory_per_cpu * job.cpus
    return {**counts, "cpus": job.cpus, "nodes": job.fewest, "jobs": 1, **licences}


def _above(account: str, parent_of: Callable[[str], str | None]) -> Iterator[str]:
    while account:
        yield account
        account = parent_of(account) or ""


def _groups(
    machine: Machine, qos: str, partition_qos: str, account: str, user: str
) -> Iterator[LimitedGroup]:
    """Every limit that holds for a job: of QOS, of its account and those above, of its user."""
    nothing = ResourceLimit()
    yield LimitedGroup(("licences",), machine.licences)
    for name in {qos, partition_qos} - {""}:
        limit = machine.qos.get(name, nothing)
        yield LimitedGroup(("qos", name), limit.group)
        yield LimitedGroup(("qos", name, user), limit.user)
    own = machine.users.get(user, nothing)
    yield LimitedGroup(("user", user), {**own.user, **own.group})
    for name in _above(account, machine.parent_of.get):
        yield LimitedGroup(("account", name), machine.accounts.get(name, nothing).group)
    # of each user in this account, where he has no limit of his own
    of_users = machine.accounts.get(account, nothing).user
    of_user = {kind: most for kind, most in of_users.items() if kind not in own.user}
    yield LimitedGroup(("account", account, user), of_user)


def _estimate(log: JobLog, place: int, partition: MachinePartition) -> float:
    """What a job asks for, else what its partition gives; its run time where neither does."""
    for limit in (log.time_limit[place], partition.default_time, partition.longest):
        if 0 < limit < math.inf:
            return float(limit)
    return float(log.run_time[place])


def jobs_on(log: JobLog, machine: Machine, *, kill_at_limit: bool) -> dict[int, QueuedJob]:
    """The jobs of a log that the idle machine and its limits hold, by their place in the log."""
    found: dict[int, QueuedJob] = {}
    nodes, licensed = nodes_of(machine), {*machine.licences} & {*log.requests.names}
    for place in range(len(log)):
        number = _partition_of(log.partitions[log.partition[place]], machine)
        if number is None:
            continue
        partition = machine.partitions[number]
        asks = _asks(log, place, partition, machine)
        licences = {name: float(log.requests.of(name)[place]) for name in licensed}
        counts = _counts(asks, licences)
        user, account = log.users[log.user[place]], log.accounts[log.account[place]]
        groups = tuple(_groups(machine, log.qos[place], partition.qos, account, user))
        if not has_room(groups, counts, {}) or not find_place(asks, nodes, all_idle(nodes), ()):
            continue
        estimate = _estimate(log, place, partition)
        run_time = float(log.run_time[place])
        found[place] = QueuedJob(
            submit=float(log.submit[place]),
            run_time=min(run_time, estimate) if kill_at_limit else run_time,
            estimate=estimate,
            asks=asks,
            partition=number,
            tier=partition.tier,
            user=int(log.user[place]),
            groups=groups,
            counts=counts,
            named=max(int(log.requests.nodes[place]), 1),
        )
    return found


def has_room(
    groups: Sequence[LimitedGroup],
    counts: Mapping[str, float],
    used: Mapping[tuple[str, ...], Mapping[str, float]],
) -> bool:
    """Whether each group of a job may have it in addition to its jobs; 0 of a thing is free."""
    return all(
        counts.get(kind, 0.0) <= 0.0
        or used.get(group.key, {}).get(kind, 0.0) + counts[kind] <= most + 1e-6
        for group in groups
        for kind, most in group.most.items()
    )
