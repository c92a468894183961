"""Ordering rules as networks: where no training wins, the rule itself is the site's model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.site import SITE, USUAL
from slurm_rl_plugin.policies.network import (
    QNetwork,
    fixed_scaler,
    network_from_parameters,
    parameter_count,
)

#: Rules whose order is that of a sum of logarithms, and the weights of the features that make it.
RULE_WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "fifo": {"log_age": 1.0},
    "sjf": {"log_time_limit": -1.0},
    "saf": {"log_time_limit": -1.0, "log_size": -1.0},
}


def rule_network(rule: str) -> QNetwork:
    """The network of the `site` schema that orders a queue as a rule does.

    Args:
        rule: one of RULE_WEIGHTS.

    Raises:
        ConfigurationError: a rule that is no sum of logarithms.
    """
    if rule not in RULE_WEIGHTS:
        raise ConfigurationError(
            f"rule {rule} cannot be written as a network: give one of {', '.join(RULE_WEIGHTS)}."
        )
    parameters = np.zeros(parameter_count(SITE, 1))
    linear = parameters[-len(SITE.jobs) :]
    for feature, weight in RULE_WEIGHTS[rule].items():
        linear[SITE.jobs.index(feature)] = weight * USUAL[feature][1]
    return network_from_parameters(SITE, parameters, hidden=1, scaler=fixed_scaler(SITE))
