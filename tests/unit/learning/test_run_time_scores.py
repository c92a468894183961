"""Scores of predicted run times, by hand on logs of one and two jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import log, log10
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.learning.evaluation.run_time_scores import run_time_scores
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from tests.reference.loads import log_of, random_workload

#: Part of the runs that outlive each bound (10, 30, 60 s ...) where nothing is known.
OUTLIVES = 0.88


def log_with(*jobs: tuple[int, float, float, float]) -> PreparedLog:
    """Jobs of (user, submission and start, run time, time limit), one processor each."""
    user, submit, run_time, limit = (np.array(each) for each in zip(*jobs, strict=True))
    workload = random_workload(1, len(jobs), parallel=False, accounts=1)
    log = log_of(workload, time_limit=limit.astype(float))
    log = replace(log, submit=submit.astype(float), start=submit.astype(float))
    return prepare_log(replace(log, run_time=run_time.astype(float), user=user, users=("a", "b")))


def scores_of_first(run_time: float, limit: float) -> Mapping[str, Any]:
    """Of a job of which nothing is known."""
    return run_time_scores(log_with((0, 0, run_time, limit)), 0, 1)


@pytest.mark.parametrize(
    ("run_time", "probability"),
    [
        (20.0, 0.88 * 0.12),  # ends between 10 and 30 s
        (9.0, 0.12),
        (10.0, 0.88 * 0.12),
        (70.0, 0.88**3 * 0.12),  # ends between 60 s and its limit
        (99.0, 0.88**4),  # ended by its limit
        (100.0, 0.88**4),
        (500.0, 0.88**4),
    ],
)
def test_the_log_score_is_that_of_the_interval_in_which_the_run_ended(
    run_time: float, probability: float
) -> None:
    assert scores_of_first(run_time, 100.0)["log_score"] == pytest.approx(-log(probability))


def test_a_run_beyond_all_bounds_counts_as_ended_by_its_limit() -> None:
    ten_days = 864_000.0
    found = scores_of_first(200_000.0, ten_days)  # the last of 16 bounds is two days
    assert found["log_score"] == pytest.approx(-log(0.88**16))


def test_the_crps_adds_up_squares_over_the_logarithm_of_seconds() -> None:
    """Up to the limit of 100 s; the run of 20 s has ended from the second interval on."""
    shorter = [1 - OUTLIVES**place for place in (1, 2, 3, 4)]  # before 10, 30, 60 and 100 s
    widths = [log10(10 / 5), log10(30 / 10), log10(60 / 30), log10(100 / 60)]
    ended = [0, 1, 1, 1]
    squares = [(part - done) ** 2 for part, done in zip(shorter, ended, strict=True)]
    assert scores_of_first(20.0, 100.0)["crps"] == pytest.approx(np.dot(squares, widths))
    # a run that goes on to its limit has ended in none of them
    assert scores_of_first(100.0, 100.0)["crps"] == pytest.approx(
        np.dot(np.square(shorter), widths)
    )


def test_errors_are_those_of_the_length_that_counts_and_of_the_request() -> None:
    found = scores_of_first(9.0, 30.0)
    # 12 % end before 10 s, at 6 s; 10.56 % before 30 s, evenly in the logarithm; the others run on
    middle, rest = 0.88 * 0.12, 0.88**2
    mean = 0.12 * 6 + middle * (30 - 10) / log(3) + rest * 30
    inverse = 0.12 / 10 + middle * (1 / 10 - 1 / 30) / log(3) + rest / 30
    length = (mean / inverse) ** 0.5
    assert found["log_error"] == pytest.approx(log10(length / 9))
    assert found["log_error_requested"] == pytest.approx(log10(30 / 9))


def test_runs_that_ended_before_tell() -> None:
    """The first run of 20 s outlives 10 s and ends before 30 s; the second job is like it."""
    log_of_two = log_with((0, 0, 20, 600), (0, 100, 20, 600))
    # no run of one ended before 10 s, and the only one before 30 s; the levels above weigh as
    # 5, 10, 6 and 3 runs
    first = 3 / 4 * (6 / 7 * (10 / 11 * (5 / 6 * 0.12)))
    site = (1 + 5 * 0.12) / 6
    user = (1 + 10 * site) / 11
    limits = (1 + 6 * user) / 7
    second = (1 + 3 * limits) / 4
    found = run_time_scores(log_of_two, 1, 2)
    assert found["log_score"] == pytest.approx(-log((1 - first) * second))
    assert found["log_score"] < run_time_scores(log_of_two, 0, 1)["log_score"]


def test_shares_of_the_runs_that_ended_below_the_quantiles() -> None:
    """12 % end before 10 s, 22.6 % before 30 s, 31.9 % before 60 s; 47.2 % before 5, 53.6 % 10 min.

    So a tenth ends before 7 s, a quarter between 30 and 60 s, half between 5 and 10 min: the run of
    20 s is longer than the first of them, that of 350 s than the first two.
    """
    both = log_with((0, 0, 20, 100), (1, 0, 350, 600))
    expected = {"0.1": 0.0, "0.25": 0.5, "0.5": 1.0, "0.75": 1.0, "0.9": 1.0}
    assert run_time_scores(both, 0, 2)["shares_below"] == expected
