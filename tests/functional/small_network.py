"""A network with fixed weights, for tests that need some model."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.policies.network import (
    QNetwork,
    fixed_scaler,
    network_from_parameters,
    parameter_count,
)


def small_network(hidden: int = 3, seed: int = 1, *, sees_history: bool = False) -> QNetwork:
    """Random weights, none for past runs unless asked."""
    parameters = np.random.default_rng(seed).normal(size=parameter_count(SITE, hidden))
    network = network_from_parameters(SITE, parameters, hidden=hidden, scaler=fixed_scaler(SITE))
    if not sees_history:
        network.job_weights[-len(SITE.history_jobs) :] = 0.0
        network.linear[-len(SITE.history_jobs) :] = 0.0
    return network
