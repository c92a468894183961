"""What a market agreed upon is kept; its compiled code does what its sources say."""

import importlib
import math
import pkgutil
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.brokers import market
from slurm_rl_plugin.brokers.market.formula import (
    MACHINE_FUNCTIONS,
    USER_FUNCTIONS,
    machine_function,
)
from slurm_rl_plugin.brokers.market.market_simulation import (
    MarketSettings,
    simulate_market,
)
from slurm_rl_plugin.brokers.market.timetable import Agreements
from slurm_rl_plugin.errors import ConfigurationError, SimulationError
from slurm_rl_plugin.simulator.kernel.compilation import CompiledFunction
from slurm_rl_plugin.simulator.kernel.workload import Workload
from tests.reference.loads import workload_of

MACHINES = st.sampled_from([(8,), (4, 4), (5, 2, 1)])


def workload(rows: list[tuple[float, float, float, int]]) -> Workload:
    """Jobs of (seconds after the one before, asked for, part of it that it runs, processors)."""
    gaps, asked, part, processors = (np.array(column) for column in zip(*rows, strict=True))
    return workload_of(
        np.cumsum(gaps).astype(float),
        (asked * part).astype(float),
        estimate=asked.astype(float),
        time_limit=asked.astype(float),
        processors=processors.astype(np.int64),
    )


JOB = st.tuples(
    st.sampled_from([0.0, 0.0, 1.0, 7.0, 30.0]),
    st.sampled_from([1.0, 5.0, 10.0, 33.0, 100.0]),
    st.sampled_from([1.0, 1.0, 0.9, 0.5, 0.1, 0.01]),
    st.integers(1, 8),
)


def check(jobs: Workload, found: Agreements, machines: tuple[int, ...]) -> None:
    assert (found.start <= found.promised).all()
    assert (found.start >= jobs.submit).all()
    assert (found.parts >= 0).all()
    assert (found.parts.sum(axis=1) == jobs.processors).all()
    end = found.start + jobs.run_time
    for instant in found.start:  # use rises nowhere else
        running = (found.start <= instant) & (end > instant)
        assert (found.parts[running].sum(axis=0) <= machines).all()


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(JOB, min_size=1, max_size=30),
    machines=MACHINES,
    owner=st.sampled_from(sorted(MACHINE_FUNCTIONS)),
    user=st.sampled_from(sorted(USER_FUNCTIONS)),
    rescheduling=st.booleans(),
    margin=st.sampled_from([0.0, 3.0, 50.0, 1000.0]),
    splitting=st.sampled_from(["where too wide", "wherever better"]),
)
def test_every_agreement_is_kept(rows, machines, owner, user, rescheduling, margin, splitting):
    jobs = workload(rows)
    market = MarketSettings(
        machines=machines,
        owner=MACHINE_FUNCTIONS[owner],
        user=USER_FUNCTIONS[user],
        splitting=splitting,
        rescheduling=rescheduling,
        margin=margin,
    )
    found = simulate_market(jobs, market)
    check(jobs, found, machines)
    if splitting == "where too wide":
        split = (found.parts > 0).sum(axis=1) > 1
        assert (jobs.processors[split] > max(machines)).all()
    if not rescheduling:
        assert (found.start == found.promised).all()


@settings(max_examples=20, deadline=None)
@given(rows=st.lists(JOB, min_size=2, max_size=40))
def test_the_last_agreement_does_not_move_the_earlier_ones(rows):
    jobs, market = workload(rows), MarketSettings(machines=(4, 4), margin=20.0)
    alone = simulate_market(workload(rows[:-1]), market)
    assert (simulate_market(jobs, market).promised[:-1] == alone.promised).all()


def test_who_waits_is_offered_a_margin_more_and_who_starts_at_once_is_not():
    jobs = workload([(0, 100, 0.1, 8), (1, 10, 1, 8), (1, 10, 1, 8)])
    found = simulate_market(jobs, MarketSettings(machines=(8,), margin=25.0))
    assert found.promised.tolist() == [0, 125, 135]
    assert found.start.tolist() == [0, 10, 20]
    without = simulate_market(jobs, MarketSettings(machines=(8,), rescheduling=False))
    assert without.promised.tolist() == [0, 100, 110]  # what is agreed is when it starts


def test_within_the_margin_a_heavier_job_goes_first():
    # the first ends early; the last weighs most, but the one before it was promised the 10th second
    rows = [(0, 10, 0.5, 8), (1, 10, 1, 1), (1, 10, 1, 8)]
    late = {
        margin: simulate_market(workload(rows), MarketSettings(machines=(8,), margin=margin))
        for margin in (0.0, 60.0)
    }
    assert late[0.0].start.tolist() == [0, 5, 15]
    assert late[60.0].start.tolist() == [0, 15, 5]


def test_a_job_may_not_push_another_behind_its_promise():
    # the long job would fit now, but the wide one was promised the start at 20
    jobs = workload([(0, 20, 1, 4), (1, 10, 1, 8), (1, 100, 1, 4)])
    found = simulate_market(jobs, MarketSettings(machines=(8,), margin=0.0))
    assert found.start.tolist() == [0, 20, 30]


