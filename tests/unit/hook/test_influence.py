"""Bounded influence: what the best place adds, and how few writes keep it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.domain.decision import INFLUENCE_TOLERANCE
from slurm_rl_plugin.hook.order.order_changes import LOWEST_PRIORITY, bounded_changes

POINTS = 1000.0


def written(native: list[int], factor: list[int], points: float = POINTS) -> list[int]:
    """Factors after the changes, in the wanted order."""
    changes = bounded_changes(np.array(native), np.array(factor), points)
    after = np.array(factor)
    after[changes.place] = changes.priority - np.array(native)[changes.place]
    return [int(each) for each in after]


def test_terms_fall_evenly_from_the_best_place_to_the_last() -> None:
    assert written([50, 50, 50, 50], [0, 0, 0, 0]) == [1000, 750, 500, 250]


def test_the_sites_own_order_stands_where_it_is_worth_more() -> None:
    factors = written([10, 5000, 10], [0, 0, 0])
    totals = np.array([10, 5000, 10]) + factors
    assert np.argsort(-totals).tolist() == [1, 0, 2]


def test_small_shifts_of_rank_are_not_written() -> None:
    count = 100
    ideal = [round(POINTS * place / count) for place in range(count, 0, -1)]
    changes = bounded_changes(np.full(count, 5), np.array(ideal) + 9, POINTS)
    assert len(changes.place) == 0
    arrived = bounded_changes(np.full(count + 1, 5), np.array([0, *ideal]), POINTS)
    assert arrived.place.tolist() == [0]  # the newcomer alone


def test_the_most_wrong_comes_first_and_no_influence_takes_all_back() -> None:
    changes = bounded_changes(np.full(3, 5), np.array([900, 0, 0]), POINTS)
    assert changes.place.tolist() == [1, 2, 0]
    assert written([5, 5, 5], [900, 0, 30], points=0.0) == [0, 0, 0]
    assert written([], []) == []


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(-5000, 5000)), min_size=1, max_size=40),
    st.floats(0.0, 10.0**6),
)
def test_no_term_leaves_its_bounds_and_a_second_cycle_is_quiet(
    jobs: list[tuple[int, int]], points: float
) -> None:
    native, factor = (list(column) for column in zip(*jobs, strict=True))
    after = written(native, factor, points)
    ideal = points * np.arange(len(jobs), 0, -1) / len(jobs)
    assert (np.abs(np.array(after) - ideal) <= max(INFLUENCE_TOLERANCE * points, 1.0)).all()
    assert min(np.array(native) + after) >= LOWEST_PRIORITY
    assert written(native, after, points) == pytest.approx(after)
    assert len(bounded_changes(np.array(native), np.array(after), points).place) == 0


def test_jobs_that_the_site_puts_first_stay_first() -> None:
    native = np.array([50, 60, 900])
    changes = bounded_changes(native, np.zeros(3, dtype=np.int64), POINTS, ceiling=700)
    after = native.copy()
    after[changes.place] = changes.priority
    assert after[:2].max() < 700
    assert after[2] == 900


def in_steps(native: list[int], factor: list[int], steps: list[int]) -> tuple[list[int], int]:
    """Priorities after the changes, in the wanted order, and how many were written."""
    changes = bounded_changes(np.array(native), np.array(factor), POINTS, steps=np.array(steps))
    after = np.array(native) + np.array(factor)
    after[changes.place] = changes.priority
    return after.tolist(), len(changes.place)


def test_a_higher_step_goes_first_though_the_site_has_it_far_behind() -> None:
    """Within a step the site's own priority goes on counting; a second cycle writes nothing."""
    native, steps = [10, 300, 90_000, 20], [2, 2, 0, 0]
    after, written_jobs = in_steps(native, [0, 0, 0, 0], steps)
    assert np.argsort(-np.array(after)).tolist() == [1, 0, 2, 3]
    assert after[1] - after[0] == 290 - 250
    assert written_jobs == 4
    factor = (np.array(after) - native).tolist()
    assert in_steps(native, factor, steps) == (after, 0)


def test_points_on_top_go_with_the_step() -> None:
    """They are whole multiples of the influence, so that they stay while the queue hardly moves."""
    raised, _ = in_steps([10, 90_000], [0, 0], [2, 0])
    assert (raised[0] - 10 - POINTS) % POINTS == 0
    moved, writes = in_steps([60, 90_050], [raised[0] - 10, raised[1] - 90_000], [2, 0])
    assert (moved, writes) == ([raised[0] + 50, raised[1] + 50], 0)
    back, _ = in_steps([10, 90_000], [raised[0] - 10, 500], [0, 0])
    assert back == [10 + 1000, 90_000 + 500]


@given(
    st.lists(
        st.tuples(st.integers(1, 10**6), st.integers(-5000, 5000), st.integers(0, 2)),
        min_size=1,
        max_size=40,
    )
)
def test_steps_hold_for_every_queue(jobs: list[tuple[int, int, int]]) -> None:
    jobs = sorted(jobs, key=lambda job: -job[2])
    native, factor, steps = (list(column) for column in zip(*jobs, strict=True))
    after, _ = in_steps(native, factor, steps)
    for step in (1, 2):
        higher = [each for each, at in zip(after, steps, strict=True) if at >= step]
        lower = [each for each, at in zip(after, steps, strict=True) if at < step]
        assert min(higher, default=math.inf) > max(lower, default=-math.inf)
