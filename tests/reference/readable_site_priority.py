"""Slurm's multifactor priority of jobs on nodes, factor by factor."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slurm_rl_plugin.domain.machine import Machine
from tests.reference.node_loads import NodeLoad
from tests.reference.readable_machine import QueuedJob
from tests.reference.readable_nodes import Scorer, World

#: Of the accounts of the loads.
SHARES = {"root": 0.5, "physics": 0.3, "optics": 0.2}


def site_scorer(load: NodeLoad, numbers: Sequence[int]) -> Scorer:
    """Whole points of the pending jobs, whose numbers in the log are given."""
    log, machine = load.log, load.machine
    accounts = [log.accounts[log.account[number]] for number in numbers]
    processors = [int(log.processors[number]) for number in numbers]
    qos = [log.qos[number] for number in numbers]

    def score(world: World) -> list[int]:
        usage = dict.fromkeys(SHARES, 0.0)
        for j in world.started:
            used = min(world.now, world.end(j)) - world.start[j]
            usage[accounts[j]] += processors[j] * used
        return [
            math.floor(
                _fixed_points(world.jobs[j], qos[j], machine)
                + machine.weights.age * _age(world, j, machine)
                + machine.weights.fairshare * _fair_share(accounts[j], usage)
            )
            for j in world.pending
        ]

    return score


def _fair_share(account: str, usage: dict[str, float]) -> float:
    """The part of the accounts that has no more of its share left; nobody divides by no usage."""
    own, share = usage[account], SHARES[account]
    return sum(SHARES[each] * own <= share * usage[each] for each in SHARES) / len(SHARES)


def _age(world: World, j: int, machine: Machine) -> float:
    """Part of the highest age at the last calculation."""
    calculated = world.now // machine.weights.period * machine.weights.period
    waited = max(calculated - world.jobs[j].submit, 0.0)
    return min(waited / machine.weights.highest_age, 1.0)


def _fixed_points(job: QueuedJob, qos: str, machine: Machine) -> float:
    """Of what does not change while a job waits."""
    weights, partitions = machine.weights, machine.partitions
    nodes = sum(kind.count for kind in machine.kinds)
    cpus = sum(kind.count * kind.resources[0] for kind in machine.kinds)
    size = (job.named / nodes + job.counts["cpus"] / cpus) / 2
    if "SMALL_RELATIVE_TO_TIME" in weights.flags:
        size = max(job.named / nodes, job.counts["cpus"] / cpus)
        size /= max(math.ceil(job.estimate / 60), 1)
    points = weights.size * (1 - size if weights.favours_small else size)
    highest = max(each.priority_factor for each in partitions)
    points += weights.partition * (partitions[job.partition].priority_factor / highest)
    highest_qos = max((each.priority for each in machine.qos.values()), default=0.0)
    if highest_qos > 0 and qos in machine.qos:
        points += weights.qos * (machine.qos[qos].priority / highest_qos)
    return points + _of_resources(job, machine)


def _of_resources(job: QueuedJob, machine: Machine) -> float:
    """Points of each resource, of its part of the partition's or, by a flag, of the amount."""
    points = 0.0
    for name, weight in machine.weights.resources.items():
        amount = job.counts[name]
        if "NO_NORMAL_TRES" not in machine.weights.flags:
            column = machine.resources.index(name)
            kinds = [machine.kinds[kind] for kind in machine.partitions[job.partition].kinds]
            amount /= max(sum(kind.count * kind.resources[column] for kind in kinds), 1.0)
        points += weight * amount
    return points
