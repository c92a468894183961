"""The papers' 11 inputs by hand and at the edges; parity with the kernel is tested beside it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain import PendingJobs
from slurm_rl_plugin.domain.jobs import empty_job_table
from slurm_rl_plugin.features.reactive_grid import (
    REACTIVE_GRID,
    REACTIVE_GRID_2011,
    account_places,
    grid_job_columns,
    grid_job_columns_with_wait,
    grid_queue_columns,
    grid_queue_columns_2011,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload
from tests.reference.loads import snapshot_of
from tests.reference.readable_simulator import Moment

#: jobs 0 (batch, 4 processors, since 160) and 1 (interactive, since 100) run; 2, 3, 4 wait at 200
LOAD = Workload.of(
    submit=np.array([40.0, 70.0, 120.0, 130.0, 140.0]),
    run_time=np.array([1000.0, 240.0, 99.0, 900.0, 9.0]),
    estimate=np.array([1000.0, 240.0, 99.0, 900.0, 9.0]),
    time_limit=np.array([1000.0, 240.0, 99.0, 900.0, 9.0]),
    processors=np.array([4, 1, 8, 1, 1]),
    account=np.array([1, 0, 3, 1, 4]),
    interactive=np.array([False, True, True, False, True]),
    shares=np.array([0.15, 0.4, 0.15, 0.05, 0.25]),
)
SNAPSHOT = snapshot_of(LOAD, Moment(200.0, [2, 3, 4], [0, 1], [160.0, 100.0, *[math.nan] * 3]), 8)
WAITING, RUNNING = LOAD.estimate[2:], LOAD.estimate[:2]


def named(schema, values):
    assert values.dtype == np.float32
    return dict(zip(schema.queue, values.tolist(), strict=True))


@pytest.mark.parametrize(
    ("shares", "places"),
    [
        ([0.7, 0.2, 0.05, 0.05], [0, 1, 2, 3]),
        ([0.05, 0.2, 0.05, 0.7], [2, 1, 3, 0]),
        ([0.15, 0.4, 0.15, 0.05, 0.25], [2, 0, 3, 3, 1]),
        ([1.0], [0]),
        ([], []),
    ],
)
def test_accounts_take_places_by_share_and_ties_by_index(shares, places):
    assert account_places(np.array(shares)).tolist() == places


def test_the_grid_of_2008_by_hand():
    late = (1000.0 + 120.0) / 1060.0  # job 0 ends 60 s past its deadline
    used = 4 * 40.0 + 100.0
    assert named(REACTIVE_GRID, grid_queue_columns(SNAPSHOT, WAITING, RUNNING)) == pytest.approx(
        {
            "log_next_release": math.log10(1 + 140) / 6,
            "idle_fraction": 3 / 8,
            "log_pending_work_hours": math.log10(1 + (99 * 8 + 900 + 9) / 3600 / 8) / 4,
            "running_time_utility": (late**-0.3 + 1.0) / 2,
            "received_share_0": 160 / used,
            "received_share_1": 0.0,
            "received_share_2": 100 / used,
            "received_share_3": 0.0,
        },
        rel=1e-6,
    )


def test_the_grid_of_2011_by_hand():
    columns = grid_queue_columns_2011(SNAPSHOT, WAITING, RUNNING)
    assert named(REACTIVE_GRID_2011, columns) == pytest.approx(
        {
            "log_running_work_hours": math.log10(1 + (960 * 4 + 140) / 3600 / 8) / 4,
            "log_next_release": math.log10(1 + 140) / 6,
            "log_pending_work_hours": math.log10(1 + (99 * 8 + 900 + 9) / 3600 / 8) / 4,
            "idle_fraction": 3 / 8,
            "queued_fraction_0": 1 / 3,
            "queued_fraction_1": 1 / 3,
            "queued_fraction_2": 0.0,
            "queued_fraction_3": 1 / 3,
        },
        rel=1e-6,
    )


def test_jobs_by_hand():
    columns = grid_job_columns(SNAPSHOT, WAITING)
    assert columns.dtype == np.float32
    expected = [
        [1.0, 1.0, math.log10(100) / 6],
        [0.0, 0.0, math.log10(901) / 6],
        [1.0, 1 / 3, math.log10(10) / 6],
    ]
    np.testing.assert_allclose(columns, expected, rtol=1e-6)


def test_the_wait_is_a_fourth_column_and_never_negative():
    columns = grid_job_columns_with_wait(SNAPSHOT, WAITING)
    assert columns.dtype == np.float32
    np.testing.assert_array_equal(columns[:, :3], grid_job_columns(SNAPSHOT, WAITING))
    expected = [math.log10(1 + waited) / 6 for waited in (80, 70, 60)]
    np.testing.assert_allclose(columns[:, 3], expected, rtol=1e-6)
    early = grid_job_columns_with_wait(replace(SNAPSHOT, now=125.0), WAITING)
    assert (early[:, 3] > 0).tolist() == [True, False, False]


def test_an_empty_site_has_finite_inputs_and_no_rows():
    nobody = replace(
        SNAPSHOT,
        capacity=0,
        pending=PendingJobs.untouched(empty_job_table()),
        running=SNAPSHOT.running.select(np.empty(0, dtype=np.int64)),
        usage=np.zeros(5),
    )
    nothing = np.empty(0)
    grid = named(REACTIVE_GRID, grid_queue_columns(nobody, nothing, nothing))
    assert grid["running_time_utility"] == 1.0
    assert sum(grid.values()) == 1.0
    assert grid_queue_columns_2011(nobody, nothing, nothing).tolist() == [0.0] * 8
    assert grid_job_columns(nobody, nothing).shape == (0, 3)


def test_an_outlived_estimate_releases_now_and_has_no_work_left():
    grid = named(REACTIVE_GRID, grid_queue_columns(SNAPSHOT, WAITING, np.array([10.0, 240.0])))
    assert grid["log_next_release"] == 0.0
    later = grid_queue_columns_2011(SNAPSHOT, WAITING, np.array([10.0, 10.0]))
    assert later[0] == 0.0
