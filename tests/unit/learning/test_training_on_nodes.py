"""Training on a machine of nodes: candidates run where the rules run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.features.site import RESOURCE_FEATURES, SCARCE_SHARE, SITE, SITE_OF_PROCESSORS
from slurm_rl_plugin.learning.evaluation.paired import Candidate, starts_under
from slurm_rl_plugin.learning.policy_search.search import search_policy, unsearched_network
from slurm_rl_plugin.learning.policy_search.settings import PolicySearchSettings
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.policies.network import without_resources
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_network
from slurm_rl_plugin.utility.reward import RewardWeights
from tests.reference.test_weighed_jobs import load

SETTINGS = PolicySearchSettings(
    hidden=1,
    generations=2,
    population=4,
    searched="linear",
    start="saf",
    resources=True,
    weights=RewardWeights(slowdown=10.0, tail=0.0),
)
SYSTEM = SimulationSettings(capacity=24, backfilling="easy")


def test_a_network_is_simulated_on_the_nodes_of_its_load() -> None:
    prepared = load(1)
    training = TrainingLoad.of(prepared, RequestedLimit(), SYSTEM)
    network = unsearched_network(SETTINGS, None)
    found = training.starts(network)
    candidate = Candidate(name="this", network=network)
    there = starts_under(candidate, prepared, training.workload, SYSTEM)
    assert found.tolist() == there.tolist()
    pool = simulate_network(training.workload, network, SYSTEM).start
    assert found.tolist() != pool.tolist()  # a pool of processors holds more
    again = training.starts(network)
    assert again.tolist() == found.tolist()  # nothing of the machine is kept


def test_a_search_on_nodes_finds_weights_of_resources_where_it_is_told_to() -> None:
    loads = [TrainingLoad.of(load(seed), RequestedLimit(), SYSTEM) for seed in (1, 2, 3)]
    places = [SITE.jobs.index(name) for name in (*RESOURCE_FEATURES, SCARCE_SHARE)]
    for resources in (True, False):
        settings = replace(SETTINGS, resources=resources)
        network = search_policy(loads[:2], loads[2:], settings).network
        searched = search_policy(loads[:2], loads[:2], replace(settings, step=0.5)).network
        moved = np.array([network.linear[places], searched.linear[places]]).any()
        assert moved == resources
        schema = SITE if resources else SITE_OF_PROCESSORS
        assert without_resources(searched).schema == schema
