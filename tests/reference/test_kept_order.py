"""An order that is kept for a while gives nearly the starts of one made at each decision."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder, rank_anew, rank_of_tiers
from slurm_rl_plugin.simulator.schedules.run import Run, resume, run_until_started
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.units import FloatArray
from tests.reference.loads import random_workload
from tests.reference.test_network_against_readable_simulator import network_of_waits

CAPACITY, JOBS = 16, 400
SETTINGS = SimulationSettings(capacity=CAPACITY, backfilling="easy", half_life=86400.0)
NOBODY, NO_TIME = np.empty(0, dtype=np.int64), np.empty(0)


def load() -> Workload:
    """Three quarters of the jobs wait already, the others come while these run."""
    workload = random_workload(3, JOBS, CAPACITY, parallel=True)
    run_time = 60.0 * workload.run_time
    submit = workload.submit - workload.submit[3 * JOBS // 4]
    return workload.having(submit=submit, run_time=run_time, estimate=run_time, time_limit=run_time)


def starts(workload: Workload, order: QueueOrder, kept: float) -> FloatArray:
    run = Run.of(workload, order, SETTINGS, keeps_order=kept > 0.0)
    run.resume(0.0, NOBODY, NO_TIME)
    run_until_started(run, np.arange(JOBS), np.inf, kept)
    return run.cluster.start


@pytest.mark.parametrize("name", ["sjf", "multifactor", "network"])
def test_starts_are_nearly_those_of_an_order_made_at_each_decision(name: str) -> None:
    workload = load()
    order = {
        "sjf": QueueOrder(scores=-workload.estimate),
        "multifactor": QueueOrder(rule="multifactor"),
        "network": QueueOrder(network=network_of_waits()),
    }[name]
    exact, kept = starts(workload, order, 0.0), starts(workload, order, 0.02)
    apart = np.abs(np.log10(np.maximum(kept, 60.0) / np.maximum(exact, 60.0)))
    assert np.median(apart) < 0.04
    assert abs(kept.max() / exact.max() - 1.0) < 0.02
    assert (kept != exact).any()


def test_pending_jobs_are_ranked_by_tier_and_score_and_newcomers_behind_them() -> None:
    workload = load()
    tier = np.arange(JOBS) % 2
    scores = np.random.default_rng(1).integers(0, 5, JOBS).astype(np.float64)
    settings = SimulationSettings(capacity=CAPACITY)
    rank = rank_of_tiers(tier)
    cluster = settings.empty_cluster(workload, rank=rank)
    queue = settings.ordered_queue(workload, QueueOrder(scores=scores))
    resume(cluster, 0.0, NOBODY, NO_TIME)
    pending = int(cluster.state[0].pending)
    for _ in range(2):  # what is ranked is ranked again
        rank_anew(cluster, queue)
        order = np.argsort(rank)
        assert (np.diff(tier[order]) <= 0).all()
        for each in (0, 1):
            mine = order[tier[order] == each]
            assert (mine[: (mine < pending).sum()] < pending).all()
            known = mine[mine < pending]
            assert (np.diff(scores[known]) <= 0).all()
            assert (np.diff(known)[np.diff(scores[known]) == 0] > 0).all()
            assert (np.diff(mine[mine >= pending]) > 0).all()
        np.testing.assert_array_equal(cluster.pending[:pending], order[order < pending])
