from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.batch_systems.port import HIGHEST_PRIORITY
from slurm_rl_plugin.cli.benchmark import fewest_writes
from slurm_rl_plugin.hook.order.order_changes import order_changes

queues = st.lists(st.integers(1, 40), max_size=9)


def after(priority: list[int]) -> np.ndarray:
    changes = order_changes(np.array(priority, dtype=np.int64))
    result = np.array(priority, dtype=np.int64)
    result[changes.place] = changes.priority
    return result


def by_trying_all(priority: list[int]) -> int:
    """By trying every set of jobs that could keep their priority."""
    count = len(priority)
    for size in range(count, -1, -1):
        for kept in combinations(range(count), size):
            room = all(priority[a] - priority[b] >= b - a for a, b in pairwise(kept))
            if room and all(priority[place] >= count - place for place in kept):
                return count - size
    raise AssertionError("keeping no job is always possible")


@given(queues)
def test_priorities_fall_strictly_along_the_wanted_order(priority: list[int]) -> None:
    result = after(priority)
    assert (np.diff(result) < 0).all()
    assert (result >= 1).all()


@given(queues)
def test_no_order_can_be_had_with_fewer_writes(priority: list[int]) -> None:
    assert len(order_changes(np.array(priority, dtype=np.int64)).place) == by_trying_all(priority)


@given(st.lists(st.integers(1, HIGHEST_PRIORITY), max_size=300))
def test_large_queues_and_priorities_keep_the_order(priority: list[int]) -> None:
    result = after(priority)
    assert (np.diff(result) < 0).all()
    assert result.size == 0 or (result.min() >= 1 and result.max() <= HIGHEST_PRIORITY)


def test_a_queue_that_stands_right_needs_no_write() -> None:
    assert len(order_changes(np.arange(1000, 0, -1)).place) == 0


def test_one_misplaced_job_needs_one_write() -> None:
    assert len(order_changes(np.array([50, 40, 99, 30, 20])).place) == 1


def test_the_second_change_in_a_gap_still_fits() -> None:
    first = after([1, 1, 1, 1])
    moved = np.array([first[3], *first[:3]])
    assert len(order_changes(moved).place) == 1


@pytest.mark.parametrize("count", [0, 1])
def test_an_empty_or_single_queue_is_left_alone(count: int) -> None:
    assert len(order_changes(np.ones(count, dtype=np.int64)).place) == 0


@pytest.mark.parametrize("end", ["first", "last"])
@pytest.mark.parametrize("count", [100, 1000])
def test_arrivals_at_one_end_cost_few_writes_however_many_come(count: int, end: str) -> None:
    """The site gives every job the same priority; each cycle one job starts and one arrives."""
    native, arrivals = 37_500, 1500
    queue = after([native] * count)
    writes = 0
    for _ in range(arrivals):
        queue = np.append(queue[1:], native) if end == "last" else np.insert(queue[:-1], 0, native)
        changes = order_changes(queue)
        queue[changes.place] = changes.priority
        writes += len(changes.place)
        assert (np.diff(queue) < 0).all()
    # one for each arrival, and now and then the whole queue, once in a thousand arrivals
    assert writes <= arrivals + 3 * count


def test_a_queue_that_is_really_reordered_is_not_spaced_anew() -> None:
    priority = np.arange(2000, 0, -1) * 1000
    wanted = np.concatenate((priority[1000:], priority[:1000]))
    assert len(order_changes(wanted).place) == 1000


def test_all_stay_below_the_ceiling_while_numbers_last() -> None:
    changes = order_changes(np.array([1, 5, 3, 9, 2]), ceiling=12)
    assert changes.priority.max() < 12
    crowded = order_changes(np.ones(50, dtype=np.int64), ceiling=12)
    assert len(set(crowded.priority.tolist())) == len(crowded.place)


@given(queues)
def test_the_count_of_the_benchmark_is_that_of_all_sets(priority: list[int]) -> None:
    assert fewest_writes(np.array(priority, dtype=np.int64)) == by_trying_all(priority)


@given(st.lists(st.integers(HIGHEST_PRIORITY - 400, HIGHEST_PRIORITY + 5), max_size=300))
def test_the_count_of_the_benchmark_is_that_of_the_hook_at_the_top(priority: list[int]) -> None:
    queue = np.array(priority, dtype=np.int64)
    assert fewest_writes(queue) == len(order_changes(queue).place)  # no room to space it anew
