"""The benchmark's scheduler on cases small enough to do by hand, beside our kernel."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.papers.rlscheduler_2020.protocol import (
    RULES,
    BenchmarkJobs,
    benchmark_starts,
)
from slurm_rl_plugin.papers.rlscheduler_2020.study import kernel_starts

pytestmark = pytest.mark.study

PROCESSORS = 4


def jobs(*rows: tuple[int, int, int, int]) -> BenchmarkJobs:
    """Rows of submit, run time, requested time, processors."""
    table = np.array(rows, dtype=np.float64)
    return BenchmarkJobs(table[:, 0], table[:, 1], table[:, 2], table[:, 3].astype(np.int64))


def starts(sequence: BenchmarkJobs, rule: str, **options: bool) -> list[float]:
    return benchmark_starts(sequence, PROCESSORS, rule, **options).tolist()


def test_a_chosen_job_is_kept_though_a_shorter_one_arrives_before_it_starts() -> None:
    sequence = jobs((0, 10, 10, 4), (1, 100, 100, 4), (2, 1, 1, 4))
    assert starts(sequence, "SJF") == [0, 10, 110]
    assert kernel_starts(sequence, PROCESSORS, "SJF").tolist() == [0, 11, 10]


def test_a_job_that_arrives_at_the_same_second_is_not_seen_before_time_moves() -> None:
    sequence = jobs((0, 100, 100, 4), (0, 1, 1, 4))
    assert starts(sequence, "SJF") == [0, 100]
    assert kernel_starts(sequence, PROCESSORS, "SJF").tolist() == [1, 0]


def test_an_arrival_joins_before_a_job_that_ends_at_the_same_second() -> None:
    sequence = jobs((0, 10, 10, 4), (5, 7, 7, 4), (10, 3, 3, 4), (17, 2, 2, 4))
    assert starts(sequence, "SJF") == [0, 10, 17, 20]


def test_backfilling_needs_an_end_strictly_before_the_shadow_time() -> None:
    too_long = jobs((0, 10, 10, 3), (1, 5, 5, 4), (2, 8, 8, 1))
    short_enough = jobs((0, 10, 10, 3), (1, 5, 5, 4), (2, 7, 7, 1))
    assert starts(too_long, "FCFS", backfilling=True) == [0, 10, 15]
    assert starts(short_enough, "FCFS", backfilling=True) == [0, 10, 2]
    assert kernel_starts(too_long, PROCESSORS, "FCFS").tolist() == [0, 10, 2]


def test_backfilling_does_not_use_processors_that_the_head_will_leave_spare() -> None:
    sequence = jobs((0, 10, 10, 2), (1, 5, 5, 3), (2, 100, 100, 1))
    assert starts(sequence, "FCFS", backfilling=True) == [0, 10, 10]
    assert kernel_starts(sequence, PROCESSORS, "FCFS").tolist() == [0, 10, 2]


def test_backfilling_is_in_order_of_submission_whatever_the_rule() -> None:
    sequence = jobs((0, 10, 100, 3), (0, 200, 200, 1), (1, 5, 5, 4), (2, 50, 50, 3), (3, 5, 5, 3))
    assert starts(sequence, "SJF", backfilling=True) == [0, 0, 200, 10, 60]


def test_backfilling_takes_jobs_of_the_same_second_in_the_order_of_the_rule() -> None:
    # from 10 s on three processors are free while SJF waits for four
    sequence = jobs((0, 10, 10, 4), (1, 100, 100, 1), (2, 30, 30, 3), (2, 20, 20, 3), (3, 1, 1, 4))
    assert starts(sequence, "SJF", backfilling=True) == [0, 10, 30, 10, 110]
    assert starts(sequence, "FCFS", backfilling=True) == [0, 10, 10, 40, 110]


def test_the_shadow_time_is_found_once_and_backfilling_ends_when_it_has_passed() -> None:
    # the first job outlives its request of 10 s, after which nothing can end before the shadow time
    sequence = jobs((0, 50, 10, 3), (1, 5, 5, 4), (12, 1, 1, 1))
    assert starts(sequence, "FCFS", backfilling=True) == [0, 50, 55]


def test_a_wait_from_an_unset_start_makes_wfp3_prefer_the_long_request() -> None:
    sequence = jobs((0, 100, 100, 4), (1, 1, 1, 4), (10, 100, 100, 4), (11, 1000, 1000, 4))
    assert starts(sequence, "WFP3") == [0, 100, 1101, 101]
    assert starts(sequence, "WFP3", wait_is_known=True) == [0, 100, 101, 201]


@pytest.mark.parametrize("backfilling", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_every_job_starts_and_the_machine_is_never_overfull(rule: str, backfilling: bool) -> None:
    random = np.random.default_rng(7)
    count = 300
    run_time = random.integers(1, 200, count).astype(np.float64)
    sequence = BenchmarkJobs(
        submit=np.sort(random.integers(0, 8000, count)).astype(np.float64),
        run_time=run_time,
        requested=run_time + random.integers(-20, 300, count).clip(1 - run_time),
        processors=random.integers(1, PROCESSORS + 1, count),
    )
    start = benchmark_starts(sequence, PROCESSORS, rule, backfilling=backfilling)
    assert np.all(start >= sequence.submit)
    end = start + sequence.run_time
    for now in start:
        in_use = sequence.processors[(start <= now) & (now < end)].sum()
        assert in_use <= PROCESSORS
