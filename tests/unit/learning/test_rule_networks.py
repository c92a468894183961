"""A rule as a network orders every load as the rule does."""

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.policy_search import RULE_WEIGHTS, rule_network
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_network,
    simulate_scores,
)
from tests.reference.loads import random_workload

SETTINGS = SimulationSettings(capacity=40, backfilling="easy")
SCORES = {
    "fifo": lambda load: -load.submit,
    "sjf": lambda load: -load.time_limit,
    "saf": lambda load: -load.time_limit * load.processors,
}


@pytest.mark.parametrize("rule", RULE_WEIGHTS)
def test_the_network_schedules_as_the_rule(rule):
    for seed in range(5):
        workload = random_workload(seed, jobs=120, parallel=True)
        rng = np.random.default_rng(seed)
        workload = workload._replace(time_limit=workload.time_limit * rng.uniform(1, 2, 120))
        network = simulate_network(workload, rule_network(rule), SETTINGS).start
        expected = simulate_scores(workload, SCORES[rule](workload), SETTINGS).start
        assert network.tolist() == expected.tolist()


def test_a_rule_that_is_no_sum_of_logarithms_is_refused():
    with pytest.raises(ConfigurationError, match="unicep cannot be written as a network"):
        rule_network("unicep")
