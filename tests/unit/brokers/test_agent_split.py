"""The optimal static split against its closed form and its condition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.brokers.agents.grid import optimal_split
from slurm_rl_plugin.units import FloatArray

CAPACITIES = st.lists(st.floats(1.0, 1000.0), min_size=1, max_size=12).map(np.array)


def square_root_split(capacity: FloatArray, work_rate: float) -> FloatArray:
    """Exponential jobs: C_i less a part of its root, over the fastest that stay above 0."""
    order = np.argsort(-capacity)
    for used in range(len(capacity), 0, -1):
        fast = capacity[order[:used]]
        work = fast - np.sqrt(fast) * (fast.sum() - work_rate) / np.sqrt(fast).sum()
        if (work >= 0.0).all():
            split = np.zeros(len(capacity))
            split[order[:used]] = work / work_rate
            return split
    raise AssertionError("the fastest alone is always above 0")


def mean_response(split: FloatArray, capacity: FloatArray, work: float, k: float) -> float:
    """Pollaczek-Khinchine, over E[J]."""
    busy = split * work / capacity
    if (busy >= 1.0).any():
        return np.inf
    return float((split / capacity * (1.0 + k * busy / (2.0 * (1.0 - busy)))).sum())


@given(capacity=CAPACITIES, load=st.floats(0.05, 0.97))
def test_exponential_jobs_have_the_square_root_rule(capacity: FloatArray, load: float) -> None:
    work = load * capacity.sum()
    assert optimal_split(capacity, work, 2.0) == pytest.approx(
        square_root_split(capacity, work), abs=1e-6
    )


@given(capacity=CAPACITIES, load=st.floats(0.05, 0.95), k=st.floats(1.0, 4.0), data=st.data())
def test_no_small_change_makes_it_better(
    capacity: FloatArray, load: float, k: float, data: st.DataObject
) -> None:
    work = load * capacity.sum()
    best = optimal_split(capacity, work, k)
    assert best.sum() == pytest.approx(1.0)
    giver = data.draw(st.sampled_from(np.flatnonzero(best > 1e-3).tolist()))
    taker = data.draw(st.integers(0, len(capacity) - 1))
    other = best.copy()
    other[giver] -= 1e-3
    other[taker] += 1e-3
    least = mean_response(best, capacity, work, k)
    assert mean_response(other, capacity, work, k) >= least * (1.0 - 1e-9)


def test_a_slow_resource_is_left_out_and_equal_ones_share() -> None:
    split = optimal_split(np.array([1.0, 1000.0, 1000.0]), 100.0, 1.3)
    assert split == pytest.approx([0.0, 0.5, 0.5])


def test_too_much_work_is_split_in_proportion() -> None:
    assert optimal_split(np.array([1.0, 3.0]), 4.0, 1.3).tolist() == [0.25, 0.75]
