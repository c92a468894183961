"""A simulation that begins in the middle goes on as the one that ran up to there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from slurm_rl_plugin.domain.share_tree import Association, ShareTree
from slurm_rl_plugin.forecasts.replays import queue_met, run_before
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.machine_now import NodeMachine
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.run import NODE_BACKFILLING, Run, run_until_started
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_order
from slurm_rl_plugin.simulator.scoring.site_priority import SitePriority, fair_share
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.simulator.workloads.site_points import site_priority
from tests.reference.loads import random_workload
from tests.reference.node_loads import random_load
from tests.reference.nodes_both_ways import How, fixed_scores, prepared_load
from tests.reference.test_network_against_readable_simulator import network_of_waits

CAPACITY = 12


def orders(workload: Workload, site: SitePriority) -> dict[str, QueueOrder]:
    """Static orders, ones that see usage, and one that sees how long jobs have waited."""
    return {
        "fifo": QueueOrder(scores=-workload.submit),
        "fixed": QueueOrder(scores=fixed_scores(len(workload.submit))),
        "multifactor": QueueOrder(rule="multifactor"),
        "site": QueueOrder(site=site),
        "network": QueueOrder(network=network_of_waits()),
    }


def fair_tree(workload: Workload) -> SitePriority:
    """Fair share alone, of two users in each of two accounts."""
    rows = [Association("a", parent="root", share=3), Association("b", parent="root", share=1)]
    users = [Association(each.account, user) for each in rows for user in "uv"]
    tree = ShareTree.of([*rows, *users])
    places = np.flatnonzero(tree.is_user)
    association = np.random.default_rng(1).choice(places, len(workload.submit))
    resets = np.quantile(workload.submit, [0.2, 0.7])
    return SitePriority(
        points=np.zeros(0),
        age=0.0,
        highest_age=1.0,
        fairshare=1e6,
        period=0.0,
        fair=fair_share(tree, association, half_life=900.0, resets=resets),
    )


def load(seed: int) -> Workload:
    """Jobs that come one at a time, as the batch system looks at each submission."""
    workload = random_workload(seed, 80, CAPACITY, parallel=True)
    return workload.having(submit=workload.submit + 1e-3 * np.arange(80))


def check_replays(
    begun: Callable[[], Run],
    order: QueueOrder,
    settings: SimulationSettings,
    machine: NodeMachine | None,
    jobs: Iterable[int],
) -> None:
    """Replay from the submission of each of some jobs on what the simulation met there."""
    whole, under_way, ran = begun().finish().start, begun(), 0
    workload = under_way.workload
    for job in jobs:
        now = float(workload.submit[job])
        under_way.run_until(float(np.nextafter(now, -np.inf)))
        met = queue_met(under_way, job, now)
        ran += len(met.running)
        present = np.sort(np.concatenate([met.running, met.pending]))
        rows = np.concatenate([present, np.arange(job + 1, len(whole))])
        rest, ordered = workload.select(rows), order.of_jobs(rows)
        run, runs = run_before(met, rest, rows, ordered, settings, machine)
        run.resume(met.now, runs, met.start, met.held, met.looks)
        for number in met.running.tolist() if machine else ():
            place = int(np.searchsorted(present, number))
            assert run.place_of(place) == under_way.place_of(number)
        run_until_started(run, np.arange(len(rows)), np.inf, 0.0)
        np.testing.assert_array_equal(run.cluster.start, whole[rows])
    assert ran > 0


@pytest.mark.parametrize("backfilling", ["none", "easy"])
@pytest.mark.parametrize("name", ["fifo", "multifactor", "site", "network"])
@pytest.mark.parametrize("seed", range(4))
def test_told_the_truth_a_replay_gives_the_truth(seed: int, name: str, backfilling: str) -> None:
    workload = load(seed)
    order = orders(workload, fair_tree(workload))[name]
    settings = SimulationSettings(capacity=CAPACITY, backfilling=backfilling, half_life=900.0)
    jobs = range(5, 80, 9)
    check_replays(lambda: Run.of(workload, order, settings), order, settings, None, jobs)


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
@pytest.mark.parametrize("name", ["fifo", "fixed", "site", "multifactor", "network"])
@pytest.mark.parametrize("seed", range(4))
def test_on_nodes_too_with_the_nodes_of_each_job(seed: int, name: str, backfilling: str) -> None:
    drawn, how = random_load(seed), How(backfilling, name, kill_at_limit=seed % 2 == 0)
    prepared, workload = prepared_load(drawn, how)
    order = orders(workload, site_priority(prepared, drawn.machine))[name]
    machine = node_machine(prepared.log, drawn.machine)
    settings = SimulationSettings(
        capacity=prepared.capacity, backfilling=backfilling, half_life=900.0
    )
    jobs = range(3, len(workload.submit), 4)
    check_replays(
        lambda: Run.on_nodes(workload, machine, order, settings), order, settings, machine, jobs
    )


@pytest.mark.parametrize("name", ["fifo", "multifactor"])
def test_a_simulation_with_a_cycle_may_stop_between_decisions(name: str) -> None:
    workload = load(2)
    order = orders(workload, fair_tree(workload))[name]
    settings = SimulationSettings(capacity=CAPACITY, backfilling="easy", cycle=60.0)
    whole = simulate_order(workload, order, settings).start
    run = Run.of(workload, order, settings)
    for until in np.arange(0.0, whole.max() + 60.0, 7.0):
        run.run_until(float(until))
    np.testing.assert_array_equal(run.cluster.start, whole)


def test_what_has_not_started_in_time_has_no_start() -> None:
    workload = load(1)
    order = QueueOrder(scores=-workload.submit)
    settings = SimulationSettings(capacity=CAPACITY)
    run, last = Run.of(workload, order, settings), np.array([79])
    until = float(workload.submit[40])
    run_until_started(run, last, until, 0.0)
    assert np.isnan(run.cluster.start[79])
    assert np.nanmax(run.cluster.start) <= until
    run_until_started(run, last, np.inf, 0.0)
    assert run.cluster.start[79] == simulate_order(workload, order, settings).start[79]
