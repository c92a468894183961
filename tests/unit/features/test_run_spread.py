"""Quantiles of run times: what a spread tells, and how ends calibrate it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.features.history.run_spread import (
    BOUNDS,
    GRID,
    PARTS,
    SHARES,
    fill_shares,
    learn_shares,
    nominal_shares,
    run_time_at,
)

odds = st.lists(st.floats(-30, 30), min_size=len(BOUNDS), max_size=len(BOUNDS))


def shares_of(log_odds):
    shares = np.empty((SHARES, *np.shape(log_odds)[1:]))
    fill_shares(shares, np.asarray(log_odds, dtype=np.float64))
    return shares


@given(odds)
def test_shares_never_fall_and_quantiles_never_cross(log_odds):
    shares = shares_of(log_odds)
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert (np.diff(shares) >= 0.0).all()
    times = [run_time_at(shares, part) for part in PARTS]
    assert times == sorted(times)
    assert 1.0 <= times[0] <= times[-1] <= 10.0 ** GRID[-1] * (1 + 1e-12)


def test_a_quantile_lies_where_the_share_is_reached():
    below = np.linspace(0.05, 0.95, len(BOUNDS))
    shares = shares_of(np.log(below / (1 - below)))
    for place, bound in enumerate(BOUNDS):
        assert run_time_at(shares, below[place]) == pytest.approx(bound)
    middle = run_time_at(shares, (below[3] + below[4]) / 2)
    assert math.log10(middle) == pytest.approx((GRID[4] + GRID[5]) / 2)


def test_columns_are_told_as_single_jobs_are():
    log_odds = np.random.default_rng(1).normal(0, 3, (len(BOUNDS), 20))
    asked = np.linspace(0.05, 0.95, 20)
    together = run_time_at(shares_of(log_odds), asked)
    alone = [run_time_at(shares_of(log_odds[:, job]), asked[job]) for job in range(20)]
    np.testing.assert_allclose(together, alone, rtol=1e-12)


@pytest.mark.parametrize("wrong", [0.4, 2.5])
def test_whatever_the_prediction_parts_of_the_runs_end_below(wrong):
    """What is asked for makes up for run times that are foretold too long or too short."""
    rng = np.random.default_rng(2)
    below = np.array([0.5 + 0.5 * math.erf(math.log(b / 600.0) / 2.0) for b in BOUNDS])
    below = np.clip(below, 1e-6, 1 - 1e-6)
    shares, asked = shares_of(np.log(below / (1 - below))), nominal_shares()
    ended_below = []
    for run_time in rng.lognormal(math.log(600.0 * wrong), math.sqrt(2.0), 12_000):
        told = np.array([run_time_at(shares, share) for share in asked])
        ended_below.append(run_time <= told)
        learn_shares(asked, told, run_time)
    assert np.abs(np.mean(ended_below[4_000:], axis=0) - PARTS).max() < 0.02
    assert np.abs(np.mean(ended_below[:500], axis=0) - PARTS).max() > 0.05
    assert (np.diff(asked) >= 0).all()


def test_a_run_that_nobody_foretold_teaches_nothing():
    asked = nominal_shares()
    learn_shares(asked, np.full(len(PARTS), np.nan), 5.0)
    assert asked.tolist() == list(PARTS)
