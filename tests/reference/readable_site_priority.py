"""Slurm's multifactor priority of jobs on nodes, factor by factor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.share_tree import Association, ShareTree
from tests.reference.node_loads import NodeLoad
from tests.reference.readable_machine import QueuedJob
from tests.reference.readable_nodes import Scorer, World
from tests.reference.slurm_priority import fair_share_factors, with_those_below

#: Of the accounts of the loads.
SHARES = {"root": 0.5, "physics": 0.3, "optics": 0.2}


def site_scorer(load: NodeLoad, numbers: Sequence[int]) -> Scorer:
    """Whole points of the pending jobs, whose numbers in the log are given."""
    log, machine = load.log, load.machine
    names = [(log.accounts[log.account[n]], log.users[log.user[n]]) for n in numbers]
    processors = [int(log.processors[number]) for number in numbers]
    qos = [log.qos[number] for number in numbers]
    accounts = [Association(name, parent="root", share=share) for name, share in SHARES.items()]
    tree = ShareTree.of([*accounts, *(Association(*pair) for pair in set(names))])
    places = [tree.places[pair] for pair in names]

    def score(world: World) -> list[int]:
        calculated = _last_calculation(world.now, machine)
        usage = np.zeros(len(tree))
        for j in world.started:
            end = min(world.end(j), calculated)
            if world.end(j) < calculated:  # nothing counts a run at its end
                end = _last_calculation(world.end(j), machine)
            usage[places[j]] += processors[j] * max(end - world.start[j], 0.0)
        factors = fair_share_factors(machine.weights, tree, with_those_below(tree, usage))
        return [
            math.floor(
                _fixed_points(world.jobs[j], qos[j], machine)
                + machine.weights.age * _age(world, j, machine)
                + machine.weights.fairshare * factors[places[j]]
            )
            for j in world.pending
        ]

    return score


def _last_calculation(time: float, machine: Machine) -> float:
    return time // machine.weights.period * machine.weights.period


def _age(world: World, j: int, machine: Machine) -> float:
    """Part of the highest age at the last calculation."""
    waited = max(_last_calculation(world.now, machine) - world.jobs[j].submit, 0.0)
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
