"""What the hook makes of scores: the ends of each setting are orders that are known."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.learning.policy_search import rule_network
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_network,
    simulate_order,
    simulate_scores,
)
from slurm_rl_plugin.simulator.scoring.site_priority import SitePriority, example_priority
from slurm_rl_plugin.units import DAY
from tests.reference.loads import random_workload, workload_of

SETTINGS = SimulationSettings(capacity=40, backfilling="easy")
SHORTEST_FIRST = rule_network("sjf")


def starts(workload, **changes):
    return simulate_network(workload, SHORTEST_FIRST, replace(SETTINGS, **changes)).start


def fifo(workload):
    return simulate_scores(workload, -workload.submit, SETTINGS).start


def sites_own(workload):
    return simulate_order(workload, QueueOrder(rule="multifactor"), SETTINGS).start


@pytest.fixture(params=range(4))
def workload(request):
    """Jobs that are believed to run as long as they ask for, of three accounts."""
    drawn = random_workload(request.param, jobs=150, parallel=True)
    return drawn.having(time_limit=drawn.estimate)


def of_one_account(workload):
    return workload.having(account=np.zeros_like(workload.account))


def test_where_every_job_starves_the_first_come_starts_first(workload):
    found = starts(of_one_account(workload), starvation=-1.0)
    np.testing.assert_array_equal(found, fifo(workload))


@pytest.mark.parametrize(
    "changes",
    [{"influence": 0.0}, {"influence": 0.01}, {"influence": 0.01, "refresh": 60.0}],
    ids=str,
)
def test_next_to_no_influence_leaves_the_sites_own_priority(workload, changes):
    assert not np.array_equal(sites_own(workload), fifo(workload))
    np.testing.assert_array_equal(starts(workload, **changes), sites_own(workload))


def test_a_site_without_weights_is_first_come_first_served(workload):
    """Also with a bounded order, which adds nothing where age adds nothing."""
    none = SitePriority(
        points=np.zeros(len(workload.submit)), age=0.0, highest_age=DAY, fairshare=0.0, period=60.0
    )
    np.testing.assert_array_equal(
        simulate_order(workload, QueueOrder(site=none), SETTINGS).start, fifo(workload)
    )
    bounded = QueueOrder(network=SHORTEST_FIRST, site=none)
    found = simulate_order(workload, bounded, replace(SETTINGS, influence=1e6)).start
    np.testing.assert_array_equal(found, fifo(workload))


@pytest.mark.parametrize("influence", [np.inf, 1e4])
def test_a_new_job_gets_its_place_between_cycles(influence):
    """Five jobs of one account on one processor; one cycle, when the first comes."""
    run_time = np.array([50.0, 60.0, 900.0, 10.0, 20.0])
    workload = workload_of([0.0, 1.0, 5.0, 10.0, 11.0], run_time)
    shortest_first = QueueOrder(scores=-run_time, site=example_priority())
    for refresh in (0.0, 1e5):
        settings = SimulationSettings(capacity=1, influence=influence, refresh=refresh)
        found = simulate_order(workload, shortest_first, settings).start.tolist()
        assert found == [0.0, 80.0, 140.0, 50.0, 60.0]


@pytest.mark.parametrize(
    ("refresh", "expected"), [(0.0, [0.0, 120.0, 100.0]), (60.0, [0.0, 100.0, 200.0])]
)
def test_between_cycles_a_job_keeps_its_place(refresh, expected):
    """The third job passes the second one at 63 s; the cycle at 60 s puts it behind.

    One of two processors is free, so that the queue is looked at when the last job comes.
    """
    workload = workload_of(
        [0.0, 0.0, 50.0, 60.0], [100.0, 100.0, 20.0, 1e4], processors=[1, 2, 2, 1]
    )
    settings = SimulationSettings(capacity=2, refresh=refresh)
    found = simulate_order(workload, QueueOrder(rule="wfp3"), settings).start.tolist()
    assert found[:3] == expected


def test_a_write_gives_a_job_its_age_of_now():
    """Priorities are calculated once, at 0; two jobs wait for the first, the second's is shorter.

    The write at 60 s puts the shorter one in the better place, which adds a point, and has
    slurmctld calculate both whole: by then the longer one is 59 points old.
    """
    workload = workload_of([0.0, 1.0, 60.0], [100.0, 50.0, 10.0])
    site = SitePriority(
        points=np.zeros(3), age=1e5, highest_age=1e5, fairshare=0.0, period=1e9, first=0.0
    )
    order = QueueOrder(network=SHORTEST_FIRST, site=site)
    settings = SimulationSettings(
        capacity=1, backfilling="easy", influence=2 / site.points_an_hour, refresh=50.0
    )
    np.testing.assert_array_equal(simulate_order(workload, order, settings).start, [0, 100, 150])


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (np.inf, [0.0, 150.0, 120.0, 100.0]),  # the shortest first
        # at 100 s the other account has the first place, and at 120 s this one
        (60.0, [0.0, 120.0, 170.0, 100.0]),
    ],
)
def test_a_starved_job_takes_the_best_place_of_its_account_and_no_better_one(bound, expected):
    """Jobs on one processor, the last one of another account; the second one starves."""
    workload = workload_of(
        [0.0, 1.0, 95.0, 96.0],
        [100.0, 50.0, 30.0, 20.0],
        account=[0, 0, 0, 1],
        shares=[0.5, 0.5],
    )
    settings = SimulationSettings(capacity=1, starvation=bound)
    found = simulate_network(workload, SHORTEST_FIRST, settings).start
    assert found.tolist() == expected


def test_a_starved_job_has_the_best_place_and_no_more_than_the_influence(workload):
    """As on a live queue, where the bound comes before the influence is written."""
    none = starts(workload, starvation=60.0, influence=0.0)
    np.testing.assert_array_equal(none, sites_own(workload))
    much = starts(workload, starvation=60.0, influence=1e9)
    np.testing.assert_array_equal(much, starts(workload, starvation=60.0))


def test_beside_a_bounded_order_interactive_jobs_go_first_below_a_limit():
    """Two processors, both with interactive jobs. A batch job and a later interactive one wait.

    The batch job may use the processor that becomes free at 10 s, and age puts it first.
    """
    run_time = np.array([10.0, 20.0, 5.0, 5.0])
    workload = workload_of([0.0, 0.0, 1.0, 5.0], run_time, interactive=[True, True, False, True])
    site = SitePriority(
        points=np.zeros(4), age=1e5, highest_age=1e5, fairshare=0.0, period=1.0, first=0.0
    )
    settings = SimulationSettings(capacity=2, influence=1e-6, class_limit=ClassLimit(), reserve=1)
    order = QueueOrder(scores=-run_time, site=site)
    found = simulate_order(workload, order, settings).start.tolist()
    assert found == [0.0, 0.0, 15.0, 10.0]
    without = simulate_order(workload, order, replace(settings, reserve=0)).start.tolist()
    assert without == [0.0, 0.0, 10.0, 15.0]
