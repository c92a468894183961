"""The distribution of a run time: hazards by hand, its means by integration, its quantiles."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.features.history.run_history import BOUNDS
from slurm_rl_plugin.features.history.run_prediction import (
    GRID,
    PARTS,
    SHARES,
    expected_run,
    fill_shares,
    learn_shares,
    nominal_shares,
    run_time_at,
)

HOUR, DAY = 3600.0, 86_400.0
UNKNOWN = 0.12
some_hazards = st.lists(st.floats(0.0, 1.0), min_size=len(BOUNDS), max_size=len(BOUNDS))


def integrated(hazards, time_limit, steps=20_000):
    """Mean run time and mean of 1 / max(run time, 10 s), a step of the distribution at a time."""
    survives, mean, inverse = 1.0, 0.0, 0.0
    middle = (np.arange(steps) + 0.5) / steps
    for place, (bound, hazard) in enumerate(zip(BOUNDS, hazards, strict=True)):
        low = BOUNDS[place - 1] if place else 0.0
        if low >= 0.99 * time_limit:
            break  # who has come so far is ended by the limit
        high = min(bound, time_limit)
        lengths = np.array([min(6.0, time_limit)])
        if place:
            lengths = low * (high / low) ** middle  # evenly spread in the logarithm
        mean += survives * hazard * lengths.mean()
        inverse += survives * hazard * (1.0 / np.maximum(lengths, 10.0)).mean()
        survives *= 1.0 - hazard
    return mean + survives * time_limit, inverse + survives / max(time_limit, 10.0)


@pytest.mark.parametrize(
    "time_limit",
    [3.0, 10.0, 10.05, 10.2, 45.0, 600.0, 605.0, 607.0, 1000.0, HOUR, 3 * HOUR, DAY, 7 * DAY],
)
def test_means_are_those_of_the_distribution(time_limit):
    rng = np.random.default_rng(int(time_limit))
    for hazards in (*rng.random((4, len(BOUNDS))) ** 2, np.full(len(BOUNDS), UNKNOWN)):
        found = expected_run(hazards, time_limit)
        np.testing.assert_allclose(found, integrated(hazards, time_limit), rtol=1e-7)


@given(hazards=some_hazards, time_limit=st.floats(1.0, 30 * DAY))
def test_means_lie_within_what_is_asked(hazards, time_limit):
    mean, inverse = expected_run(np.array(hazards), time_limit)
    assert 1.0 <= mean <= time_limit * (1 + 1e-8) + 1e-8
    assert 1 / max(time_limit, 10.0) * (1 - 1e-8) <= inverse <= 0.1 * (1 + 1e-8)


def shares_of(hazards):
    shares = np.empty((SHARES, *np.shape(hazards)[1:]))
    fill_shares(shares, np.asarray(hazards, dtype=np.float64))
    return shares


@given(some_hazards)
def test_shares_never_fall_and_quantiles_never_cross(hazards):
    shares = shares_of(hazards)
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert (np.diff(shares) >= 0.0).all()
    times = [run_time_at(shares, part) for part in PARTS]
    assert times == sorted(times)
    assert 1.0 <= times[0] <= times[-1] <= 10.0 ** GRID[-1] * (1 + 1e-12)


@pytest.mark.parametrize(("run_time", "edge"), [(1.0, 0.001), (1e6, 0.999)])
def test_what_is_asked_for_stays_within_its_edges_and_in_order(run_time, edge):
    asked, told = nominal_shares(), np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    for _ in range(3000):
        learn_shares(asked, told, run_time)
        assert (np.diff(asked) >= 0.0).all()
    assert (asked == edge).any()
    assert ((asked >= 0.001) & (asked <= 0.999)).all()


def test_a_smaller_part_is_never_asked_for_with_a_larger_share():
    asked, told = np.array([0.1, 0.1, 0.5, 0.75, 0.9]), np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    learn_shares(asked, told, 15.0)
    # the first rises by 0.005 * 0.1; the second would fall by 0.005 * 0.75
    assert asked[:2] == pytest.approx([0.1005, 0.1005])


@pytest.mark.parametrize("wrong", [0.4, 2.5])
def test_whatever_the_prediction_parts_of_the_runs_end_below(wrong):
    """What is asked for makes up for run times that are predicted too long or too short."""
    rng = np.random.default_rng(2)
    below = np.array([0.5 + 0.5 * math.erf(math.log(b / 600.0) / 2.0) for b in BOUNDS])
    before = np.concatenate([[0.0], below[:-1]])
    shares, asked = shares_of((below - before) / (1 - before)), nominal_shares()
    ended_below = []
    for run_time in rng.lognormal(math.log(600.0 * wrong), math.sqrt(2.0), 12_000):
        told = np.array([run_time_at(shares, share) for share in asked])
        ended_below.append(run_time <= told)
        learn_shares(asked, told, run_time)
    assert np.abs(np.mean(ended_below[4_000:], axis=0) - PARTS).max() < 0.02
    assert np.abs(np.mean(ended_below[:500], axis=0) - PARTS).max() > 0.05


def test_a_run_of_which_nothing_was_predicted_teaches_nothing():
    asked = nominal_shares()
    learn_shares(asked, np.full(len(PARTS), np.nan), 5.0)
    assert asked.tolist() == list(PARTS)
