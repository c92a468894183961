"""Policies drive the cluster as the compiled loop does, by sizes of jobs with memory and GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from slurm_rl_plugin.domain import Decision, JobTable, Memory, QueueSnapshot
from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.domain.machine import Machine, MachinePartition, NodeKind
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.policies.ordering_rules import STATIC_RULES
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.policies.registry import NAMED_POLICIES, PolicyKind, named_policy, rule_policy
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.policy_driver import (
    simulate_policy,
)
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_network,
    simulate_order,
    simulate_scores,
)
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from tests.functional.small_site import small_network
from tests.reference.loads import log_of, users_workload
from tests.reference.test_network_against_readable_simulator import GOALS

TYPED = "gres/gpu:a100"
MACHINE = Machine(
    resources=("cpus", "memory", "gpus", TYPED),
    kinds=(
        NodeKind(name="n[1-2]", count=2, resources=(8.0, 6400.0, 0.0, 0.0)),
        NodeKind(name="g1", count=1, resources=(8.0, 3200.0, 4.0, 2.0)),
    ),
    partitions=(
        MachinePartition(name="p", kinds=(0, 1), is_default=True, default_memory_per_cpu=100.0),
    ),
)
USERS = ("ann", "bob", "carol")
HOW = [
    SimulationSettings(capacity=24, backfilling=backfilling, reserve=reserve, cycle=cycle)
    for backfilling in ("none", "easy")
    for reserve, cycle in ((0, 0.0), (2, 60.0))
]
LIVE_RULES = [
    name
    for name, each in NAMED_POLICIES.items()
    if each.kind in (PolicyKind.STATIC, PolicyKind.WAITING) and not each.needs_log
]


def load(seed: int, machine: Machine | None = MACHINE, jobs: int = 150) -> PreparedLog:
    """Three users whose jobs ask for few amounts of memory, and some of them for GPUs."""
    workload = users_workload(seed, jobs, parallel=True)
    rng = np.random.default_rng(seed)
    gpus = rng.choice([0.0, 1.0, 2.0], jobs, p=[0.8, 0.1, 0.1])
    processors = np.where(gpus > 0, np.minimum(workload.processors, 4), workload.processors)
    typed = np.where(rng.random(jobs) < 0.5, gpus, 0.0)
    memory = np.where(gpus > 0, 1000.0, rng.choice([0.0, 200.0, 6400.0], jobs, p=[0.2, 0.3, 0.5]))
    total = np.column_stack([processors, memory, gpus, typed]).astype(np.float64)
    asked = ResourceRequests.of_totals(
        total, names=MACHINE.resources, nodes=np.zeros(jobs, dtype=np.int64)
    )
    limit = workload.past.asked[workload.past.template]
    log = log_of(workload, available=24, time_limit=limit)
    log = replace(log, processors=processors, user=workload.past.user, users=USERS, requests=asked)
    return prepare_log(log, capacity=None if machine else 24, machine=machine)


@dataclass
class OnHeadNode:
    """A policy that sees requests and the machine, and no sizes, as on a real cluster."""

    policy: Policy
    name: str = "on a head node"

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        def told(jobs: JobTable) -> JobTable:
            assert jobs.weighed is not None
            return replace(jobs, weighed=None)

        pending = replace(snapshot.pending, jobs=told(snapshot.pending.jobs))
        running = replace(snapshot.running, jobs=told(snapshot.running.jobs))
        ended = snapshot.ended
        if len(ended):
            ended = replace(ended, jobs=told(ended.jobs))
        shown = replace(snapshot, pending=pending, running=running, ended=ended)
        assert shown.resources is not None
        return self.policy.decide(shown, memory)


def driven(prepared: PreparedLog, policy: Policy, how: SimulationSettings) -> list[float]:
    workload = prepared.workload(RequestedLimit())
    found: list[float] = simulate_policy(prepared, workload, policy, how).start.tolist()
    return found


def by_rule(prepared: PreparedLog, name: str, how: SimulationSettings) -> list[float]:
    """The compiled loop on processors; sizes are those of the machine of nodes."""
    named, workload = named_policy(name), prepared.workload(RequestedLimit())
    assert named is not None
    order = QueueOrder(rule=named.name)
    if named.kind is PolicyKind.STATIC:
        scores = STATIC_RULES[named.name](prepared.jobs(), workload.estimate)
        order = QueueOrder(scores=scores.astype(np.float64))
    found: list[float] = simulate_order(workload, order, how).start.tolist()
    return found


@pytest.mark.parametrize("name", LIVE_RULES)
@pytest.mark.parametrize("how", HOW, ids=str)
def test_a_rule_on_a_head_node_sees_the_sizes_of_the_compiled_loop(
    name: str, how: SimulationSettings
) -> None:
    prepared = load(1)
    assert driven(prepared, OnHeadNode(rule_policy(name)), how) == by_rule(prepared, name, how)


@pytest.mark.parametrize("goals", [AS_TRAINED, GOALS], ids=["as trained", "goals"])
@pytest.mark.parametrize("how", HOW, ids=str)
def test_a_model_on_a_head_node_sees_the_sizes_of_the_compiled_network(
    how: SimulationSettings, goals: Goals, tmp_path
) -> None:
    seed = 1 + HOW.index(how) % 3
    prepared, network = load(seed), small_network(hidden=4, seed=seed, sees_history=True)
    path = tmp_path / "model.onnx"
    export_network(network, path, {})
    policy = OnHeadNode(replace(load_q_network(path), goals=goals))
    settings = replace(how, goals=goals.resolved(prepared.shares))
    compiled = simulate_network(prepared.workload(RequestedLimit()), network, settings).start
    assert driven(prepared, policy, how) == compiled.tolist()
    plain = load(seed, machine=None)
    unweighed = simulate_network(plain.workload(RequestedLimit()), network, settings).start
    assert unweighed.tolist() != compiled.tolist()


@dataclass
class ReserveAtFirst:
    """FIFO; keeps four processors free until a time, and counts its decisions."""

    until: float
    name: str = "reserve"
    asked: int = 0

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        self.asked += 1
        assert memory is None or memory[0] == self.asked - 1
        return Decision(
            scores=-snapshot.pending.jobs.submit,
            reserve=4 if snapshot.now < self.until else 0,
            memory=np.array([self.asked], dtype=np.float32),
        )


def test_the_reserve_of_each_decision_holds_and_memory_is_handed_on() -> None:
    prepared, settings = load(1), SimulationSettings(capacity=24)
    workload = prepared.workload(RequestedLimit())
    policy = ReserveAtFirst(until=float(workload.submit[75]))
    driven = simulate_policy(prepared, workload, policy, settings)
    assert policy.asked == driven.decisions > 10
    plain = simulate_scores(workload, -workload.submit, settings).start
    always = simulate_scores(workload, -workload.submit, replace(settings, reserve=4)).start
    early = plain < policy.until
    assert not np.array_equal(driven.start[early], plain[early])
    assert not np.array_equal(driven.start, always)


def test_default_memory_of_the_partition_weighs_too() -> None:
    prepared = load(1)
    jobs = prepared.jobs()
    assert jobs.requests is not None
    memory = jobs.requests.of("memory")
    assert (memory > 0.0).all()
    # two nodes and one with GPUs have 24 processors, that one has 8 and 4 GPUs, 2 of them typed
    worth = np.array([1.0, 24.0 / 16_000.0, 8.0 / 4.0, 8.0 / 2.0])
    asked = np.column_stack([jobs.requests.of(name) for name in MACHINE.resources])
    np.testing.assert_allclose(jobs.size, (asked * worth).max(axis=1), rtol=1e-12)
    assert (jobs.size > jobs.processors).any()
