"""The fewest writes, those of several cycles, and those of a bounded influence."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.batch_systems.port import HIGHEST_PRIORITY
from slurm_rl_plugin.cli.benchmark import fewest_writes
from slurm_rl_plugin.domain.decision import INFLUENCE_TOLERANCE
from slurm_rl_plugin.hook.order.queue_plan import (
    LOWEST_PRIORITY,
    ROOM_BELOW,
    bounded_changes,
    jobs_to_keep,
    order_changes,
)
from tests.unit.hook.queues import QueueInMemory, ScorePolicy, cycle_over, pending_jobs

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
def test_no_order_can_be_had_with_fewer_writes(priority: list[int]) -> None:
    assert len(order_changes(np.array(priority, dtype=np.int64)).place) == by_trying_all(priority)


@given(st.lists(st.integers(1, HIGHEST_PRIORITY), max_size=300))
def test_large_queues_and_priorities_keep_the_order(priority: list[int]) -> None:
    result = after(priority)
    assert (np.diff(result) < 0).all()
    assert result.size == 0 or (result.min() >= 1 and result.max() <= HIGHEST_PRIORITY)


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


#: Priorities as sites have them: tight, equal, or far apart.
QUEUES = st.integers(2, 60).flatmap(
    lambda jobs: st.tuples(
        st.one_of(
            st.just(list(range(jobs, 0, -1))),
            st.just([500] * jobs),
            st.lists(st.integers(1, 80), min_size=jobs, max_size=jobs),
            st.lists(st.integers(1, 10**7), min_size=jobs, max_size=jobs),
        ),
        st.permutations(range(jobs)),
    )
)


#: One job rises from the end into the middle of a queue without a gap.
MIDDLE = [*range(59, 29, -1), *range(28, -1, -1), 29]


@settings(deadline=None, max_examples=40)
@example(queue=(list(range(60, 0, -1)), MIDDLE), most=5, older=7)
@given(queue=QUEUES, most=st.integers(1, 20), older=st.integers(0, 50))
def test_every_cycle_comes_as_much_nearer_as_it_may_write(
    tmp_path_factory: pytest.TempPathFactory,
    queue: tuple[list[int], list[int]],
    most: int,
    older: int,
) -> None:
    native, scores = queue
    memory = QueueInMemory(pending_jobs(native))
    cycle = cycle_over(
        memory, ScorePolicy(scores), tmp_path_factory.mktemp("site"), max_writes=most
    )
    wanted = [place + 1 for place in np.argsort(-np.array(scores), kind="stable").tolist()]
    needed = math.inf
    for _ in range(math.ceil(len(native) / most)):
        report = cycle.run()
        still = report.suppressed["write_bound"]
        assert report.writes <= most
        assert report.writes + still <= max(needed, report.writes)
        needed = still
        memory.pending.native_priority[:] += older  # as time goes by
    assert needed == 0
    assert memory.order() == wanted
    before = len(memory.written)
    cycle.run()
    assert len(memory.written) == before


def test_a_queue_out_of_room_is_spaced_anew_only_where_one_cycle_can() -> None:
    """The first writes would be the same in every cycle, and the others would never be sent."""
    tight = np.arange(ROOM_BELOW + 100, ROOM_BELOW, -1)
    into_the_middle = np.concatenate([tight[:50], [5], tight[50:]])
    assert len(order_changes(into_the_middle).place) == 101
    assert len(order_changes(into_the_middle, most=101).place) == 101
    assert len(order_changes(into_the_middle, most=100).place) < 60


def standing(queue: np.ndarray) -> int:
    """How many of the first jobs stand before all that are to come later."""
    right = np.argsort(-queue, kind="stable") == np.arange(len(queue))
    return int(np.argmin([*right, False]))


@pytest.mark.parametrize("spread", [20_000, 10**6])
@pytest.mark.parametrize("jobs", [4000, 3997])
def test_who_could_start_next_stands_after_the_first_cycles(jobs: int, spread: int) -> None:
    """The site's own priorities lie anywhere: by the fewest writes hardly any would stand."""
    queue = np.random.default_rng(jobs + spread).integers(1000, 1000 + spread, jobs)
    heads = []
    while len((changes := order_changes(queue, most=200)).place):
        whole = queue.copy()
        whole[changes.place] = changes.priority
        assert (np.diff(whole) < 0).all()
        queue[changes.place[:200]] = changes.priority[:200]
        heads.append(standing(queue))
    assert len(heads) == 20  # as many as the fewest writes take
    assert heads[:4] == [200, 400, 600, 800]
    assert min(heads[4:]) >= 800
    assert heads[-1] == jobs


def test_a_head_stays_below_the_ceiling_or_the_fewest_are_sent() -> None:
    queue = np.random.default_rng(1).integers(1000, 20_000, 1000)
    changes = order_changes(queue, 25_000, most=200)
    queue[changes.place[:200]] = changes.priority[:200]
    assert standing(queue) == 200
    assert queue.max() < 25_000
    low = np.random.default_rng(1).integers(1000, 20_000, 1000)
    full = order_changes(low, 20_100, most=200)
    assert full.priority.max() < 20_100
    assert len(full.place) == np.count_nonzero(~jobs_to_keep(low, 20_100))


def test_who_sinks_from_the_head_does_not_have_it_written_again() -> None:
    """In each cycle one of the first 50 goes to the end; the order comes as soon all the same."""
    rng = np.random.default_rng(2)
    queue = rng.integers(1000, 20_000, 10_000)
    heads = []
    for _ in range(25):
        changes = order_changes(queue, most=500)
        queue[changes.place[:500]] = changes.priority[:500]
        heads.append(standing(queue))
        first = int(rng.integers(0, 50))
        queue = np.append(np.delete(queue, first), queue[first])
    # two of a cycle's writes go to who sank before it
    assert heads[:4] == [500, 998, 1496, 1994]
    assert heads[-1] == 10_000
    assert queue.max() < 20 * ROOM_BELOW


@pytest.mark.parametrize("most", [0, 1])
def test_a_queue_without_room_below_the_ceiling(most: int) -> None:
    assert len(order_changes(np.array([5, 4]), 3, most=most).place) == 2
    low = order_changes(np.array([3, -50, -40, -45]), most=most)
    assert low.priority.min() >= 1


POINTS = 1000.0


def written(native: list[int], factor: list[int], points: float = POINTS) -> list[int]:
    """Factors after the changes, in the wanted order."""
    changes = bounded_changes(np.array(native), np.array(factor), points)
    after = np.array(factor)
    after[changes.place] = changes.priority - np.array(native)[changes.place]
    return [int(each) for each in after]


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
def test_terms_are_bounded_and_a_second_cycle_is_quiet(
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
