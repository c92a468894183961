"""Past runs on the head node, and equal predictions of the simulator."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.features.history.past_runs import ForetoldRuns, PastRuns
from slurm_rl_plugin.features.history.run_history import (
    ARRIVAL_MEMORY,
    PARTS,
)
from slurm_rl_plugin.learning.onnx_file import export_network, import_network
from slurm_rl_plugin.papers.backfilling_predictions_2015.plan import (
    bring_quantiles_up_to_now,
    by_prediction,
)
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.services.hook import model_path
from slurm_rl_plugin.simulator.kernel.cluster import advance, next_event
from slurm_rl_plugin.simulator.kernel.dispatch import anything_fits
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder, decide_scored
from slurm_rl_plugin.simulator.schedules.policy_driver import simulate_policy
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.functional.small_site import small_network
from tests.reference.loads import log_of, users_workload
from tests.unit.features.run_tables import USERS, Run, snapshot_of, told_by
from tests.unit.features.test_past_runs import assert_same, random_runs, snapshots_of

#: Numbers of a memory before the predictions of running jobs: arrivals, the longest wait.
BEFORE = ARRIVAL_MEMORY + 1


@pytest.fixture
def policy(tmp_path):
    export_network(small_network(sees_history=True), tmp_path / "sees.onnx", {})
    return load_q_network(tmp_path / "sees.onnx")


@pytest.fixture
def of_the_papers():
    """A model of a schema without past runs."""
    return load_q_network(model_path("reactive-grids"))


def past_in(memory):
    """The past in a memory, after the predictions of running jobs."""
    return PastRuns.from_memory(ForetoldRuns.from_memory(memory[BEFORE:])[1])


def some_queue(now=10_000.0, pending=40):
    rng = np.random.default_rng(3)
    runs = random_runs(rng, 100)
    ended = [run for run in runs if run.end <= now]
    running = [run for run in runs if run.start <= now < run.end]
    waiting = [replace(run, start=now - 5.0 * run.job_id) for run in runs[:pending]]
    return snapshot_of(now, running=running, ended=ended, pending=waiting)


def test_a_model_of_another_schema_remembers_no_runs(of_the_papers):
    decision = of_the_papers.decide(some_queue())
    assert len(decision.memory) == BEFORE
    assert decision.run_times is None


def test_runs_are_remembered_from_decision_to_decision(policy):
    runs = random_runs(np.random.default_rng(4), 80)
    memory = None
    times = [5_000.0, 20_000.0, 60_000.0]
    for snapshot in snapshots_of(runs, times):
        memory = policy.decide(snapshot, memory).memory
    assert_same(past_in(memory), told_by(runs, times[-1]))


@pytest.mark.parametrize("cut", [0, 1, 3, ARRIVAL_MEMORY, BEFORE, 60, -1])
def test_a_memory_of_another_shape_is_dropped(policy, cut):
    snapshot = some_queue()
    first = policy.decide(snapshot)
    other = policy.decide(snapshot, first.memory[:cut])
    np.testing.assert_array_equal(other.memory, first.memory)
    np.testing.assert_array_equal(other.scores, first.scores)


def test_memories_of_models_with_and_without_past_runs_are_told_apart(policy, of_the_papers):
    snapshot = some_queue()
    long, short = policy.decide(snapshot), of_the_papers.decide(snapshot)
    np.testing.assert_array_equal(policy.decide(snapshot, short.memory).memory, long.memory)
    np.testing.assert_array_equal(of_the_papers.decide(snapshot, long.memory).memory, short.memory)


def test_an_empty_queue_learns_too(policy):
    decision = policy.decide(some_queue(pending=0))
    assert len(decision.scores) == 0
    assert len(past_in(decision.memory).users) > 0


def jobs_of_users(seed, jobs):
    workload = users_workload(seed, jobs, parallel=True, large=True)
    limit = workload.past.asked[workload.past.template]
    log = log_of(workload, available=96, time_limit=limit)
    return prepare_log(replace(log, user=workload.past.user, users=USERS))


@pytest.fixture
def model(tmp_path):
    export_network(small_network(sees_history=True), tmp_path / "tells.onnx", {})
    return tmp_path / "tells.onnx"


def foretold(memory):
    """What a memory holds of running jobs, behind arrivals and the longest wait."""
    return ForetoldRuns.from_memory(memory[ARRIVAL_MEMORY + 1 :])[0]


def test_a_decision_tells_quantiles_up_to_the_limit(model):
    snapshot = snapshot_of(500.0, pending=[Run(1, 0, 4, 600.0, 400.0), Run(2, 1, 2, 60.0, 450.0)])
    told = load_q_network(model).decide(snapshot).run_times()
    # nothing is known: before 10, 30, 60, ... s ends 0.12 of what is left, 1 - 0.88**n of all
    tenth = 10 ** (0.1 / 0.12)  # from 1 to 10 s
    quarter = 30 * 2 ** ((0.25 - (1 - 0.88**2)) / (0.12 * 0.88**2))  # from 30 to 60 s
    half = 300 * 2 ** ((0.5 - (1 - 0.88**5)) / (0.12 * 0.88**5))  # from 300 to 600 s
    assert told[0] == pytest.approx([tenth, quarter, half, 600.0, 600.0])
    assert told[1] == pytest.approx([tenth, quarter, 60.0, 60.0, 60.0])


def test_a_running_job_is_foretold_once_and_its_end_teaches(model):
    policy = load_q_network(model)
    run = Run(1, 0, 4, 600.0, 100.0)
    waiting = policy.decide(snapshot_of(100.0, pending=[run]))
    running = policy.decide(snapshot_of(101.0, running=[run]), waiting.memory)
    again = policy.decide(snapshot_of(131.0, running=[run]), running.memory)
    known = foretold(running.memory)
    assert known.lines.shape == (1, 1 + len(PARTS))
    assert known.asked.tolist() == list(PARTS)
    np.testing.assert_array_equal(foretold(again.memory).lines, known.lines)
    ended = replace(run, end=10.0**7)
    learned = policy.decide(snapshot_of(10.0**7 + 1, ended=[ended]), again.memory)
    after = foretold(learned.memory)
    assert len(after.lines) == 0
    assert (after.asked > known.asked).all()  # it outlived every quantile


def test_a_run_of_a_time_when_nobody_watched_teaches_no_share(model):
    policy = load_q_network(model)
    past = [Run(job, 0, 4, 600.0, 100.0, 160.0) for job in range(1, 40)]
    memory = policy.decide(snapshot_of(1000.0, ended=past)).memory
    assert foretold(memory).asked.tolist() == list(PARTS)


class ModelListener:
    """Keeps the last request of a policy, and its prediction of each job."""

    def __init__(self, policy):
        self.policy, self.name, self.asked, self.told = policy, policy.name, None, {}

    def decide(self, snapshot, memory=None):
        decision = self.policy.decide(snapshot, memory)
        known = foretold(decision.memory)
        self.asked = known.asked
        self.told.update({int(line[0]): line[1:] for line in known.lines})
        return decision


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_the_head_node_and_the_simulator_foretell_and_learn_alike(model, seed):
    """Both learn from the same ends."""
    prepared = jobs_of_users(seed, 200)
    believed = prepared.workload(RequestedLimit())
    settings = SimulationSettings(capacity=prepared.capacity, goals=Goals(shares=0.0))
    listener = ModelListener(replace(load_q_network(model), goals=Goals(shares=0.0)))
    online = simulate_policy(prepared, believed, listener, settings)
    network = import_network(model)
    queue = settings.ordered_queue(believed, QueueOrder(network=network))
    cluster = settings.empty_cluster(believed)
    quantiles = by_prediction(believed, network, 0.1).quantiles
    while np.isfinite(event := next_event(cluster)):
        advance(cluster, event)
        if cluster.state[0].idle > 0 and anything_fits(cluster):
            bring_quantiles_up_to_now(cluster, quantiles)
        decide_scored(cluster, queue)
    assert online.start.tolist() == cluster.start.tolist()
    np.testing.assert_allclose(listener.asked, quantiles.asked_shares, atol=1e-6)
    assert np.abs(listener.asked - PARTS).max() > 0.01
    ids = prepared.jobs().job_id
    told = quantiles.predicted[[int(np.flatnonzero(ids == job)[0]) for job in listener.told]]
    np.testing.assert_allclose(list(listener.told.values()), told, rtol=2e-3)
    assert len(np.unique(told[:, 2])) > 20
