"""What the hook makes of scores: the ends of each setting are orders that are known."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.policy_search.rule_networks import RULE_WEIGHTS, rule_network
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_network,
    simulate_order,
    simulate_scores,
)
from tests.reference.loads import random_workload

SETTINGS = SimulationSettings(capacity=40, backfilling="easy")
SHORTEST_FIRST = rule_network("sjf")


def starts(workload, **changes):
    return simulate_network(workload, SHORTEST_FIRST, replace(SETTINGS, **changes)).start


def fifo(workload):
    return simulate_scores(workload, -workload.submit, SETTINGS).start


@pytest.fixture(params=range(4))
def workload(request):
    return random_workload(request.param, jobs=150, parallel=True)


def test_without_effects_the_order_is_the_networks(workload):
    shortest = simulate_scores(workload, -workload.estimate, SETTINGS).start
    assert not np.array_equal(shortest, fifo(workload))
    np.testing.assert_array_equal(starts(workload), shortest)


@pytest.mark.parametrize(
    "changes", [{"influence": 0.0}, {"starvation": -1.0}, {"refresh": 1e12}], ids=str
)
def test_an_order_that_may_not_count_leaves_fifo(workload, changes):
    """No influence; everybody starved; or a hook that wrote once, before nearly all jobs came."""
    np.testing.assert_array_equal(starts(workload, **changes), fifo(workload))


@pytest.mark.parametrize(
    "changes", [{"influence": 1e9}, {"starvation": 1e12}, {"refresh": 1e-9}], ids=str
)
def test_effects_beyond_reach_change_nothing(workload, changes):
    np.testing.assert_array_equal(starts(workload, **changes), starts(workload))


@pytest.mark.parametrize(
    "changes", [{"influence": 0.2}, {"starvation": 300.0}, {"refresh": 60.0}], ids=str
)
def test_a_static_order_is_written_as_a_network_of_the_same_order(workload, changes):
    order = QueueOrder(scores=-workload.estimate)
    found = simulate_order(workload, order, replace(SETTINGS, **changes)).start
    np.testing.assert_array_equal(found, starts(workload, **changes))


def test_a_waiting_rule_without_influence_leaves_fifo_and_alone_nothing_is_written(workload):
    order, none = QueueOrder(rule="wfp3"), replace(SETTINGS, influence=0.0)
    np.testing.assert_array_equal(simulate_order(workload, order, none).start, fifo(workload))
    alone = simulate_order(workload, order, none.without_hook).start
    np.testing.assert_array_equal(alone, simulate_order(workload, order, SETTINGS).start)


def test_a_starvation_bound_shortens_the_longest_wait():
    workload = random_workload(1, jobs=400, parallel=True)
    wait = {
        bound: (starts(workload, starvation=bound) - workload.submit).max()
        for bound in (np.inf, 60.0)
    }
    assert wait[60.0] <= wait[np.inf]


def test_a_starved_job_has_the_best_place_and_no_more_than_the_influence(workload):
    """As on a live queue, where the bound comes before the influence is written."""
    none = starts(workload, starvation=60.0, influence=0.0)
    np.testing.assert_array_equal(none, fifo(workload))
    much = starts(workload, starvation=60.0, influence=1e9)
    np.testing.assert_array_equal(much, starts(workload, starvation=60.0))


def test_a_bound_beyond_reach_changes_nothing_beside_old_scores(workload):
    old = starts(workload, refresh=120.0)
    np.testing.assert_array_equal(starts(workload, refresh=120.0, starvation=1e12), old)


def test_rules_are_networks_of_known_features():
    assert all(set(weights) <= set(SITE.jobs) for weights in RULE_WEIGHTS.values())
