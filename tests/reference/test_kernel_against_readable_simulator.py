"""The compiled kernel gives the starts that the readable simulator gives."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.policies.ordering_rules import STATIC_RULES
from slurm_rl_plugin.policies.waiting_rules import WAITING_RULES
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_order,
    simulate_scores,
)
from tests.reference.loads import jobs_of, random_workload, table_of, workload_of
from tests.reference.readable_simulator import SCORERS, Limit, rule, simulate

CAPACITY = 12


def kernel_starts(workload: Workload, name: str, how: SimulationSettings) -> list[float]:
    if name in WAITING_RULES:
        return simulate_order(workload, QueueOrder(rule=name), how).start.tolist()
    scores = STATIC_RULES[name](table_of(workload), workload.estimate)
    return simulate_scores(workload, np.asarray(scores, dtype=np.float64), how).start.tolist()


def reference_starts(workload: Workload, name: str, how: SimulationSettings) -> list[float]:
    limit = how.class_limit
    return simulate(
        jobs_of(workload),
        how.capacity,
        rule(name),
        easy=how.backfilling == "easy",
        reserve=how.reserve,
        cycle=how.cycle,
        limit=None if limit is None else Limit(*astuple(limit)[:6]),
    )


@pytest.mark.parametrize("parallel", [False, True], ids=["sequential", "parallel"])
@pytest.mark.parametrize("cycle", [0.0, 30.0])
@pytest.mark.parametrize("reserve", [0, 2])
@pytest.mark.parametrize("backfilling", ["none", "easy"])
@pytest.mark.parametrize("name", sorted(SCORERS))
def test_kernel_starts_every_job_when_the_readable_simulator_does(
    name: str, backfilling: str, reserve: int, cycle: float, parallel: bool
) -> None:
    workload = random_workload(7, parallel=parallel)
    how = SimulationSettings(
        capacity=CAPACITY, backfilling=backfilling, reserve=reserve, cycle=cycle
    )
    assert kernel_starts(workload, name, how) == reference_starts(workload, name, how)


def test_every_rule_of_the_product_is_compared() -> None:
    # usage, and whose the jobs are, the readable simulator does not keep: tested by themselves
    assert {*STATIC_RULES, *WAITING_RULES} - {"multifactor", "drf"} == set(SCORERS)


#: Processors, jobs of (submit, run time, estimate, processors), and their starts by hand.
BY_HAND = {
    # both ends at 10 free 4 of 5, the head needs 3: the long job of one may start at once
    "all ends at the shadow time": (
        *(5, [(0, 10, 10, 2), (0, 10, 10, 2), (1, 10, 10, 3), (2, 50, 50, 1)]),
        [0, 0, 10, 2],
    ),
    # job 0 was to end at 5 but runs to 30: at 12 the head is expected at once, and none is spare
    "an outlived estimate": (
        *(3, [(0, 30, 5, 2), (0, 4, 4, 1), (6, 10, 10, 3), (12, 2, 2, 1)]),
        [0, 0, 30, 40],
    ),
    "one more than an outlived estimate": (
        *(4, [(0, 30, 5, 2), (0, 4, 4, 1), (6, 10, 10, 3), (12, 2, 2, 1)]),
        [0, 0, 30, 12],
    ),
    "an end at the shadow time and one after it": (
        *(3, [(0, 10, 10, 2), (1, 10, 10, 3), (2, 8, 8, 1), (2, 9, 9, 1)]),
        [0, 10, 2, 20],
    ),
    # 4 of 6 busy to 10, the head needs 5: one is spare for one long job, not for two
    "spare processors are used up": (
        *(6, [(0, 10, 10, 4), (1, 10, 10, 5), (2, 50, 50, 1), (2, 50, 50, 1)]),
        [0, 10, 2, 20],
    ),
}


@pytest.mark.parametrize(("capacity", "jobs", "expected"), BY_HAND.values(), ids=BY_HAND)
def test_easy_by_hand(capacity: int, jobs: list[tuple[int, ...]], expected: list[int]) -> None:
    submit, run_time, estimate, processors = np.array(jobs).T
    limits = {"estimate": estimate * 1.0, "time_limit": estimate * 1.0}
    workload = workload_of(submit * 1.0, run_time * 1.0, processors=processors, **limits)
    how = SimulationSettings(capacity=capacity, backfilling="easy")
    assert kernel_starts(workload, "fifo", how) == expected
    assert reference_starts(workload, "fifo", how) == expected


@st.composite
def tiny_loads(draw: st.DrawFn) -> tuple[Workload, int]:
    capacity = draw(st.integers(1, 6))
    row = st.tuples(
        st.integers(0, 12),  # submit
        st.integers(1, 12),  # run time
        st.integers(1, 12),  # estimate
        st.integers(1, capacity),
        st.booleans(),
    )
    rows = sorted(draw(st.lists(row, max_size=14)), key=lambda each: each[0])
    columns = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    estimate = columns[1] if draw(st.booleans()) else columns[2]
    workload = workload_of(
        np.ascontiguousarray(columns[0]),
        np.ascontiguousarray(columns[1]),
        estimate=np.ascontiguousarray(estimate),
        time_limit=np.ascontiguousarray(estimate),
        processors=columns[3].astype(np.int64),
        interactive=columns[4] > 0,
    )
    return workload, capacity


@settings(max_examples=400, deadline=None)
@given(
    tiny_loads(),
    st.sampled_from(sorted(SCORERS)),
    st.sampled_from(["none", "easy"]),
    st.integers(0, 7),
    st.sampled_from([0.0, 1.0, 5.0]),
)
def test_kernel_agrees_on_any_tiny_load_full_of_ties(
    load: tuple[Workload, int], name: str, backfilling: str, reserve: int, cycle: float
) -> None:
    workload, capacity = load
    how = SimulationSettings(
        capacity=capacity, backfilling=backfilling, reserve=reserve, cycle=cycle
    )
    assert kernel_starts(workload, name, how) == reference_starts(workload, name, how)


@pytest.mark.parametrize("cycle", [0.1, 7.3, 29.97])
def test_a_cycle_that_is_no_binary_fraction_never_loses_an_event(cycle: float) -> None:
    rng = np.random.default_rng(1)
    multiples = np.unique(np.floor(10.0 ** rng.uniform(3, 9, 20_000))) * cycle
    just_after = np.nextafter(multiples, np.inf)
    submit = just_after[np.ceil(just_after / cycle) * cycle < just_after][:50]
    assert len(submit) == 50, "no such rounding found: the test would prove nothing"
    count = len(submit)
    ones = np.ones(count)
    workload = workload_of(submit, ones)
    how = SimulationSettings(capacity=count, cycle=cycle)
    wait = simulate_scores(workload, -submit, how).start - submit
    assert (wait >= 0).all()
    assert (wait <= cycle).all()
