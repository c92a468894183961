"""Small loads on small machines of several kinds of nodes, drawn to meet every rule."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import (
    BackfillSettings,
    Machine,
    MachinePartition,
    NodeKind,
    PriorityWeights,
    ResourceLimit,
)
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests

_GPU, _LICENCE = "gres/gpu:a100", "license/matlab"
RESOURCES = (*BASIC_RESOURCES, _GPU)
_ACCOUNTS, _USERS, _QOS = ("root", "physics", "optics"), ("ada", "ben", "cleo"), ("", "long", "now")
_CONSTRAINTS = (
    "",
    "fast",
    "fast&big",
    "fast|big",
    "[fast|big]",
    "(fast|big),old*2",
    "old|fast&big",
)
_MINUTES = np.array([20.0, 60.0, 100.0, 300.0, 900.0])


class NodeLoad(NamedTuple):
    """Jobs of a log and the machine that they are to run on."""

    log: JobLog
    machine: Machine


def random_load(seed: int, jobs: int = 40) -> NodeLoad:
    """A queueing load; which of the rules it meets is drawn with it."""
    rng = np.random.default_rng(seed)
    machine = _machine(rng)
    return NodeLoad(_log(rng, machine, jobs), machine)


def _machine(rng: np.random.Generator) -> Machine:
    kinds = tuple(_kind(rng, place) for place in range(int(rng.integers(1, 5))))
    return Machine(
        resources=RESOURCES,
        kinds=kinds,
        partitions=_partitions(rng, len(kinds)),
        qos=_limits(rng, _QOS[1:], priorities=(1.0, 3.0)),
        accounts=_limits(rng, _ACCOUNTS),
        users=_limits(rng, _USERS[:2]),
        parent_of={"physics": "root", "optics": "physics"},
        licences={_LICENCE: 3.0} if rng.random() < 0.4 else {},
        counts_memory=bool(rng.random() < 0.85),
        whole_nodes=bool(rng.random() < 0.1),
        backfill=_backfill(rng),
        weights=_weights(rng),
    )


def _kind(rng: np.random.Generator, place: int) -> NodeKind:
    gpus = float(rng.choice([0, 0, 2, 4]))
    words = np.array(["fast", "big", "old"])
    return NodeKind(
        name=f"n{place}",
        count=int(rng.integers(1, 4)),
        resources=(
            float(rng.choice([2, 4, 8])),
            float(rng.choice([8, 16, 24])),
            gpus,
            gpus if rng.random() < 0.5 else 0.0,
        ),
        features=frozenset(words[rng.random(3) < 0.5].tolist()),
        weight=int(rng.integers(1, 4)),
    )


def _partitions(rng: np.random.Generator, kinds: int) -> tuple[MachinePartition, ...]:
    found = [MachinePartition(name="all", kinds=tuple(range(kinds)), is_default=True)]
    for name in ("some", "more")[: int(rng.integers(0, 3))]:
        chosen = np.flatnonzero(rng.random(kinds) < 0.6)
        found.append(
            MachinePartition(
                name=name,
                kinds=tuple(chosen.tolist()) or (0,),
                tier=int(rng.integers(1, 3)),
                priority_factor=int(rng.integers(1, 4)),
                longest=float(rng.choice([900.0, np.inf])),
                default_time=float(rng.choice([300.0, np.inf])),
                whole_nodes=bool(rng.random() < 0.15),
                qos=str(rng.choice(_QOS)),
            )
        )
    memory = rng.integers(0, 3, (len(found), 2)) * (rng.random(2) < 0.5)
    return tuple(
        replace(each, default_memory_per_cpu=float(cpu), default_memory_per_node=float(node))
        for each, (cpu, node) in zip(found, memory.tolist(), strict=True)
    )


def _limits(
    rng: np.random.Generator, names: tuple[str, ...], priorities: tuple[float, ...] = ()
) -> dict[str, ResourceLimit]:
    """Limits of some of the names."""

    def some(part: float) -> dict[str, float]:
        most = {"cpus": 8.0, "memory": 24.0, "gpus": 3.0, _GPU: 2.0, "nodes": 4.0, "jobs": 4.0}
        return {name: amount for name, amount in most.items() if rng.random() < part}

    found = {}
    for place, name in enumerate(names):
        if rng.random() < 0.4:
            priority = priorities[place] if priorities else 0.0
            found[name] = ResourceLimit(group=some(0.3), user=some(0.2), priority=priority)
    return found


def _backfill(rng: np.random.Generator) -> BackfillSettings:
    return BackfillSettings(
        backfills=bool(rng.random() < 0.9),
        interval=float(rng.choice([30.0, 60.0, 200.0])),
        window=float(rng.choice([600.0, 3600.0, 86400.0])),
        resolution=float(rng.choice([30.0, 60.0, 300.0])),
        most_jobs=int(rng.choice([3, 10, 500])),
        most_of_user=int(rng.choice([0, 0, 2])),
        depth=int(rng.choice([1, 4, 100])),
        main_interval=float(rng.choice([60.0, 600.0])),
    )


def _weights(rng: np.random.Generator) -> PriorityWeights:
    some = (rng.integers(0, 3, 5) * 1000.0).tolist()
    return PriorityWeights(
        age=some[0],
        fairshare=some[1],
        size=some[2],
        partition=some[3],
        qos=some[4],
        resources={"cpus": 100.0, "gpus": 500.0} if rng.random() < 0.5 else {},
        highest_age=float(rng.choice([600.0, 7200.0])),
        half_life=np.inf,
        period=float(rng.choice([60.0, 300.0])),
        favours_small=bool(rng.random() < 0.5),
        flags=_flags(rng.random()),
    )


def _flags(drawn: float) -> frozenset[str]:
    """Of PriorityFlags, those that the simulator knows, one or none."""
    if drawn < 0.3:
        return frozenset({"NO_NORMAL_TRES"})
    return frozenset({"SMALL_RELATIVE_TO_TIME"} if drawn > 0.7 else ())


def _log(rng: np.random.Generator, machine: Machine, jobs: int) -> JobLog:
    requests = _requests(rng, machine, jobs)
    run_time = rng.choice(_MINUTES, jobs)
    odd = rng.random(jobs) < 0.25
    run_time[odd] = rng.integers(8, 4000, int(odd.sum())) / 8
    limit = np.maximum(run_time, rng.choice([60.0, 300.0, 900.0], jobs))
    wrong = rng.random(jobs) < rng.choice([0.0, 0.0, 0.4])  # jobs that outlive what they ask for
    limit[wrong] = rng.choice([40.0, 60.0, 200.0], int(wrong.sum()))
    limit[rng.random(jobs) < 0.1] = np.nan
    names = tuple(each.name for each in machine.partitions)
    shares = (requests.total[:, :-1] / np.maximum(machine.capacity, 4.0)).max(axis=1)
    gap = rng.choice([0.5, 0.8, 1.2]) * float((run_time * shares).mean())
    submit = np.floor(np.cumsum(rng.exponential(gap, jobs) * (rng.random(jobs) < 0.6)))
    return JobLog(
        job_id=np.arange(1, jobs + 1),
        submit=submit,
        eligible=submit,
        start=np.full(jobs, np.nan),
        run_time=run_time,
        processors=requests.total[:, 0].astype(np.int64),
        time_limit=limit,
        account=rng.integers(0, 3, jobs),
        user=rng.integers(0, 3, jobs),
        partition=rng.integers(0, len(names) + 1, jobs),
        accounts=_ACCOUNTS,
        users=_USERS,
        partitions=(*names, f"nowhere,{names[-1]}"),
        qos=tuple(rng.choice(_QOS, jobs).tolist()),
        requests=requests,
        kind="swf",
    )


def _requests(rng: np.random.Generator, machine: Machine, jobs: int) -> ResourceRequests:
    nodes = rng.choice([0, 0, 1, 1, 1, 2, 3], jobs)
    cpus = np.maximum(nodes, 1) * rng.integers(1, 5, jobs) + rng.integers(0, 2, jobs)
    by_cpu = rng.random(jobs) < 0.4
    memory = np.where(by_cpu, cpus, np.maximum(nodes, 1)) * rng.integers(0, 5, jobs)
    memory = memory * np.where(by_cpu, 1, rng.integers(1, 3, jobs))
    gpus = np.maximum(nodes, 1) * rng.integers(1, 3, jobs) * (rng.random(jobs) < 0.3)
    gpus = np.where((nodes == 0) & (cpus > 2), 3 * gpus, gpus)  # more than most nodes have
    typed = np.where(rng.random(jobs) < 0.4, gpus, 0)
    licences = rng.integers(0, 3, jobs) * (rng.random(jobs) < 0.3)
    constraint = rng.integers(0, len(_CONSTRAINTS), jobs) * (rng.random(jobs) < 0.3)
    if rng.random() < 0.3:
        constraint[:] = 0
    total = np.column_stack([cpus, memory, gpus, typed, licences])
    return ResourceRequests(
        names=(*machine.resources, _LICENCE),
        total=total.astype(np.float64),
        nodes=nodes.astype(np.int64),
        cpus_per_task=rng.choice([1, 1, 1, 2, 3], jobs),
        memory_per_cpu=by_cpu,
        exclusive=rng.random(jobs) < rng.choice([0.0, 0.1, 0.3]),
        constraint=constraint.astype(np.int64),
        constraints=_CONSTRAINTS,
    )
