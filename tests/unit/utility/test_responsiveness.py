"""Responsiveness, relative overhead and bounded slowdown by hand."""

import numpy as np
import pytest

from slurm_rl_plugin.utility.time_utility import (
    bounded_slowdown,
    relative_overhead,
    responsiveness,
)


@pytest.mark.parametrize(
    ("wait", "run", "expected"), [(0, 50, 1.0), (50, 50, 0.5), (150, 50, 0.25), (1, 0.01, 0.5)]
)
def test_responsiveness_is_run_time_over_turnaround_from_one_second_on(wait, run, expected):
    assert responsiveness(wait, run) == pytest.approx(expected)


@pytest.mark.parametrize(("wait", "run", "expected"), [(0, 5, 0), (30, 15, 2), (3, 0.5, 3)])
def test_relative_overhead_is_wait_over_run_time_from_one_second_on(wait, run, expected):
    assert relative_overhead(wait, run) == expected


@pytest.mark.parametrize(
    ("wait", "run", "expected"),
    [
        (0, 100, 1.0),
        (300, 100, 4.0),
        (18, 2, 2.0),  # a run below 10 s counts as 10 s below the line only
        (3, 2, 1.0),  # and the slowdown is never below 1
    ],
)
def test_bounded_slowdown_has_a_ten_second_bound_and_is_at_least_one(wait, run, expected):
    assert bounded_slowdown(wait, run) == expected


def test_measures_work_on_columns():
    wait, run = np.array([0.0, 90.0]), np.array([10.0, 10.0])
    assert responsiveness(wait, run).tolist() == [1.0, 0.1]
    assert bounded_slowdown(wait, run).tolist() == [1.0, 10.0]
    assert relative_overhead(wait, run).tolist() == [0.0, 9.0]
