"""Starts in replays on processors and on nodes, and what is drawn for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain.machine import Machine, MachinePartition, NodeKind
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.features.history.run_history import PARTS
from slurm_rl_plugin.forecasts.replays import (
    WEEK,
    QueueNow,
    ReplayedSite,
    RunSpreads,
    past_arrivals,
)
from slurm_rl_plugin.learning.onnx_file import import_model
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.services.hook import model_path
from slurm_rl_plugin.simulator.kernel.workload import Workload, nothing_past
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.run import NODE_BACKFILLING, HeldNodes
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.site_priority import SitePriority
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.units import DAY, HOUR, FloatArray, IntArray
from tests.reference.loads import workload_of

#: One processor: job 0 runs since 100 s, 1 and 2 wait for it.
QUEUE = QueueNow(
    now=1000.0,
    running=np.array([0]),
    start=np.array([900.0]),
    pending=np.array([1, 2]),
    usage=np.zeros(1),
)
BOTH = np.array([1, 2])
PROCESSORS = np.ones(3, dtype=np.int64)
#: A job each hour for ten weeks, and one more at every noon.
SUBMIT = np.sort(
    np.concatenate([np.arange(0.0, 10 * WEEK, HOUR), np.arange(12.5 * HOUR, 10 * WEEK, DAY)])
)
QUANTILES = np.array([[60.0, 300.0, 1800.0, 3000.0, 3600.0], [5.0, 5.0, 5.0, 5.0, 5.0]])
LIMIT = np.array([7200.0, 60.0])
MANY = 20_000


def jobs() -> Workload:
    nobody = np.zeros(3, dtype=np.int64)
    limit = np.full(3, 3600.0)
    return workload_of(
        [800.0, 950.0, 1000.0],
        np.full(3, np.nan),
        estimate=limit,
        time_limit=limit,
        processors=PROCESSORS,
        account=nobody,
        past=nothing_past(nobody, np.array([0, 1, 1]), limit, PROCESSORS),
    )


def first_come(workload: Workload, _: IntArray) -> QueueOrder:
    return QueueOrder(scores=-workload.submit)


def site(quantiles: FloatArray, together: float = 0.5) -> ReplayedSite:
    return ReplayedSite(
        jobs=jobs(),
        quantiles=lambda jobs: np.tile(quantiles, (len(jobs), 1)),
        order=first_come,
        settings=SimulationSettings(capacity=1, backfilling="easy"),
        together=together,
    )


def test_the_plan_takes_limits_for_run_times() -> None:
    planned = site(np.full(len(PARTS), 50.0)).planned(QUEUE, BOTH)
    assert planned.tolist() == [900.0 + 3600.0, 900.0 + 2 * 3600.0]


def test_drawn_run_times_bring_starts_forward() -> None:
    starts = site(np.array([200.0, 300.0, 400.0, 500.0, 600.0])).starts(
        QUEUE, BOTH, 400, np.random.default_rng(1)
    )
    assert starts.shape == (2, 400)
    assert (starts > 1000.0).all()
    # the running one is among those that ran longer than 100 s; behind it one run of 400 s
    first, second = np.median(starts, axis=1)
    assert 1200.0 < first < 1400.0
    assert 1550.0 < second < 1900.0
    assert (starts[1] > starts[0]).all()


def test_jobs_of_a_template_drawn_together_spread_more() -> None:
    """Who waits for two jobs of one template waits for two long runs or for two short ones."""
    just_started = replace(QUEUE, start=np.array([1000.0 - 1e-3]))
    nobody, limit = np.zeros(3, dtype=np.int64), np.full(3, 3600.0)
    alike = jobs().having(past=nothing_past(nobody, np.array([0, 0, 1]), limit, PROCESSORS))
    spread = []
    for together in (0.0, 1.0):
        one = site(np.array([30.0, 100.0, 400.0, 1000.0, 2000.0]), together)
        starts = replace(one, jobs=alike).starts(
            just_started, np.array([2]), 400, np.random.default_rng(2)
        )
        spread.append(float(np.std(starts - 1000.0)))
    assert spread[1] > 1.2 * spread[0]


def test_what_never_starts_is_said_to_start_after_ninety_days() -> None:
    years = np.full(3, 1e8)
    endless = replace(
        site(np.full(len(PARTS), 1e8)), jobs=jobs().having(estimate=years, time_limit=years)
    )
    starts = endless.starts(QUEUE, BOTH[:1], 2, np.random.default_rng(1))
    assert starts.tolist() == [[1000.0 + 90 * DAY] * 2]


@pytest.mark.parametrize(
    ("now", "span", "block"),
    [
        *((8 * WEEK + 1000.0, span, WEEK) for span in (DAY, WEEK, 2 * WEEK)),
        (4.5 * DAY, 1.5 * DAY, DAY),  # in the first week days are drawn
    ],
)
def test_jobs_of_the_past_come_at_their_hour(now: float, span: float, block: float) -> None:
    back = set()
    for seed in range(40):
        jobs, submit = past_arrivals(SUBMIT, now, span, np.random.default_rng(seed))
        assert (np.diff(submit) >= 0.0).all()
        assert now < submit[0] <= submit[-1] <= now + span
        assert (SUBMIT[jobs] <= now).all(), "later jobs are unknown"
        np.testing.assert_allclose((submit - SUBMIT[jobs]) % block, 0.0)
        back.add(round((submit[0] - SUBMIT[jobs[0]]) / block))
    assert back == set(range(1, 7 if block == WEEK else 5))


def test_on_the_first_day_nobody_is_known_to_come() -> None:
    jobs, submit = past_arrivals(SUBMIT, 0.9 * DAY, DAY, np.random.default_rng(1))
    assert len(jobs) == len(submit) == 0


def drawn(job: int, ran: float) -> np.ndarray:
    jobs = np.full(MANY, job)
    spreads = RunSpreads.of_quantiles(QUANTILES[jobs], LIMIT[jobs])
    return spreads.drawn(np.full(MANY, ran), (np.arange(MANY) + 0.5) / MANY)


def test_the_foretold_parts_of_the_runs_are_shorter() -> None:
    seconds = drawn(0, 0.0)
    for part, quantile in zip(PARTS, QUANTILES[0], strict=True):
        assert (seconds <= quantile).mean() == pytest.approx(part, abs=1e-3)
    assert seconds.min() >= 1.0
    assert seconds.max() <= LIMIT[0] * 1.001


@pytest.mark.parametrize("ran", [100.0, 1800.0, 3500.0])
def test_a_running_job_is_drawn_among_the_runs_that_got_so_far(ran: float) -> None:
    seconds, all_runs = drawn(0, ran), drawn(0, 0.0)
    assert seconds.min() > ran
    longer = all_runs[all_runs > ran]
    for part in PARTS:
        assert np.quantile(seconds, part) == pytest.approx(np.quantile(longer, part), rel=0.02)


def test_who_has_outlived_all_that_was_foretold_ends_next() -> None:
    assert drawn(0, 9000.0).tolist() == [9001.0] * MANY


#: Two nodes of 4 CPUs; the second, which is taken last, has a GPU.
MACHINE = Machine(
    kinds=(
        NodeKind(name="n1", count=1, resources=(4.0, 64.0, 0.0), weight=1),
        NodeKind(name="g1", count=1, resources=(4.0, 64.0, 1.0), weight=2),
    ),
    partitions=(MachinePartition(name="", kinds=(0, 1), is_default=True),),
)
#: Job 0 runs since 100 s for up to an hour, 1 for two hours; 2, 3 and 4 wait.
QUEUE_NODES = QueueNow(
    now=1000.0,
    running=np.array([0, 1]),
    start=np.array([900.0, 900.0]),
    pending=np.array([2, 3, 4]),
    usage=np.zeros(1),
)
WAITING = np.array([2, 3, 4])
CPUS, GPUS = np.array([2.0, 4.0, 4.0, 2.0, 1.0]), np.array([0.0, 0.0, 0.0, 1.0, 0.0])


def site_nodes(backfilling: str, cpus: FloatArray = CPUS) -> ReplayedSite:
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


def held(*nodes: int | None) -> HeldNodes:
    """The running jobs on these nodes; None where it is not known."""
    known = [job for job, node in enumerate(nodes) if node is not None]
    return HeldNodes(
        first=np.cumsum([0, *(node is not None for node in nodes)]),
        node=np.array([nodes[job] for job in known], dtype=np.int64),
        cpus=CPUS[known],
    )


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
def test_who_waits_depends_on_where_the_others_run(backfilling: str) -> None:
    """Job 0 on the node of the GPU leaves it to job 3, which ends before the head needs it."""
    one = site_nodes(backfilling)
    beside, apart = (
        one.planned(replace(QUEUE_NODES, held=held(*each)), WAITING) for each in ((1, 0), (0, 1))
    )
    assert beside.tolist() == [4500.0, 8100.0 if backfilling == "none" else 1000.0, 8100.0]
    assert apart.tolist() == [4500.0, 8100.0, 8100.0]


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
def test_jobs_of_unknown_nodes_are_placed_as_the_simulator_would(backfilling: str) -> None:
    one = site_nodes(backfilling)

    def planned(*nodes: int | None) -> FloatArray:
        return one.planned(replace(QUEUE_NODES, held=held(*nodes)), WAITING)

    np.testing.assert_array_equal(one.planned(QUEUE_NODES, WAITING), planned(0, 1))
    np.testing.assert_array_equal(planned(None, 1), planned(0, 1))
    # none that another is known to hold
    np.testing.assert_array_equal(planned(None, 0), planned(1, 0))


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
def test_who_finds_room_starts_though_nothing_happens(backfilling: str) -> None:
    nobody = np.empty(0, dtype=np.int64)
    idle = replace(QUEUE_NODES, now=1100.0, running=nobody, start=np.empty(0))
    assert site_nodes(backfilling).planned(idle, WAITING[:2]).tolist() == [1100.0, 1100.0]


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
def test_more_may_run_on_a_node_than_it_has(backfilling: str) -> None:
    """Five jobs of 4 CPUs on one node of 4: a real node may be shared, and a limit outlived."""
    one, where = site_nodes(backfilling, cpus=np.full(5, 4.0)), np.arange(5)
    queue = QueueNow(
        now=1000.0,
        running=np.arange(4),
        start=np.full(4, 990.0),
        pending=np.array([4]),
        usage=np.zeros(1),
        held=HeldNodes(first=where, node=np.zeros(4, dtype=np.int64), cpus=np.full(4, 4.0)),
    )
    assert one.planned(queue, np.array([4])).tolist() == [1000.0]
    everywhere = HeldNodes(first=where, node=np.array([0, 1, 0, 1]), cpus=np.full(4, 4.0))
    assert one.planned(replace(queue, held=everywhere), np.array([4])).tolist() == [4590.0]


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
def test_the_line_is_that_of_the_order_whoever_finds_room(backfilling: str) -> None:
    """Job 3 starts at once and job 2 does not; in line it is behind it."""
    one = site_nodes(backfilling)
    assert one.line(QUEUE_NODES).tolist() == [2, 3, 4]
    last_first = replace(one, order=lambda jobs, _: QueueOrder(scores=jobs.submit))
    assert last_first.line(QUEUE_NODES).tolist() == [4, 3, 2]


def test_the_line_goes_by_scores_of_now_where_they_change() -> None:
    points = np.array([0.0, 0.0, 1.0, 3.0, 2.0])
    own = SitePriority(points=points, age=0.0, highest_age=DAY, fairshare=0.0, period=60.0)
    one = replace(site_nodes("slurm"), order=lambda *_: QueueOrder(site=own))
    assert one.line(QUEUE_NODES).tolist() == [3, 4, 2]
    model = import_model(model_path("default"))
    assert isinstance(model, QNetwork)
    learned = replace(one, order=lambda *_: QueueOrder(network=model))
    assert sorted(learned.line(QUEUE_NODES).tolist()) == [2, 3, 4]
