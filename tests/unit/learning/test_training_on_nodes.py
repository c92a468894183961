"""Training on a machine of nodes: candidates run where the rules run."""

from __future__ import annotations

from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import Candidate, starts_under
from slurm_rl_plugin.learning.policy_search import PolicySearchSettings, unsearched_network
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_network
from slurm_rl_plugin.utility.reward import RewardWeights
from tests.reference.test_weighed_jobs import load

SETTINGS = PolicySearchSettings(
    hidden=1,
    generations=2,
    population=4,
    searched="linear",
    start="saf",
    weights=RewardWeights(slowdown=10.0, tail=0.0),
)
SYSTEM = SimulationSettings(capacity=24, backfilling="easy")


def test_a_network_is_simulated_on_the_nodes_of_its_load() -> None:
    prepared = load(1)
    training = TrainingLoad.of(prepared, RequestedLimit(), SYSTEM)
    network = unsearched_network(SETTINGS)
    found = training.starts(network)
    candidate = Candidate(name="this", network=network)
    there = starts_under(candidate, prepared, training.workload, SYSTEM)
    assert found.tolist() == there.tolist()
    pool = simulate_network(training.workload, network, SYSTEM).start
    assert found.tolist() != pool.tolist()  # a pool of processors holds more
    again = training.starts(network)
    assert again.tolist() == found.tolist()  # nothing of the machine is kept