def test_a_wide_job_runs_on_several_machines_at_once():
    jobs = workload([(0, 10, 1, 3), (0, 10, 1, 8)])
    found = simulate_market(jobs, MarketSettings(machines=(4, 4), splitting="where too wide"))
    assert found.start.tolist() == [0, 10]
    assert found.parts.tolist() == [[3, 0], [4, 4]]


def test_a_job_that_nothing_can_run_is_refused():
    with pytest.raises(ConfigurationError, match="wider than the machines"):
        simulate_market(workload([(0, 1, 1, 9)]), MarketSettings(machines=(4, 4)))


def test_a_job_that_runs_longer_than_it_asked_for_is_refused():
    with pytest.raises(SimulationError, match="longer than the market gives it"):
        simulate_market(workload([(0, 10, 1.5, 1)]), MarketSettings(machines=(4,)))


def test_prices_are_those_of_the_owner():
    # alone on 4 processors, job of 2 x 10: nothing before or after it, 20 idle on other processors
    for name, expected in {"MF1": 0.0, "MF2": 40.0, "MF3": 0.0, "MF4": 0.0}.items():
        market = MarketSettings(machines=(4,), owner=MACHINE_FUNCTIONS[name])
        found = simulate_market(workload([(0, 10, 1, 2)]), market)
        assert math.isclose(found.price[0], expected, abs_tol=1e-9), name


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(JOB, min_size=1, max_size=30), hops=st.integers(0, 2), rescheduling=st.booleans()
)
def test_jobs_run_within_reach_of_their_own_domain(rows, hops, rescheduling):
    jobs, machines = workload(rows), (2, 2, 2, 2)
    market = MarketSettings(machines=machines, rescheduling=rescheduling, hops=hops)
    found = simulate_market(jobs, market)
    check(jobs, found, machines)
    for job, parts in enumerate(found.parts):
        near = {(job + way) % 4 for way in range(-hops, hops + 1)}
        wide = jobs.processors[job] > 2 * len(near)
        assert wide or set(np.flatnonzero(parts)) <= near
    if hops == 2:  # two hops get everywhere in a ring of four
        everywhere = simulate_market(
            jobs, MarketSettings(machines=machines, rescheduling=rescheduling)
        )
        assert np.array_equal(found.start, everywhere.start)


def test_owners_may_ask_more_of_a_class_and_of_a_late_start():
    rows = [(0.0, 10.0, 1.0, 8), (0.0, 10.0, 1.0, 8)]
    jobs = workload(rows).having(interactive=np.array([True, False]))
    market = MarketSettings(
        machines=(8,),
        owner=machine_function("5 + Interactive + StartTime / SiteProcessors"),
        rescheduling=False,
    )
    assert simulate_market(jobs, market).price.tolist() == [6.0, 5.0 + 10.0 / 8.0]


MODULES = [
    importlib.import_module(f"{market.__name__}.{each.name}")
    for each in pkgutil.iter_modules(market.__path__)
]


def compiled_names(module) -> Iterator[tuple[str, CompiledFunction]]:
    for name, value in vars(module).items():
        if isinstance(value, CompiledFunction):
            yield name, value


def borrows(function: CompiledFunction) -> bool:
    return function.inner.targetoptions.get("_nrt") is False


BORROWING = {
    f"{module.__name__}.{name}": function
    for module in MODULES
    for name, function in compiled_names(module)
    if borrows(function) and function.inner.py_func.__module__ == module.__name__
}


def test_most_kernels_borrow():
    assert len(BORROWING) > 20  # otherwise numba's option has another name


def busy(seed: int, count: int = 50) -> Workload:
    """Enough jobs for eight processors that some wait, with many equal times."""
    rng = np.random.default_rng(seed)
    columns = (
        rng.choice([0.0, 0.0, 1.0, 7.0, 30.0], count),
        rng.choice([1.0, 5.0, 10.0, 33.0, 100.0], count),
        rng.choice([1.0, 1.0, 0.9, 0.5, 0.1, 0.01], count),
        rng.integers(1, 9, count),
    )
    return workload(list(zip(*columns, strict=True)))


@pytest.mark.parametrize("rescheduling", [True, False])
@pytest.mark.parametrize("machines", [(8,), (4, 4), (5, 2, 1)])
@pytest.mark.parametrize(("owner", "user"), [("MF1", "UF1"), ("MF1", "UF2"), ("MF2", "UF3")])
def test_it_agrees_with_its_sources_interpreted(owner, user, machines, rescheduling):
    jobs = busy(len(machines))
    terms = MarketSettings(
        machines=machines,
        owner=MACHINE_FUNCTIONS[owner],
        user=USER_FUNCTIONS[user],
        rescheduling=rescheduling,
        margin=20.0,
    )
    found = simulate_market(jobs, terms)
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            for name, function in list(compiled_names(module)):
                patch.setattr(module, name, function.inner.py_func)
        expected = simulate_market(jobs, terms)
    for column in ("start", "promised", "price", "parts"):
        np.testing.assert_array_equal(getattr(found, column), getattr(expected, column), column)


@pytest.mark.parametrize("name", BORROWING)
def test_what_borrows_arrays_hands_none_on(name):
    # an array returned without being counted would be freed while its caller still reads it
    source = BORROWING[name].inner.py_func
    assert source.__annotations__["return"] in ("None", "bool", "int", "float")
    called = [source.__globals__.get(each) for each in source.__code__.co_names]
    assert all(borrows(each) for each in called if isinstance(each, CompiledFunction))
