"""What an audit log tells of weeks: counts, and how far jobs would move."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.hook.audit.summary import (
    MOST_NAMES,
    AuditSummary,
    JobsSeen,
    RankMoves,
    inversions,
    kendall_tau,
)


def cycle(time: float, order: list[int], **values: Any) -> dict[str, Any]:
    line = {"event": "cycle", "time": time, "mode": "shadow", "policy": "m", "model": "abc"}
    return {**line, "reason": "policy", "jobs": len(order), "order": order, **values}


def write(time: float, job: int, event: str = "would_write") -> dict[str, Any]:
    return {"event": event, "time": time, "job": job}


def summary_of(*lines: dict[str, Any]) -> dict[str, Any]:
    summary = AuditSummary()
    for line in lines:
        summary.add(line)
    return summary.document(1)


def test_cycles_jobs_writes_fallbacks_failures_and_rails_are_counted() -> None:
    found = summary_of(
        cycle(0.0, [3, 1, 2], site_rank=[2, 0, 1], failed=["busy", "batch_system", "busy"]),
        write(0.0, 3),
        write(0.0, 9),
        cycle(30.0, [], site_rank=[]),
        cycle(330.0, [1, 2], site_rank=[0, 1], reason="late", guard_rails=["starvation bound"]),
        write(330.0, 1, "write"),
    )
    assert found["cycles"] == 3
    assert found["cycles_with_jobs"] == 2
    assert found["longest_gap_seconds"] == 300.0
    assert found["jobs_seen"] == 4
    assert (found["would_be_writes"], found["writes"]) == (2, 1)
    assert found["fallbacks"] == {"late": 1}
    assert found["failures"] == {"busy": 2, "batch_system": 1}
    assert found["guard_rails"] == {"starvation bound": 1}


def test_turns_of_an_experiment_are_no_writes() -> None:
    turn = {"event": "experiment", "time": 2.0, "mode": "active", "policy": "x", "why": "our turn"}
    assert summary_of(cycle(1.0, [1]), turn)["writes"] == summary_of(cycle(1.0, [1]))["writes"]


def test_moves_are_told_by_class_and_account() -> None:
    line = cycle(
        *(0.0, [7, 8, 9, 10]),
        site_rank=[3, 0, 1, 2],
        interactive=[0],
        account=[0, 1, 1, 0],
        accounts=["physics", "biology"],
    )
    found = summary_of(line, line)
    assert found["moves"] == {"job_cycles": 8, "earlier": 0.25, "later": 0.0, "median_move": -1.0}
    assert found["classes"]["interactive"]["median_move"] == 3.0
    assert found["classes"]["batch"]["median_move"] == -1.0
    assert found["accounts"]["physics"]["job_cycles"] == 4
    assert found["accounts"]["biology"]["earlier"] == 0.0
    assert found["kendall_tau"] == pytest.approx(1 - 4 * 3 / (4 * 3))


def test_lines_of_an_earlier_release_are_read_and_said_to_lack_the_site_order() -> None:
    found = summary_of(cycle(0.0, [1, 2]), cycle(1.0, [1, 2], site_rank=[0, 1]))
    assert found["cycles_without_site_order"] == 1
    assert found["moves"]["job_cycles"] == 2
    assert found["jobs_seen"] == 2


@pytest.mark.parametrize(
    "values",
    [
        {"site_rank": ["a", None]},
        {"site_rank": [0]},
        {"site_rank": 7},
        {"site_rank": [10**30, 1]},
        {"site_rank": [1, 0], "interactive": [99, -5], "account": [7, 7], "accounts": ["x"]},
        {"failed": 3, "guard_rails": None, "reason": None},
    ],
)
def test_odd_values_of_a_line_break_nothing(values: dict[str, Any]) -> None:
    assert summary_of(cycle(0.0, [1, 2], **values))["cycles"] == 1


def test_memory_does_not_grow_with_the_log() -> None:
    summary = AuditSummary()

    def feed(first: int) -> None:
        for number in range(first, first + 300):
            jobs = [number * 1000 + index for index in range(50)]
            rank = np.random.default_rng(number).permutation(50).tolist()
            line = cycle(number, jobs, site_rank=rank, account=[0] * 50, reason=f"late {number}")
            summary.add({**line, "accounts": [f"account{number}"]})

    feed(0)
    feed(2000)
    tracemalloc.start()
    feed(1000)
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert grown < 100_000
    assert len(summary.by_account) == MOST_NAMES + 1
    assert summary.jobs.count == 3 * 300 * 50


def test_job_numbers_of_a_federation_are_counted_too() -> None:
    seen = JobsSeen()
    seen.add(np.array([5, 5, (3 << 26) + 17, 0x03FF_FFFF]))
    seen.add(np.array([], dtype=np.int64))
    assert seen.count == 3


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
