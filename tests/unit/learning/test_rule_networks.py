"""A rule as a network orders every load as the rule does."""

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
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
STATIC = {
    "fifo": lambda load: -load.submit,
    "sjf": lambda load: -load.estimate,
    "saf": lambda load: -load.estimate * load.processors,
}


def by_rule(rule, workload):
    if rule in STATIC:
        return simulate_scores(workload, STATIC[rule](workload), SETTINGS).start
    return simulate_order(workload, QueueOrder(rule=rule), SETTINGS).start


@pytest.mark.parametrize("rule", RULE_WEIGHTS)
def test_the_network_schedules_as_the_rule(rule):
    """Seconds count from one on in features: of times of hours that changes hardly an order."""
    same = []
    for seed in range(5):
        workload = random_workload(seed, jobs=120, parallel=True)
        workload = workload._replace(
            submit=workload.submit * 1000,
            run_time=workload.run_time * 1000,
            estimate=workload.estimate * 1000,
            time_limit=workload.time_limit * 1000,
        )
        network = simulate_network(workload, rule_network(rule), SETTINGS).start
        same.append(np.mean(network == by_rule(rule, workload)))
    assert np.mean(same) > 0.97, same


def test_a_rule_that_is_no_sum_of_logarithms_is_refused():
    with pytest.raises(ConfigurationError, match="unicep cannot be written as a network"):
        rule_network("unicep")
