"""Which nodes a job gets, in plain Python: the rules of select/cons_tres, written to be read.

A job of one node gets the first that holds it, by weight and then by number. Any other takes from
sets of consecutive nodes of equal weight, least weight first, the most tightly fitting first, until
it has enough; where that fails, all is tried once more without the node of the fewest CPUs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

#: Amounts that differ by less are the same.
TINY = 1e-6


class Node(NamedTuple):
    """What a node has, by resource; of less weight it is taken first."""

    has: Mapping[str, float]
    weight: int


class NodeJob(NamedTuple):
    """What a job asks of nodes.

    `cpus` in all, on `fewest` to `most` nodes, whole tasks of `task` CPUs on each; of `per_node`
    the same on each node, plus memory with each CPU; `alone` on them; `serving` may be taken.
    """

    cpus: float
    fewest: int
    most: float
    task: float
    per_node: Mapping[str, float]
    memory_per_cpu: float
    alone: bool
    serving: Sequence[int]


class Free(NamedTuple):
    """What a node has free, and how many jobs run there."""

    amounts: Mapping[str, float]
    jobs: int


#: Nodes and the CPUs that a job has on each.
Place = dict[int, float]


def all_idle(nodes: Sequence[Node]) -> list[Free]:
    """Every node as it is when nothing runs."""
    return [Free(node.has, 0) for node in nodes]


def taken(job: NodeJob, cpus: float) -> dict[str, float]:
    """What a job takes of a node where it has these CPUs."""
    amounts = {**job.per_node, "cpus": cpus}
    amounts["memory"] += job.memory_per_cpu * cpus
    return amounts


def _holds(job: NodeJob, cpus: float, free: Free) -> bool:
    return all(amount <= free.amounts[r] + TINY for r, amount in taken(job, cpus).items())


def usable(job: NodeJob, node: Node, free: Free) -> float:
    """The most CPUs of a node that a job could use, in whole tasks; all or none where alone."""
    if job.alone:
        cpus = node.has["cpus"]
        holds = free.jobs == 0 and cpus >= job.task and _holds(job, cpus, free)
        return cpus if holds else 0.0
    cpus = free.amounts["cpus"]
    while cpus > 0 and not _holds(job, cpus, free):
        cpus -= 1
    return math.floor(cpus / job.task) * job.task


def find_place(
    job: NodeJob, nodes: Sequence[Node], free: Sequence[Free], closed: Collection[int]
) -> Place | None:
    """Where a job gets room that does not take a closed node; None where there is none."""
    able = {n: usable(job, nodes[n], free[n]) for n in job.serving if n not in closed}
    able = {n: cpus for n, cpus in able.items() if cpus > 0}
    if job.most == 1:
        holding = [n for n in able if able[n] >= job.cpus]
        if not holding:
            return None
        first = min(holding, key=lambda n: (nodes[n].weight, n))
        return {first: able[first] if job.alone else job.cpus}
    while len(able) >= job.fewest and sum(able.values()) >= job.cpus:
        place = _take_from_sets(job, nodes, able)
        if place is not None:
            return place
        del able[min(able, key=lambda n: (able[n], n))]
    return None


def _sets(nodes: Sequence[Node], able: Place) -> list[list[int]]:
    """Consecutive able nodes of equal weight."""
    found: list[list[int]] = []
    for n in sorted(able):
        if found and n - 1 == found[-1][-1] and nodes[n].weight == nodes[n - 1].weight:
            found[-1].append(n)
        else:
            found.append([n])
    return found


def _best_set(sets: list[list[int]], nodes: Sequence[Node], able: Place, cpus, count) -> list[int]:
    """Of the least weight, a set that suffices and is the smallest, or one that does not and is the
    largest: in turn, each is compared with the best so far, as Slurm does."""
    least = min(nodes[each[0]].weight for each in sets)
    best, best_size, best_suffices = [], 0.0, False
    for each in [each for each in sets if nodes[each[0]].weight == least]:
        size = sum(able[n] for n in each)
        suffices = size >= cpus and len(each) >= count
        better = not best_suffices or size < best_size if suffices else size > best_size
        if better:
            best, best_size, best_suffices = each, size, suffices
    return best


def _take_from_sets(job: NodeJob, nodes: Sequence[Node], able: Place) -> Place | None:
    place: Place = {}
    sets = _sets(nodes, able)
    cpus, fewest, most = job.cpus, job.fewest, job.most
    while sets and most > 0 and (fewest > 0 or cpus > 0):
        best = _best_set(sets, nodes, able, cpus, fewest)
        sets.remove(best)
        holding = [n for n in best if able[n] >= cpus]
        if fewest <= 1 and holding:
            best = [min(holding, key=lambda n: (able[n], n))]
        for n in best:
            if most == 0 or (fewest <= 0 and cpus <= 0):
                break
            if most == 1 and able[n] < cpus:
                continue
            # the nodes that are still to come get a task each
            others = max(fewest - 1, 0) * job.task
            own = able[n] if job.alone else max(min(able[n], cpus - others), job.task)
            place[n] = own
            cpus, fewest, most = cpus - own, fewest - 1, most - 1
    return place if fewest <= 0 and cpus <= 0 else None
