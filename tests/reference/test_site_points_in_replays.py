"""Replays of a full order start the jobs that the hook's order starts, one by one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain import Decision, PendingJobs, QueueSnapshot
from slurm_rl_plugin.hook.order.queue_plan import planned_order
from slurm_rl_plugin.hook.rails.guard_rails import StarvationBound, UntouchedJobs
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_order
from slurm_rl_plugin.simulator.scoring.site_priority import SitePriority
from slurm_rl_plugin.units import DAY, FloatArray, IntArray
from tests.reference.loads import random_workload
from tests.unit.hook.queues import job_table, snapshot_of

JOBS = 40
SPAN = 500.0


def drawn(seed: int) -> tuple[Workload, FloatArray, IntArray]:
    """Jobs on one processor, their scores and the site's points."""
    rng = np.random.default_rng(seed)
    workload = random_workload(seed, jobs=JOBS, parallel=False)
    submit = np.sort(rng.integers(0, 600, JOBS)).astype(np.float64)
    run_time = rng.integers(5, 60, JOBS).astype(np.float64)
    workload = workload.having(submit=submit, run_time=run_time, estimate=run_time)
    scores = rng.permutation(JOBS).astype(np.float64)
    return workload, scores, rng.choice([0, 100, 250, 900], JOBS)


def queue(workload: Workload, places: IntArray, standing: IntArray, now: float) -> QueueSnapshot:
    jobs = replace(
        job_table(len(places)),
        job_id=places + 1,
        submit=workload.submit[places],
        eligible=workload.submit[places],
        account=workload.account[places],
    )
    pending = replace(PendingJobs.untouched(jobs), standing=standing[places])
    accounts = tuple(str(each) for each in range(len(workload.shares)))
    return replace(snapshot_of(pending, now), accounts=accounts)


def starts_of_the_hook(
    workload: Workload, scores: FloatArray, standing: IntArray, starvation: float
) -> list[float]:
    """Each job starts when the one before ends and the hook has ordered those that wait."""
    start, now = np.full(JOBS, math.nan), 0.0
    while np.isnan(start).any():
        now = max(now, float(workload.submit[np.isnan(start)].min()))
        places = np.flatnonzero(np.isnan(start) & (workload.submit <= now))
        snapshot = queue(workload, places, standing, now)
        decision = StarvationBound(bound=starvation).check(
            Decision(scores=scores[places]), snapshot
        )
        order, _ = planned_order(snapshot, decision, UntouchedJobs(), span=SPAN)
        start[places[order[0]]] = now
        now += float(workload.run_time[places[order[0]]])
    found: list[float] = start.tolist()
    return found


@pytest.mark.parametrize("starvation", [math.inf, 300.0], ids=["no bound", "300 s"])
@pytest.mark.parametrize("seed", range(6))
def test_replays_start_the_jobs_that_the_hook_starts(seed: int, starvation: float) -> None:
    workload, scores, standing = drawn(seed)
    site = SitePriority(
        points=standing.astype(np.float64),
        age=SPAN,
        highest_age=DAY,
        fairshare=0.0,
        period=0.0,
        standing=standing.astype(np.float64),
        span=SPAN,
    )
    order = QueueOrder(scores=scores, site=site)
    settings = SimulationSettings(capacity=1, starvation=starvation, site_points=True)
    found = simulate_order(workload, order, settings).start.tolist()
    assert found == starts_of_the_hook(workload, scores, standing, starvation)
    without = simulate_order(workload, order, replace(settings, site_points=False)).start.tolist()
    assert without != found


@pytest.mark.parametrize("seed", range(2))
def test_a_site_without_such_points_and_its_own_order_stay_as_they_are(seed: int) -> None:
    workload, scores, standing = drawn(seed)
    none = SitePriority(
        points=np.zeros(JOBS), age=SPAN, highest_age=DAY, fairshare=0.0, period=0.0, span=SPAN
    )
    with_points = none._replace(points=1.0 * standing, standing=1.0 * standing)
    off = SimulationSettings(capacity=1)
    on = replace(off, site_points=True)
    for order in (QueueOrder(scores=scores, site=none), QueueOrder(site=with_points)):
        found, plain = (simulate_order(workload, order, each).start for each in (on, off))
        np.testing.assert_array_equal(found, plain)
