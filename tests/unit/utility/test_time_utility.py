"""Time utility (2008, eq. 1-3) against values worked out by hand."""

import math

import numpy as np
import pytest

from slurm_rl_plugin.utility.time_utility import time_utility, time_utility_loss_rate

RUN = 240.0
DEADLINE = RUN + 60.0
BOTH = pytest.mark.parametrize("interactive", [True, False], ids=["interactive", "batch"])


@BOTH
@pytest.mark.parametrize("turnaround", [RUN, RUN + 30, DEADLINE])
def test_utility_is_one_up_to_a_minute_after_the_run_time(turnaround, interactive):
    assert time_utility(turnaround, RUN, interactive) == 1.0


def test_interactive_utility_halves_every_ln_2_over_alpha_minutes_past_the_deadline():
    half_life = 60.0 * math.log(2) / 0.5
    assert half_life == pytest.approx(83.18, abs=0.01)
    assert time_utility(DEADLINE + half_life, RUN, True) == pytest.approx(0.5, rel=1e-12)
    assert time_utility(DEADLINE + 3 * half_life, RUN, True) == pytest.approx(0.125, rel=1e-12)


def test_batch_utility_halves_at_2_to_the_inverse_of_beta_deadlines():
    assert time_utility(DEADLINE * 2 ** (1 / 0.3), RUN, False) == pytest.approx(0.5, rel=1e-12)
    # ten deadlines: 10^-0.3
    assert time_utility(10 * DEADLINE, RUN, False) == pytest.approx(0.501187, abs=1e-6)


@BOTH
def test_utility_falls_strictly_past_the_deadline_and_stays_positive(interactive):
    turnaround = np.linspace(DEADLINE, DEADLINE + 7200, 500)
    utility = time_utility(turnaround, RUN, interactive)
    assert (np.diff(utility) < 0).all()
    assert utility[-1] > 0


@BOTH
@pytest.mark.parametrize("late", [1.0, 100.0, 3000.0])
def test_loss_rate_is_minus_the_derivative_of_the_utility(late, interactive):
    at, step = DEADLINE + late, 1e-3
    ahead = time_utility(at + step, RUN, interactive)
    behind = time_utility(at - step, RUN, interactive)
    rate = time_utility_loss_rate(at, RUN, interactive, time_utility(at, RUN, interactive))
    # central differences of values near 1: rounding is 1e-16 / 1e-3, curvature step^2
    assert rate == pytest.approx((behind - ahead) / (2 * step), rel=1e-6, abs=1e-12)


@BOTH
def test_loss_rate_of_a_fresh_job_is_that_at_its_deadline(interactive):
    fresh = time_utility_loss_rate(RUN, RUN, interactive, 1.0)
    assert fresh == time_utility_loss_rate(DEADLINE, RUN, interactive, 1.0)
    assert fresh == pytest.approx(0.5 / 60 if interactive else 0.3 / DEADLINE)


def test_a_column_gets_what_its_jobs_get_one_by_one():
    turnaround = np.array([100.0, 500.0, 5000.0, 5000.0])
    run = np.array([100.0, 100.0, 600.0, 600.0])
    interactive = np.array([True, True, True, False])
    one_by_one = [time_utility(*each) for each in zip(turnaround, run, interactive, strict=True)]
    assert time_utility(turnaround, run, interactive).tolist() == one_by_one
