"""Feature columns of a snapshot, by hand and at the edges; parity with the kernel is elsewhere."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain import PendingJobs, StartedJobs
from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.domain.jobs import empty_job_table
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.columns import site_job_features, site_queue_features
from slurm_rl_plugin.features.estimates import ClassMedian, RequestedLimit
from slurm_rl_plugin.features.history.run_history import (
    ARRIVAL_MEMORY,
    recent_arrivals,
)
from slurm_rl_plugin.features.reactive_grid import (
    REACTIVE_GRID,
    REACTIVE_GRID_2011,
    account_places,
    grid_columns,
)
from slurm_rl_plugin.features.site import (
    SITE,
    USUAL,
    dynamic_job_features,
    share_doublings,
    static_job_features,
)
from tests.case_files import rows
from tests.reference.loads import arrived_by, random_workload, snapshot_of, table_of, workload_of
from tests.reference.readable_simulator import Moment

#: job 0 runs since 100 on 4 of 8 processors, 1 and 2 wait at 200
LOAD = workload_of(
    [100.0, 110.0, 150.0],
    [1000.0, 540.0, 99.0],
    time_limit=[9999.0, 999.0, 99.0],  # equal to the estimate: none was requested
    processors=[4, 2, 8],
    account=[0, 0, 1],
    interactive=[True, True, False],
    shares=[0.75, 0.25],
)
AT_200 = Moment(200.0, [1, 2], [0], [100.0, math.nan, math.nan])
SNAPSHOT = snapshot_of(LOAD, AT_200, 8)
ESTIMATE = np.array([540.0, 99.0])
ARRIVED = np.array([9.0, 99.0, 999.0])
HOUR, DAY = 3600.0, 86_400.0


def queue_of(snapshot, estimate, running):
    values = site_queue_features(snapshot, np.array(estimate), np.array(running), ARRIVED)
    assert values.dtype == np.float32
    return dict(zip(SITE.queue, values.tolist(), strict=True))


@rows("share_trees", "doublings", "share usage expected")
def test_doublings_of_usage_over_share_are_told_up_to_four(share, usage, expected):
    found = dynamic_job_features(0.0, 0.0, share_doublings(share, usage), 1.0, 8.0)
    assert found[2:] == pytest.approx((expected, 8 * expected))


def test_a_limit_of_less_than_a_second_counts_as_one_and_no_processors_as_one():
    processors, limits = np.array([0.0, 1.0]), np.array([0.5, 0.0])
    size, limit, *_ = static_job_features(processors, np.zeros(2, np.bool_), limits, Goals())
    assert size.tolist() == limit.tolist() == [0.0, 0.0]


def test_an_outlived_estimate_releases_now_and_not_in_the_past():
    assert queue_of(SNAPSHOT, [540.0, 99.0], [50.0])["log_next_release"] == 0.0


def test_an_empty_queue_has_finite_features_and_no_rows():
    idle = replace(
        SNAPSHOT,
        pending=PendingJobs.untouched(empty_job_table()),
        running=SNAPSHOT.running.select(np.empty(0, dtype=np.int64)),
    )
    queue = queue_of(idle, [], [])
    assert queue["idle_fraction"] == 1.0
    assert all(math.isfinite(value) for value in queue.values())
    assert site_job_features(idle, np.empty(0)).shape == (0, len(SITE.jobs))


def test_a_cluster_without_usable_processors_has_finite_features():
    queue = queue_of(replace(SNAPSHOT, capacity=0), [540.0, 99.0], [1000.0])
    assert queue["idle_fraction"] == 0.0
    assert all(math.isfinite(value) for value in queue.values())


def test_a_job_from_the_future_has_not_waited():
    early = replace(SNAPSHOT, now=120.0)
    ages = site_job_features(early, ESTIMATE)[:, SITE.jobs.index("log_age")]
    assert ages[0] > 0
    assert ages[1] == 0


def test_features_lie_near_their_usual_places_for_the_largest_jobs_a_site_may_hold():
    jobs = SNAPSHOT.pending.jobs
    table = replace(jobs, processors=np.array([2**20, 1]), time_limit=np.array([30 * DAY, 1.0]))
    huge = replace(SNAPSHOT, now=200.0 + 100 * DAY, pending=PendingJobs.untouched(table))
    features = site_job_features(
        huge, np.array([30 * DAY, 1e-3]), goals=Goals(shares=1.0), longest=100 * DAY
    )
    assert np.isfinite(features).all()
    middle, half = np.array([USUAL[name] for name in SITE.jobs]).T
    assert np.abs((features - middle) / half).max() < 10


#: jobs 0 (batch, 4 processors, since 160) and 1 (interactive, since 100) run; 2, 3, 4 wait at 200
GRID_LOAD = workload_of(
    [40.0, 70.0, 120.0, 130.0, 140.0],
    [1000.0, 240.0, 99.0, 900.0, 9.0],
    processors=[4, 1, 8, 1, 1],
    account=[1, 0, 3, 1, 4],
    interactive=[False, True, True, False, True],
    shares=[0.15, 0.4, 0.15, 0.05, 0.25],
)
GRID = snapshot_of(GRID_LOAD, Moment(200.0, [2, 3, 4], [0, 1], [160.0, 100.0, *[math.nan] * 3]), 8)
WAITING, RUNNING = GRID_LOAD.estimate[2:], GRID_LOAD.estimate[:2]


def test_an_empty_site_has_finite_inputs_and_no_rows():
    nobody = replace(
        GRID,
        capacity=0,
        pending=PendingJobs.untouched(empty_job_table()),
        running=GRID.running.select(np.empty(0, dtype=np.int64)),
        usage=np.zeros(5),
    )
    nothing = np.empty(0)
    queue, jobs = grid_columns(REACTIVE_GRID, nobody, nothing, nothing)
    assert dict(zip(REACTIVE_GRID.queue, queue, strict=True))["running_time_utility"] == 1.0
    assert (queue.sum(), jobs.shape) == (1.0, (0, 3))
    assert not grid_columns(REACTIVE_GRID_2011, nobody, nothing, nothing)[0].any()


def test_an_outlived_estimate_releases_now_and_has_no_work_left():
    grid = grid_columns(REACTIVE_GRID, GRID, WAITING, np.array([10.0, 240.0]))[0]
    assert grid[REACTIVE_GRID.queue.index("log_next_release")] == 0.0
    assert grid_columns(REACTIVE_GRID_2011, GRID, WAITING, np.array([10.0, 10.0]))[0][0] == 0.0


def test_the_site_schema_is_the_released_one():
    # If this fails, features have changed: raise SITE.version, retrain, then write the new digest.
    assert SITE.version == 5
    assert SITE.digest == "880c91c623604e9954de8e8f710e3a8a5f62af043fa2905c56d6dc964dabe32e"


def test_accounts_take_places_by_share_and_ties_by_index():
    assert account_places(np.array([0.15, 0.4, 0.15, 0.05, 0.25])).tolist() == [2, 0, 3, 3, 1]


def test_class_medians_are_of_the_class_and_of_all_jobs_where_it_has_none():
    run, interactive = np.array([10.0, 30.0, 1000.0, 5000.0, 2000.0]), np.arange(5) < 2
    estimate = ClassMedian.of(run, interactive)
    assert estimate.estimate(np.full(2, 7.0), np.array([True, False])).tolist() == [20, 2000]
    for everybody in (True, False):
        found = ClassMedian.of(run, np.full(5, everybody))
        assert found.interactive_median == found.batch_median == 1000.0
    with pytest.raises(ConfigurationError, match="at least one job"):
        ClassMedian.of(np.empty(0), np.empty(0, dtype=bool))


def test_requested_limit_is_the_limit_and_an_hour_where_none_is_known():
    limits = np.array([60.0, np.nan, 0.0, -1.0, np.inf, 7200.0])
    estimate = RequestedLimit().estimate(limits, np.zeros(6, dtype=bool))
    assert estimate.tolist() == [60.0, 3600.0, 3600.0, 3600.0, 3600.0, 7200.0]


ARRIVALS = random_workload(3, jobs=40, parallel=False)
NO_START = float("nan")


def moment(now, first=0):
    waiting = [job for job in range(first, 40) if ARRIVALS.submit[job] <= now]
    return Moment(now, waiting, [], [NO_START] * 40)


def test_in_steps_as_in_one_go():
    times = np.quantile(ARRIVALS.submit, [0.2, 0.5, 0.7, 1.0])
    memory = None
    for now in times:
        memory = recent_arrivals(snapshot_of(ARRIVALS, moment(now), 4), memory)
        assert memory.shape == (ARRIVAL_MEMORY,)
        assert memory[0] == now
        np.testing.assert_allclose(memory[1:], arrived_by(ARRIVALS, now), rtol=1e-12)
    assert memory[1] < memory[2] < memory[3]  # the longer it is remembered, the more


def test_jobs_that_run_or_have_started_count_once():
    now = ARRIVALS.submit[-1]
    waiting = snapshot_of(ARRIVALS, moment(now), 4)
    begun = Moment(now, list(range(20, 40)), list(range(20)), [now] * 20 + [NO_START] * 20)
    started = StartedJobs(jobs=table_of(ARRIVALS).select(np.arange(20)), start=np.full(20, now))
    seen = replace(snapshot_of(ARRIVALS, begun, 40), started=started)
    np.testing.assert_allclose(recent_arrivals(seen), recent_arrivals(waiting), rtol=1e-12)


def test_a_clock_set_back_counts_nothing_twice():
    now = ARRIVALS.submit[-1]
    before = recent_arrivals(snapshot_of(ARRIVALS, moment(now), 4))
    after = recent_arrivals(snapshot_of(ARRIVALS, moment(now - 50.0), 4), before)
    assert after[1:] == pytest.approx(before[1:])
