"""Attacks on the score by what a user asks for: copies of a job, more processors than needed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.features.history.run_history import LARGE_REQUEST
from slurm_rl_plugin.units import FloatArray
from tests.attacks.poisoned_queue import DAY, HOUR, NOW, shipped_model
from tests.unit.features.run_tables import Run, snapshot_of

#: Processors and seconds that a small job asks for, and a large one.
SMALL, LARGE = (4, 4 * HOUR), (64, 7 * DAY)


def job_of(processors: int, time_limit: float, job_id: int = 1) -> Run:
    return Run(job_id, 0, processors, time_limit, NOW - HOUR)


def copies_of(job: Run, count: int) -> list[Run]:
    return [replace(job, job_id=1 + place) for place in range(count)]


def scores(*jobs: Run, running: list[Run] | None = None) -> FloatArray:
    snapshot: QueueSnapshot = snapshot_of(NOW, pending=list(jobs), running=running or [])
    return shipped_model().decide(snapshot).scores


@pytest.mark.parametrize("count", [2, 8, 9, 1000])
def test_copies_of_a_job_gain_at_most_ln_8_points(count: int) -> None:
    job = job_of(*SMALL)
    gained = scores(*copies_of(job, count)) - scores(job)[0]
    assert gained == pytest.approx(np.full(count, min(math.log(count), math.log(8))), abs=1e-5)


def test_a_thousand_copies_gain_nothing_once_one_of_them_runs() -> None:
    job = job_of(*SMALL)
    running = [replace(job, job_id=5000, start=NOW - 5.0)]
    alone, among = scores(job, running=running), scores(*copies_of(job, 1000), running=running)
    assert among.tolist() == [alone[0]] * 1000


def test_copies_of_a_large_request_that_nothing_was_paid_for_gain_nothing() -> None:
    job = job_of(*LARGE)
    assert scores(*copies_of(job, 1000)).tolist() == [scores(job)[0]] * 1000


@given(
    processors=st.integers(1, 2000),
    more=st.integers(1, 2000),
    time_limit=st.sampled_from([600.0, HOUR, DAY, 7 * DAY]),
)
@settings(deadline=None, max_examples=100)
def test_more_processors_gain_eight_tenths_of_the_logarithm_of_their_ratio(
    processors: int, more: int, time_limit: float
) -> None:
    """If runs of both classes say the same: here none has run."""
    asked = (processors, processors + more)
    assume(len({each * time_limit >= LARGE_REQUEST for each in asked}) == 1)
    narrow, wide = (scores(job_of(each, time_limit))[0] for each in asked)
    gained = wide - narrow
    assert gained == pytest.approx(0.8 * math.log(asked[1] / asked[0]), abs=1e-5)


@pytest.mark.parametrize("times", [2, 8, 64])
def test_no_more_than_that_where_the_users_own_runs_are_known(times: int) -> None:
    ended = [Run(100 + n, 0, 4, 4 * HOUR, NOW - 2 * DAY, NOW - 2 * DAY + 300.0) for n in range(20)]
    before = shipped_model().decide(snapshot_of(NOW - DAY, ended=ended)).memory
    narrow, wide = (
        shipped_model().decide(snapshot_of(NOW, pending=[job]), before).scores[0]
        for job in (job_of(*SMALL), job_of(4 * times, 4 * HOUR))
    )
    assert wide - narrow <= 0.8 * math.log(times)


@pytest.mark.parametrize("run_time", [300.0, 8 * HOUR, DAY])
def test_one_processor_more_makes_no_request_shorter_than_its_users_runs(run_time: float) -> None:
    """From 1,536 core-hours on a request is not believed to be short; nor is it to gain by that."""
    ended = [
        Run(100 + n, 0, 63 + n % 2, DAY, NOW - 2 * DAY - run_time, NOW - 2 * DAY) for n in range(20)
    ]
    before = shipped_model().decide(snapshot_of(NOW - DAY, ended=ended)).memory
    small, large = (
        shipped_model().decide(snapshot_of(NOW, pending=[job]), before).scores[0]
        for job in (job_of(63, DAY), job_of(64, DAY))
    )
    assert large - small <= 0.8 * math.log(64 / 63) + 1e-5


@pytest.mark.parametrize("asked", [HOUR, DAY])
def test_a_longer_limit_gains_nothing(asked: float) -> None:
    assert scores(job_of(4, 2 * asked))[0] < scores(job_of(4, asked))[0]
