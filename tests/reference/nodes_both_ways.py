"""A load on nodes run by the compiled simulator and by the readable one, in one form."""

from __future__ import annotations

from dataclasses import astuple
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.run import AS_SLURM, Run
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine, partition_serves
from slurm_rl_plugin.simulator.workloads.site_points import site_priority
from tests.reference.node_loads import NodeLoad
from tests.reference.readable_machine import jobs_on, nodes_of
from tests.reference.readable_node_reserve import NodeReserve, Rule
from tests.reference.readable_nodes import Scorer, World, simulate
from tests.reference.readable_placement import Place
from tests.reference.readable_site_priority import SHARES, site_scorer
from tests.reference.readable_slurmctld import simulate_slurmctld

#: Orders that are compared.
ORDERS = ("fifo", "fixed", "site")


class Ran(NamedTuple):
    """When and where each job ran, and its number in the log."""

    job: list[int]
    start: list[float]
    end: list[float]
    place: list[Place]


class How(NamedTuple):
    """Backfilling, order, seconds of the cycle, whether jobs end at their limits, the reserve."""

    backfilling: str
    order: str
    cycle: float = 0.0
    kill_at_limit: bool = False
    wanted: int = 0
    rule: ClassLimit | None = None


def prepared_load(load: NodeLoad, how: How) -> tuple[PreparedLog, Workload]:
    """The jobs as the product makes them ready, planned with what they ask for."""
    prepared = prepare_log(
        load.log, machine=load.machine, shares=SHARES, kill_at_limit=how.kill_at_limit
    )
    workload = prepared.workload(None).having(estimate=prepared.requested)
    return prepared, workload.having(interactive=interactive_ones(prepared.log.job_id))


def interactive_ones(job_id: np.ndarray) -> np.ndarray:
    """A third of the jobs, whatever they are."""
    return np.random.default_rng(11).random(1000)[job_id] < 1 / 3


def reserve_of(load: NodeLoad, how: How, job_id: np.ndarray) -> NodeReserve | None:
    """The readable reserve; None where none is kept."""
    if how.rule is None:
        return None
    machine = load.machine
    whole = dict(zip(machine.resources, machine.capacity.tolist(), strict=True))
    interactive = interactive_ones(job_id).tolist()
    return NodeReserve(how.wanted, Rule(*astuple(how.rule)), interactive, whole)


def fixed_scores(jobs: int) -> np.ndarray:
    """Few scores, so that many are equal."""
    return np.random.default_rng(7).integers(0, 4, jobs).astype(np.float64)


def node_run(load: NodeLoad, how: How) -> Run:
    """The compiled simulation before its first event."""
    prepared, workload = prepared_load(load, how)
    orders = {
        "fifo": QueueOrder(scores=-workload.submit),
        "fixed": QueueOrder(scores=fixed_scores(len(workload.submit))),
        "site": QueueOrder(site=site_priority(prepared, load.machine)),
    }
    settings = SimulationSettings(
        capacity=prepared.capacity,
        half_life=np.inf,
        backfilling=how.backfilling,
        cycle=how.cycle,
        reserve=how.wanted,
        class_limit=how.rule,
    )
    nodes = node_machine(prepared.log, load.machine)
    return Run.on_nodes(workload, nodes, orders[how.order], settings)


def run_compiled(load: NodeLoad, how: How) -> Ran:
    """By the compiled simulator, stopped after each start to see where jobs are."""
    prepared, workload = prepared_load(load, how)
    start = node_run(load, how).finish().start
    stopped = node_run(load, how)
    place: list[Place] = [{} for _ in start]
    for time in np.unique(start):
        stopped.run_until(float(time))
        for job in np.flatnonzero(start == time):
            place[job] = stopped.place_of(int(job))
    assert stopped.cluster.start.tolist() == start.tolist()
    return Ran(
        job=(prepared.log.job_id - 1).tolist(),
        start=start.tolist(),
        end=(start + workload.run_time).tolist(),
        place=place,
    )


def run_readable(load: NodeLoad, how: How) -> Ran:
    """By the readable simulator."""
    found = jobs_on(load.log, load.machine, kill_at_limit=how.kill_at_limit)
    jobs, nodes = list(found.values()), nodes_of(load.machine)
    scores = fixed_scores(len(jobs))
    scorers: dict[str, Scorer] = {
        "fifo": lambda world: [-jobs[j].submit for j in world.pending],
        "fixed": lambda world: [scores[j] for j in world.pending],
        "site": site_scorer(load, list(found)),
    }
    world: World
    reserve = reserve_of(load, how, np.array(list(found)) + 1)
    if how.backfilling == AS_SLURM:
        serves = [set(np.flatnonzero(row).tolist()) for row in partition_serves(load.machine)]
        backfill = load.machine.backfill
        world = simulate_slurmctld(jobs, nodes, scorers[how.order], serves, backfill, reserve)
    else:
        world = simulate(jobs, nodes, scorers[how.order], how.backfilling, how.cycle, reserve)
    return Ran(list(found), world.start, [world.end(j) for j in range(len(jobs))], world.place)
