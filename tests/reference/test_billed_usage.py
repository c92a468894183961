"""Usage counts what the site bills: charges of the kernel, the order that follows, fairness."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.simulator.kernel.cluster import account_usage_until
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.run import simulate_in_partitions
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    run_up_to,
    simulate_order,
)
from slurm_rl_plugin.simulator.scoring.site_priority import SitePriority
from slurm_rl_plugin.utility.summary import JobMeasures, ScheduledJobs, summarise
from tests.reference.loads import decayed_usage, jobs_of, random_workload, workload_of
from tests.reference.readable_simulator import fairness_of_each

CAPACITY = 12
SEEDS = range(6)


def bills_of(workload: Workload, seed: int) -> np.ndarray:
    """Bills as sites have them: parts of a unit for some, much for GPUs."""
    rng = np.random.default_rng(seed)
    return np.round(rng.choice([0.1, 0.25, 1.0, 7.3], len(workload.submit)) * 2**24) / 2**24


def by_site(workload: Workload) -> QueueOrder:
    """Fair Tree alone, calculated at every second."""
    jobs = len(workload.submit)
    return QueueOrder(
        site=SitePriority(
            points=np.zeros(jobs), age=0.0, highest_age=1.0, fairshare=1e6, period=1.0
        )
    )


@pytest.mark.parametrize("half_life", [np.inf, 500.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_accounts_are_charged_what_their_jobs_are_billed(seed: int, half_life: float) -> None:
    workload = random_workload(seed, parallel=True)
    billed = bills_of(workload, seed)
    workload = workload.having(billed=billed)
    settings = SimulationSettings(capacity=CAPACITY, backfilling="easy", half_life=half_life)
    cluster = settings.empty_cluster(workload)
    queue = settings.ordered_queue(workload, by_site(workload))
    # `decayed_usage` charges for processors, which are whole: bills are parts of 2**24
    as_processors = workload.having(processors=np.round(billed * 2**24).astype(np.int64))
    for time in np.linspace(workload.submit[0], workload.submit[-1], 20):
        run_up_to(cluster, queue, float(time))
        account_usage_until(cluster, float(time))
        started = np.where(cluster.start <= time, cluster.start, np.nan)
        expected = decayed_usage(as_processors, started.tolist(), float(time), half_life) / 2**24
        np.testing.assert_allclose(cluster.accounts.usage, expected, rtol=1e-9, atol=1e-6)
    run_up_to(cluster, queue, np.inf)
    assert cluster.accounts.rate.tolist() == [0.0, 0.0, 0.0]


def test_who_was_billed_more_goes_behind() -> None:
    """Two accounts ran jobs of one processor; the second job of account 0 had GPUs."""
    workload = workload_of(
        [0.0, 0.0, 10.0, 20.0],
        [100.0, 100.0, 50.0, 50.0],
        processors=[1, 1, 2, 2],
        account=[0, 1, 0, 1],
        shares=[0.5, 0.5],
    )
    settings = SimulationSettings(capacity=2)
    dear = workload.having(billed=np.array([9.0, 1.0, 2.0, 2.0]))
    for order in (QueueOrder(rule="multifactor"), by_site(workload)):
        assert simulate_order(workload, order, settings).start.tolist() == [0, 0, 100, 150]
        assert simulate_order(dear, order, settings).start.tolist() == [0, 0, 150, 100]
    parted = simulate_in_partitions(
        dear, np.zeros(4, dtype=np.int64), [2], QueueOrder(rule="multifactor"), settings
    )
    assert parted.start.tolist() == [0, 0, 150, 100]


@pytest.mark.parametrize("seed", SEEDS)
def test_fairness_is_that_of_the_billed_service(seed: int) -> None:
    workload = random_workload(seed, parallel=True)
    settings = SimulationSettings(capacity=CAPACITY)
    start = simulate_order(workload, QueueOrder(rule="multifactor"), settings).start
    plain = ScheduledJobs(
        submit=workload.submit,
        start=start,
        run_time=workload.run_time,
        processors=workload.processors,
        account=workload.account,
        interactive=workload.interactive,
        shares=workload.shares,
        capacity=CAPACITY,
    )
    billed = replace(plain, billed=bills_of(workload, seed))
    as_processors = [
        job._replace(processors=bill)
        for job, bill in zip(jobs_of(workload), billed.billed.tolist(), strict=True)
    ]
    expected = fairness_of_each(as_processors, start.tolist(), workload.shares.tolist())
    np.testing.assert_allclose(JobMeasures.of(billed).fairness, expected, atol=1e-9)
    same = replace(plain, billed=workload.processors.astype(np.float64))
    names = ("a", "b", "c")
    assert summarise(same, accounts=names) == summarise(plain, accounts=names)
    found = summarise(billed, accounts=names)
    work = billed.run_time * billed.billed
    assert found["accounts"]["b"]["work_fraction"] == pytest.approx(
        work[workload.account == 1].sum() / work.sum()
    )
    assert found["utilization"] == summarise(plain)["utilization"]
