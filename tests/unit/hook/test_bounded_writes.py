"""Where more must be written than a cycle may: the order comes all the same, its top first."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.hook.order.order_changes import (
    ROOM_BELOW,
    jobs_to_keep,
    order_changes,
)
from tests.unit.hook.queues import QueueInMemory, ScorePolicy, pending_jobs
from tests.unit.hook.test_cycle import cycle_over

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


def test_what_is_written_first_is_the_top(tmp_path: Path) -> None:
    memory = QueueInMemory(pending_jobs([9, 8, 7, 6, 5, 4]))
    cycle_over(memory, ScorePolicy([1, 2, 3, 4, 5, 6]), tmp_path, max_writes=2).run()
    assert memory.order()[:2] == [6, 5]


def test_a_queue_out_of_room_is_spaced_anew_only_where_one_cycle_can() -> None:
    """The writes that are sent first would be the same in every cycle, and none of the others."""
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


def test_a_few_that_sink_do_not_lift_the_others() -> None:
    """An array of 300 goes to the end of 10,000 jobs that stand: 300 writes, two cycles of 200."""
    stands = np.arange(10_000, 0, -1) * 1000
    sinks = np.concatenate([stands[300:], stands[:300]])
    assert len(order_changes(sinks, most=200).place) == 300


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
