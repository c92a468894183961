from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.hook.audit.rank_moves import RankMoves, inversions, kendall_tau


@given(st.lists(st.integers(-50, 50), unique=True, max_size=40))
def test_inversions_are_the_pairs_that_stand_the_wrong_way_round(values: list[int]) -> None:
    pairs = sum(first > second for first, second in itertools.combinations(values, 2))
    assert inversions(np.array(values, dtype=np.int64)) == pairs


def test_tau_is_one_for_the_same_order_and_minus_one_for_the_reverse() -> None:
    assert kendall_tau(np.arange(9)) == 1.0
    assert kendall_tau(np.arange(9)[::-1]) == -1.0
    assert kendall_tau(np.array([0, 2, 1])) == pytest.approx(1 / 3)
    assert kendall_tau(np.array([0])) is None


def test_moves_are_shared_out_by_direction_and_length() -> None:
    moves = RankMoves()
    assert moves.shares(1) == (None, None)
    assert moves.median() is None
    moves.add(np.array([0, 0, 11, 5, -3]))
    moves.add(np.array([0, -100, 250, 0, 40]))
    assert moves.count == 10
    assert moves.shares(0) == (0.4, 0.2)
    assert moves.shares(10) == (0.3, 0.1)
    assert moves.shares(100) == (0.1, 0.0)
    assert moves.median() == 0.0


@given(st.lists(st.integers(-3000, 3000), min_size=1, max_size=60))
def test_the_median_is_exact_for_short_moves_and_near_for_long_ones(values: list[int]) -> None:
    moves = RankMoves()
    moves.add(np.array(values))
    exact = sorted(values)[(len(values) + 1) // 2 - 1]
    assert moves.median() == pytest.approx(exact, rel=0.1 if abs(exact) > 100 else 1e-12)
