"""A policy object that drives the cluster gives the same schedule as the compiled loop."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.policies.registry import rule_policy
from slurm_rl_plugin.simulator.schedules.policy_driver import simulate_policy
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_network,
    simulate_scores,
)
from slurm_rl_plugin.simulator.workloads.generators import egee_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from tests.functional.small_site import small_network
from tests.reference.test_network_against_readable_simulator import GOALS


def parallel_load(seed: int = 3) -> PreparedLog:
    rng = np.random.default_rng(seed)
    log = egee_log(rng, jobs=300, processors=16, load=0.15)
    limit = np.ceil(log.run_time / 600) * 600
    submit = np.floor(log.submit / 60) * 60  # waits that differ in single precision
    log = replace(log, submit=submit, eligible=submit, time_limit=limit)
    log = replace(log, processors=rng.integers(1, 9, 300))
    return prepare_log(log, capacity=16)


LOAD = parallel_load()
WORKLOAD = LOAD.workload(rule_policy("fifo").estimates)
HOW = [
    SimulationSettings(capacity=16, backfilling=backfilling, reserve=reserve, cycle=cycle)
    for backfilling in ("none", "easy")
    for reserve, cycle in ((0, 0.0), (2, 60.0))
]


@pytest.mark.parametrize("how", HOW, ids=str)
def test_a_rule_drives_as_the_static_loop_does(how: SimulationSettings) -> None:
    driven = simulate_policy(LOAD, WORKLOAD, rule_policy("sjf"), how)
    compiled = simulate_scores(WORKLOAD, -WORKLOAD.estimate, how)
    assert driven.start.tolist() == compiled.start.tolist()


@pytest.mark.parametrize("goals", [Goals(shares=0.0), GOALS], ids=["as trained", "goals"])
@pytest.mark.parametrize("how", HOW, ids=str)
def test_onnxruntime_drives_as_the_compiled_network_does(
    how: SimulationSettings, goals: Goals, tmp_path
) -> None:
    network = small_network(hidden=4, sees_history=True)
    export_network(network, tmp_path / "model.onnx", {"estimates": "requested"})
    policy = replace(load_q_network(tmp_path / "model.onnx"), goals=goals)
    driven = simulate_policy(LOAD, WORKLOAD, policy, how)
    compiled = simulate_network(WORKLOAD, network, replace(how, goals=goals))
    assert driven.start.tolist() == compiled.start.tolist()


@dataclass
class ReserveInTheMorning:
    """FIFO; keeps four processors free until the second day, and counts its decisions."""

    name: str = "reserve"
    asked: int = 0

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        self.asked += 1
        assert memory is None or memory[0] == self.asked - 1
        return Decision(
            scores=-snapshot.pending.jobs.submit,
            reserve=4 if snapshot.now < 86400 else 0,
            memory=np.array([self.asked], dtype=np.float32),
        )


def test_the_reserve_of_each_decision_holds_and_memory_is_handed_on() -> None:
    policy = ReserveInTheMorning()
    settings = SimulationSettings(capacity=16)
    driven = simulate_policy(LOAD, WORKLOAD, policy, settings)
    assert policy.asked == driven.decisions > 10
    plain = simulate_scores(WORKLOAD, -WORKLOAD.submit, settings).start
    always = simulate_scores(WORKLOAD, -WORKLOAD.submit, replace(settings, reserve=4)).start
    early = plain < 86400
    assert not np.array_equal(driven.start[early], plain[early])
    assert not np.array_equal(driven.start, always)
