"""Starts in replays on nodes: where running jobs are, and what is done without an event."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain.machine import Machine, MachinePartition, NodeKind
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.forecasts.replays import QueueNow, ReplayedSite
from slurm_rl_plugin.learning.onnx_file import import_model
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.services.hook import model_path
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.on_nodes import NODE_BACKFILLING
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.resumed import HeldNodes
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.site_priority import SitePriority
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.units import DAY, FloatArray, IntArray

#: Two nodes of 4 CPUs, of which the second, which is taken last, has a GPU.
MACHINE = Machine(
    kinds=(
        NodeKind(name="n1", count=1, resources=(4.0, 64.0, 0.0), weight=1),
        NodeKind(name="g1", count=1, resources=(4.0, 64.0, 1.0), weight=2),
    ),
    partitions=(MachinePartition(name="", kinds=(0, 1), is_default=True),),
)
#: Job 0 runs since 100 s for up to an hour, 1 for two hours; 2, 3 and 4 wait.
QUEUE = QueueNow(
    now=1000.0,
    running=np.array([0, 1]),
    start=np.array([900.0, 900.0]),
    pending=np.array([2, 3, 4]),
    usage=np.zeros(1),
)
WAITING = np.array([2, 3, 4])
CPUS, GPUS = np.array([2.0, 4.0, 4.0, 2.0, 1.0]), np.array([0.0, 0.0, 0.0, 1.0, 0.0])


def first_come(workload: Workload, _: IntArray) -> QueueOrder:
    return QueueOrder(scores=-workload.submit)


def site(backfilling: str, cpus: FloatArray = CPUS) -> ReplayedSite:
    """Five jobs of 2 CPUs, 4, 4, 2 and a GPU, 1."""
    count = len(cpus)
    made = generated_log(f"mmn:jobs={count},processors=8,load=.5,seed=1")
    made.submit[:] = np.array([800.0, 850.0, 950.0, 960.0, 1000.0])[:count]
    made.time_limit[:] = 3600.0
    made.time_limit[1:4] = [7200.0, 3600.0, 1800.0][: count - 1]
    asked = ResourceRequests.of_totals(
        np.column_stack([cpus, np.ones(count), GPUS[:count]]),
        names=BASIC_RESOURCES,
        nodes=np.ones(count, dtype=np.int64),
    )
    log = replace(made, processors=cpus.astype(np.int64), requests=asked, eligible=made.submit)
    prepared = prepare_log(log, machine=MACHINE)
    return ReplayedSite(
        jobs=prepared.workload(RequestedLimit()).having(run_time=np.full(count, np.nan)),
        quantiles=lambda jobs: np.tile([200.0, 300.0, 400.0, 500.0, 600.0], (len(jobs), 1)),
        order=first_come,
        settings=SimulationSettings(capacity=8, backfilling=backfilling),
        machine=node_machine(prepared.log, MACHINE),
    )


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
def test_who_waits_depends_on_where_the_others_run(backfilling: str) -> None:
    """Job 0 beside the GPU leaves it to job 3, which ends before the head needs the node."""
    one = site(backfilling)
    beside, apart = (
        one.planned(replace(QUEUE, held=HeldNodes.evenly(each, CPUS[:2].astype(np.int64))), WAITING)
        for each in ([[1], [0]], [[0], [1]])
    )
    assert beside.tolist() == [4500.0, 8100.0 if backfilling == "none" else 1000.0, 8100.0]
    assert apart.tolist() == [4500.0, 8100.0, 8100.0]


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
def test_jobs_of_unknown_nodes_are_placed_as_the_simulator_would(backfilling: str) -> None:
    one = site(backfilling)
    held = HeldNodes.evenly([[0], [1]], np.array([2, 4]))
    known = one.planned(replace(QUEUE, held=held), WAITING)
    half = one.planned(replace(QUEUE, held=HeldNodes.evenly([[], [1]], np.array([2, 4]))), WAITING)
    np.testing.assert_array_equal(one.planned(QUEUE, WAITING), known)
    np.testing.assert_array_equal(half, known)


def test_a_job_of_unknown_nodes_takes_none_that_another_is_known_to_hold() -> None:
    held = HeldNodes.evenly([[], [0]], np.array([2, 4]))
    beside = HeldNodes.evenly([[1], [0]], np.array([2, 4]))
    found = [site("easy").planned(replace(QUEUE, held=each), WAITING) for each in (held, beside)]
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
def test_who_finds_room_starts_though_nothing_happens(backfilling: str) -> None:
    nobody = np.empty(0, dtype=np.int64)
    idle = replace(QUEUE, now=1100.0, running=nobody, start=np.empty(0))
    assert site(backfilling).planned(idle, WAITING[:2]).tolist() == [1100.0, 1100.0]


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
def test_more_may_run_on_a_node_than_it_has(backfilling: str) -> None:
    """Five jobs of 4 CPUs on one node of 4: a real node may be shared, and a limit outlived."""
    queue = QueueNow(
        now=1000.0,
        running=np.arange(4),
        start=np.full(4, 990.0),
        pending=np.array([4]),
        usage=np.zeros(1),
        held=HeldNodes.evenly([[0]] * 4, np.full(4, 4)),
    )
    one = site(backfilling, cpus=np.full(5, 4.0))
    assert one.planned(queue, np.array([4])).tolist() == [1000.0]
    everywhere = replace(queue, held=HeldNodes.evenly([[0], [1], [0], [1]], np.full(4, 4)))
    assert one.planned(everywhere, np.array([4])).tolist() == [4590.0]


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
def test_the_line_is_that_of_the_order_whoever_finds_room(backfilling: str) -> None:
    """Job 3 starts at once and job 2 does not; in line it stands behind it."""
    one = site(backfilling)
    assert one.line(QUEUE).tolist() == [2, 3, 4]
    last_first = replace(one, order=lambda jobs, _: QueueOrder(scores=jobs.submit))
    assert last_first.line(QUEUE).tolist() == [4, 3, 2]


def test_the_line_goes_by_scores_of_now_where_they_change() -> None:
    points = np.array([0.0, 0.0, 1.0, 3.0, 2.0])
    own = SitePriority(points=points, age=0.0, highest_age=DAY, fairshare=0.0, period=60.0)
    one = replace(site("slurm"), order=lambda *_: QueueOrder(site=own))
    assert one.line(QUEUE).tolist() == [3, 4, 2]
    model = import_model(model_path("default"))
    assert isinstance(model, QNetwork)
    learned = replace(one, order=lambda *_: QueueOrder(network=model))
    assert sorted(learned.line(QUEUE).tolist()) == [2, 3, 4]


def test_cpus_are_spread_over_the_nodes_of_a_job() -> None:
    held = HeldNodes.evenly([[3, 5], [], [7, 8, 9]], np.array([5, 2, 1]))
    assert held.first.tolist() == [0, 2, 2, 5]
    assert held.node.tolist() == [3, 5, 7, 8, 9]
    assert held.cpus.tolist() == [3.0, 2.0, 1.0, 1.0, 1.0]
