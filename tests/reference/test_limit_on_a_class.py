"""The compiled limit on the batch class gives the starts of the readable one, and its effects."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
)
from tests.reference.loads import random_workload, workload_of
from tests.reference.test_kernel_against_readable_simulator import (
    kernel_starts,
    reference_starts,
    tiny_loads,
)

CAPACITY = 12
LIVE = ClassLimit(widest_batch_job=3, change_interval=40.0, lift_after=600.0, idle_after=2000.0)
RULES = ("fifo", "sjf", "interactive-first", "wfp3")


@pytest.mark.parametrize("parallel", [False, True], ids=["sequential", "parallel"])
@pytest.mark.parametrize("cycle", [0.0, 30.0])
@pytest.mark.parametrize("backfilling", ["none", "easy"])
@pytest.mark.parametrize("name", RULES)
def test_a_limited_class_starts_as_in_the_readable_simulator(
    name: str, backfilling: str, cycle: float, parallel: bool
) -> None:
    workload = random_workload(11, parallel=parallel)
    how = SimulationSettings(
        capacity=CAPACITY, backfilling=backfilling, reserve=4, cycle=cycle, class_limit=LIVE
    )
    starts = kernel_starts(workload, name, how)
    assert starts == reference_starts(workload, name, how)
    assert starts != kernel_starts(workload, name, replace(how, class_limit=None))


@settings(max_examples=200, deadline=None)
@given(
    tiny_loads(),
    st.sampled_from(RULES),
    st.sampled_from(["none", "easy"]),
    st.integers(0, 7),
    st.sampled_from([0.0, 5.0]),
    st.builds(
        ClassLimit,
        widest_batch_job=st.integers(1, 3),
        change_interval=st.sampled_from([0.0, 3.0, 20.0]),
        lift_after=st.sampled_from([0.0, 4.0, 30.0]),
        idle_after=st.sampled_from([2.0, 10.0, math.inf]),
        narrow_first=st.booleans(),
        most=st.sampled_from([0.0, 2.0, math.inf]),
    ),
)
def test_it_agrees_on_any_tiny_load(
    load: tuple[Workload, int],
    name: str,
    backfilling: str,
    reserve: int,
    cycle: float,
    limit: ClassLimit,
) -> None:
    workload, capacity = load
    how = SimulationSettings(
        capacity=capacity,
        backfilling=backfilling,
        reserve=reserve,
        cycle=cycle,
        class_limit=limit,
    )
    assert kernel_starts(workload, name, how) == reference_starts(workload, name, how)


def rows(*each: tuple[float, float, int, bool]) -> Workload:
    """Jobs of (submit, run time, processors, interactive)."""
    columns = np.array(each, dtype=np.float64).T
    run_time = columns[1].copy()
    return workload_of(
        columns[0].copy(),
        run_time,
        processors=columns[2].astype(np.int64),
        interactive=columns[3] > 0,
    )


def starts(workload: Workload, limit: ClassLimit | None, name: str = "fifo") -> list[float]:
    """On 4 processors; 2 are wanted for interactive jobs."""
    how = SimulationSettings(capacity=4, reserve=2, class_limit=limit)
    return kernel_starts(workload, name, how)


AT_ONCE = ClassLimit(change_interval=0.0, lift_after=1000.0, idle_after=500.0)


BATCH_JOBS = [(2.0, 900.0, 1, False)] * 4
WIDE = [(0, 1, 1, True), (0, 50, 1, False), (1, 10, 4, False), (2, 10, 1, False)]
#: Jobs, the limit, and starts by hand.
BY_HAND = {
    # the limit is 2: the third batch job waits, the interactive one behind it does not
    "at the limit batch jobs do not delay others": (
        [(0, 1, 1, True), *[(1, 50, 1, False)] * 2, (2, 50, 1, False), (3, 50, 1, True)],
        *(AT_ONCE, [0, 1, 1, 51, 3]),
    ),
    # of 4 one is in use and 2 are kept: batch jobs get 1 until the interactive job ends
    "interactive jobs in use come on top of the reserve": (
        [(0, 20, 1, True), *[(1, 50, 1, False)] * 2],
        *(AT_ONCE, [0, 1, 20]),
    ),
    "a limit that seldom changes stays": (
        [(0, 20, 1, True), *[(1, 50, 1, False)] * 2],
        *(replace(AT_ONCE, change_interval=45.0), [0, 1, 1]),
    ),
    "no interactive arrival for long": (
        [(0, 1, 1, True), *BATCH_JOBS],
        *(AT_ONCE, [0, 2, 2, 500, 500]),
    ),
    "no interactive job ever came": (BATCH_JOBS, AT_ONCE, [2, 2, 2, 2]),
    "behind a wide one that the limit keeps out": (
        *(WIDE, replace(AT_ONCE, lift_after=200.0)),
        [0, 0, 201, 50],
    ),
    "narrow ones first": (
        *(WIDE, replace(AT_ONCE, lift_after=200.0, narrow_first=True)),
        [0, 0, 201, 2],
    ),
}


@pytest.mark.parametrize(("jobs", "limit", "expected"), BY_HAND.values(), ids=BY_HAND)
def test_limits_by_hand(jobs: list[Any], limit: ClassLimit, expected: list[float]) -> None:
    assert starts(rows(*jobs), limit) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"change_interval": -1.0},
        {"lift_after": math.nan},
        {"lift_after": math.inf, "idle_after": math.inf},
        {"change_interval": math.inf},
        {"narrow_first": True, "lift_after": math.inf},
        {"widest_batch_job": 0},
        {"most": -1.0},
    ],
)
def test_a_limit_that_could_starve_a_job_for_good_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        ClassLimit(**wrong)
