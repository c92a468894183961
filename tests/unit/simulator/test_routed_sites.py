"""Sites side by side: each is the kernel's own site, and jobs are neither lost nor doubled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.kernel.workload import NO_PAST, Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_order,
)
from slurm_rl_plugin.simulator.scoring.echo_state import without_memory
from slurm_rl_plugin.simulator.sites.routed_sites import (
    NOWHERE,
    RoutedSite,
    SiteTerms,
    added_job_gains,
    outcome,
    route_jobs,
)
from slurm_rl_plugin.utility.summary import JobMeasures, ScheduledJobs
from tests.functional.small_site import small_network
from tests.reference.loads import random_workload, users_workload

RULE = QueueOrder(rule="utility-greedy")


def drawn(seed: int, *, exact: bool = True, jobs: int = 60) -> Workload:
    """Jobs that come one at a time: at the same second a site decides between them."""
    workload = random_workload(seed, jobs, 4, parallel=True, exact=exact)
    return workload.having(submit=workload.submit + 1e-3 * np.arange(jobs))


def site(
    workload: Workload, order: QueueOrder = RULE, capacity: int = 4, **more: Any
) -> RoutedSite:
    terms = SiteTerms(
        name="north",
        accounts=("a", "b", "c"),
        shares=workload.shares,
        order=order,
        settings=SimulationSettings(
            capacity=capacity, backfilling="easy", half_life=np.inf, **more
        ),
    )
    return RoutedSite(terms, workload)


def everywhere(workload: Workload) -> np.ndarray:
    return np.full(len(workload.submit), NOWHERE, dtype=np.int64)


#: Orders that look at users, at past runs, at waits, at resources, and at what was written before.
ORDERS = {
    "wfp3": (QueueOrder(rule="wfp3"), {}),
    "multifactor": (QueueOrder(rule="multifactor"), {}),
    "drf": (QueueOrder(rule="drf"), {}),
    "network": (
        QueueOrder(network=small_network(sees_history=True)),
        {"refresh": 60.0, "influence": 4.0, "goals": Goals(shares=2.0, longest_wait=3.0)},
    ),
}


def users_load(seed: int) -> Workload:
    """Jobs of three users with what they weigh, are billed, and ask of two resources."""
    workload = users_workload(seed, 80, parallel=False)
    rng = np.random.default_rng(seed)
    return workload.having(
        submit=0.4 * workload.submit + 1e-3 * np.arange(80),
        billed=rng.choice([0.25, 1.0, 30.0], 80),
        weighed=rng.choice([1.0, 2.0, 8.0], 80),
    )


@pytest.mark.parametrize("name", ORDERS)
def test_all_that_an_order_reads_goes_with_the_jobs(name: str) -> None:
    """Some jobs are of another site, so that rows of this one are not those of the load."""
    order, more = ORDERS[name]
    workload = users_load(3)
    mine = np.flatnonzero(np.random.default_rng(3).random(80) < 0.7)
    north, south = site(workload, order, **more), site(workload, order, **more)
    home = np.where(np.isin(np.arange(80), mine), 0, 1)
    _, start = route_jobs([north, south], workload, home, lambda _: 0)
    plain = SimulationSettings(capacity=4, backfilling="easy", half_life=np.inf, **more)
    expected = simulate_order(workload.select(mine), order, plain).start
    np.testing.assert_array_equal(start[mine], expected)
    other = simulate_order(workload.select(mine), QueueOrder(rule="unicep"), plain).start
    assert expected.tolist() != other.tolist()


@pytest.mark.parametrize("name", ORDERS)
def test_a_question_is_answered_rightly_and_changes_nothing(name: str) -> None:
    order, more = ORDERS[name]
    workload = users_load(4)
    workload = workload.having(estimate=workload.run_time)  # what a question believes comes true
    asked, left_alone = site(workload, order, **more), site(workload, order, **more)
    mine = range(0, 80, 2)
    for job in mine:
        asked.run_until(float(workload.submit[job]))
        expected = asked.expected_start(job)
        asked.take(job)
        left_alone.take(job)
    for each in (asked, left_alone):
        each.run_until(np.inf)
    assert asked.starts()[-1] == expected
    np.testing.assert_array_equal(asked.starts(), left_alone.starts())


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_each_site_runs_its_jobs_as_if_it_were_alone(seed: int) -> None:
    workload = drawn(seed)
    rng = np.random.default_rng(seed)
    home = rng.integers(-1, 3, len(workload.submit))
    wanted = rng.integers(0, 3, len(workload.submit))
    asked = []

    def route(job: int) -> int:
        asked.append(job)
        assert {each.now for each in sites} == {workload.submit[job]}
        return int(wanted[job])

    sites = [site(workload) for _ in range(3)]
    where, start = route_jobs(sites, workload, home, route)
    assert asked == np.flatnonzero(home == NOWHERE).tolist()
    np.testing.assert_array_equal(where, np.where(home == NOWHERE, wanted, home))
    for place in range(3):
        mine = np.flatnonzero(where == place)
        assert sites[place].came == mine.tolist()
        if len(mine) == 0:
            continue
        alone = workload.select(mine)
        plain = SimulationSettings(capacity=4, backfilling="easy")
        expected = simulate_order(alone, QueueOrder(rule="utility-greedy"), plain)
        np.testing.assert_array_equal(start[mine], expected.start)


def test_a_job_wider_than_a_site_is_not_for_it() -> None:
    workload = drawn(1)
    wide = int(np.flatnonzero(workload.processors > 2)[0])
    narrow = site(workload.having(processors=np.minimum(workload.processors, 4)), capacity=2)
    assert not narrow.fits(wide)
    assert narrow.expected_start(wide) == np.inf
    with pytest.raises(SimulationError, match="narrower"):
        narrow.take(wide)


def test_what_a_site_does_not_simulate_is_refused() -> None:
    workload = drawn(1)
    every_event = SimulationSettings(capacity=4, backfilling="easy")
    for more in ({"cycle": 30.0}, {"class_limit": ClassLimit()}):
        terms = replace(site(workload).terms, settings=replace(every_event, **more))
        with pytest.raises(SimulationError, match="every event and limits no class"):
            RoutedSite(terms, workload)
    sigmoid = replace(small_network(), activation="sigmoid")
    for order in (
        QueueOrder(scores=np.zeros(60)),
        QueueOrder(network=without_memory(sigmoid)),
    ):
        with pytest.raises(SimulationError, match="by a Q-network or a rule"):
            site(workload, order)


@pytest.mark.parametrize("name", ["drf", "network"])
def test_an_order_that_looks_at_users_is_refused_where_they_are_not_known(name: str) -> None:
    nobody = drawn(1).having(past=NO_PAST)
    order, more = ORDERS[name]
    with pytest.raises(SimulationError, match="needs to know the user of each job"):
        site(nobody, order, **more)
    with pytest.raises(SimulationError, match="needs to know the user of each job"):
        simulate_order(nobody, order, SimulationSettings(capacity=4))


def test_a_snapshot_names_users_and_sizes() -> None:
    workload = users_load(5)
    asked = site(workload)
    for job in range(0, 40, 2):
        asked.take(job)
    seen = asked.snapshot()
    mine = np.array(asked.came)[seen.pending.jobs.job_id - 1]
    assert len(mine) > 1
    assert seen.pending.jobs.user.tolist() == workload.past.user[mine].tolist()
    assert seen.pending.jobs.size.tolist() == workload.size[mine].tolist()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_the_outcome_of_a_whole_future_is_that_of_its_schedule(seed: int) -> None:
    workload = drawn(seed)
    numbers = np.arange(len(workload.submit))
    begun = site(workload)
    whole = outcome(begun, numbers, workload.submit, 1e9)
    assert begun.came == []
    _, start = route_jobs([begun], workload, everywhere(workload), lambda job: 0)
    measures = JobMeasures.of(
        ScheduledJobs(
            submit=workload.submit,
            start=start,
            run_time=workload.run_time,
            processors=workload.processors,
            account=workload.account,
            interactive=workload.interactive,
            shares=workload.shares,
            capacity=4,
        ),
    )
    assert whole.time_utility == pytest.approx(measures.time_utility.sum())
    assert whole.fairness == pytest.approx(measures.fairness.sum())


def test_what_a_job_adds_is_seen_by_the_site_that_gets_it() -> None:
    workload = drawn(3)
    numbers = np.arange(20, 60)
    begun = site(workload)
    for job in range(20):
        begun.take(job)
    gains = added_job_gains(begun, [0, 1, 2], numbers, workload.submit[20:], 600.0)
    again = added_job_gains(begun, [2, 1, 0], numbers, workload.submit[20:], 600.0)
    np.testing.assert_array_equal(gains, again[::-1])
    idle = site(workload.having(interactive=np.ones(60, dtype=np.bool_)))
    alone = added_job_gains(idle, [0], numbers[:0], workload.submit[:0], 600.0)
    assert alone[0, 0] == 1.0  # starts at once
    assert alone[0, 1] == 0.0  # before anything was consumed
