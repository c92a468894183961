"""A model that predicts run times: what it is fed, what it remembers, which files are refused."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.errors import ModelSchemaMismatch
from slurm_rl_plugin.features.columns import site_job_features, site_queue_features
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.features.history import columns as history_columns
from slurm_rl_plugin.features.history.past_runs import PastRuns
from slurm_rl_plugin.features.history.run_events import ARRIVAL_MEMORY, recent_arrivals
from slurm_rl_plugin.features.history.run_history import LARGE_REQUEST, speaks_for
from slurm_rl_plugin.features.history.run_prediction import (
    KNOWN_FACTS,
    PREDICTED,
    PREDICTION_ENTRY,
    RunTimePrediction,
)
from slurm_rl_plugin.learning.export.network import export_network
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.simulator.schedules.policy_driver import simulate_policy
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_network
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.functional.small_network import small_network
from tests.reference.loads import log_of, random_workload, users_workload
from tests.unit.features.run_tables import USERS, ReadableHistory, Run, snapshot_of
from tests.unit.features.test_past_runs import assert_same, random_runs, snapshots_of

PREDICTION = RunTimePrediction(
    weights=np.random.default_rng(1).normal(0, 0.7, (PREDICTED, KNOWN_FACTS))
)


@pytest.fixture
def predicts(tmp_path):
    path = tmp_path / "predicts.onnx"
    export_network(small_network(sees_history=True), path, {PREDICTION_ENTRY: PREDICTION.to_json()})
    return load_q_network(path)


@pytest.fixture
def forgets(tmp_path):
    path = tmp_path / "forgets.onnx"
    export_network(small_network(sees_history=True), path, {})
    return load_q_network(path)


def some_queue(now=10_000.0, pending=40):
    rng = np.random.default_rng(3)
    runs = random_runs(rng, 100)
    ended = [run for run in runs if run.end <= now]
    running = [run for run in runs if run.start <= now < run.end]
    waiting = [replace(run, start=now - 5.0 * run.job_id) for run in runs[:pending]]
    return snapshot_of(now, running=running, ended=ended, pending=waiting)


def scores_by_hand(snapshot, past, prediction):
    estimate = RequestedLimit().estimate
    waiting, running = snapshot.pending.jobs, snapshot.running.jobs
    believed = estimate(waiting.time_limit, waiting.interactive)
    remaining = estimate(running.time_limit, running.interactive)
    queue = site_queue_features(snapshot, believed, remaining, recent_arrivals(snapshot)[1:])
    jobs = site_job_features(snapshot, believed, past, prediction)
    return small_network(sees_history=True).scores(queue, jobs)


def test_scores_are_those_of_the_features_with_history(predicts):
    snapshot = some_queue()
    decision = predicts.decide(snapshot)
    past = PastRuns().after(snapshot)
    expected = scores_by_hand(snapshot, past, PREDICTION)
    np.testing.assert_allclose(decision.scores, expected, atol=1e-4)
    without = scores_by_hand(snapshot, None, None)
    assert np.abs(without - expected).max() > 0.1


def test_a_model_without_a_prediction_remembers_no_runs_and_sees_zeros(forgets):
    snapshot = some_queue()
    decision = forgets.decide(snapshot)
    assert len(decision.memory) == ARRIVAL_MEMORY
    np.testing.assert_allclose(decision.scores, scores_by_hand(snapshot, None, None), atol=1e-4)


def test_runs_are_remembered_from_decision_to_decision(predicts):
    runs = random_runs(np.random.default_rng(4), 80)
    memory = None
    times = [5_000.0, 20_000.0, 60_000.0]
    for snapshot in snapshots_of(runs, times):
        memory = predicts.decide(snapshot, memory).memory
    past = PastRuns.from_memory(memory[ARRIVAL_MEMORY:])
    assert_same(past, ReadableHistory.of(runs, times[-1]))


@pytest.mark.parametrize("cut", [0, 1, 3, ARRIVAL_MEMORY, 60, -1])
def test_a_memory_of_another_shape_is_dropped(predicts, cut):
    snapshot = some_queue()
    first = predicts.decide(snapshot)
    other = predicts.decide(snapshot, first.memory[:cut])
    np.testing.assert_array_equal(other.memory, first.memory)
    np.testing.assert_array_equal(other.scores, first.scores)


def test_memories_of_models_with_and_without_a_prediction_are_told_apart(predicts, forgets):
    snapshot = some_queue()
    long, short = predicts.decide(snapshot), forgets.decide(snapshot)
    np.testing.assert_array_equal(predicts.decide(snapshot, short.memory).memory, long.memory)
    np.testing.assert_array_equal(forgets.decide(snapshot, long.memory).memory, short.memory)


def test_an_empty_queue_learns_too(predicts):
    snapshot = some_queue(pending=0)
    decision = predicts.decide(snapshot)
    assert len(decision.scores) == 0
    assert len(PastRuns.from_memory(decision.memory[ARRIVAL_MEMORY:]).users) > 0


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", "[[1.0]]", "null", '{"weights": 1}', "[[1, 2], [3]]",
     json.dumps(np.zeros((PREDICTED, KNOWN_FACTS - 1)).tolist()),
     json.dumps(np.full((PREDICTED, KNOWN_FACTS), math.nan).tolist()),
     json.dumps(np.full((PREDICTED, KNOWN_FACTS), "a").tolist())],
)  # fmt: skip
def test_a_malformed_prediction_is_refused_in_one_sentence(tmp_path, text):
    path = tmp_path / "model.onnx"
    export_network(small_network(sees_history=True), path, {PREDICTION_ENTRY: text})
    with pytest.raises(ModelSchemaMismatch, match=r"model\.onnx .*prediction.*: retrain it\.$"):
        load_q_network(path)


class Listener:
    """Keeps every memory of a policy."""

    def __init__(self, policy):
        self.policy, self.name, self.memories, self.times = policy, policy.name, [], []

    def decide(self, snapshot, memory=None):
        decision = self.policy.decide(snapshot, memory)
        self.memories.append(decision.memory)
        self.times.append(snapshot.now)
        return decision


@pytest.mark.parametrize("seed", [1, 2])
def test_a_simulated_cluster_tells_the_policy_all_that_happened(predicts, seed):
    workload = random_workload(seed, jobs=150, parallel=True)
    log = log_of(workload, time_limit=np.where(workload.run_time > 99, 900.0, np.nan))
    user = np.random.default_rng(seed).integers(0, len(USERS), len(log))
    prepared = prepare_log(replace(log, user=user, users=USERS))
    listener = Listener(predicts)
    settings = SimulationSettings(capacity=prepared.capacity)
    schedule = simulate_policy(prepared, prepared.workload(None), listener, settings)
    jobs = prepared.jobs()
    columns = zip(
        jobs.job_id.tolist(),
        jobs.user.tolist(),
        jobs.processors.tolist(),
        jobs.time_limit.tolist(),
        schedule.start.tolist(),
        (schedule.start + prepared.log.run_time).tolist(),
        strict=True,
    )
    runs = [Run(*values) for values in columns]
    for place in (10, len(listener.times) // 2, -1):
        past = PastRuns.from_memory(listener.memories[place][ARRIVAL_MEMORY:])
        now = listener.times[place]
        assert_same(past, ReadableHistory.of([run for run in runs if run.start < now], now))


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_the_head_node_and_the_simulator_agree_on_what_large_requests_have_paid_for(
    predicts, seed, monkeypatch
):
    workload = users_workload(seed, 150, parallel=True, large=True)
    limit = workload.past.asked[workload.past.template]
    log = replace(
        log_of(workload, available=96, time_limit=limit), user=workload.past.user, users=USERS
    )
    prepared = prepare_log(log)
    believed = prepared.workload(RequestedLimit())
    met = set()

    def watched(spent, time_limit, processors):
        speaks = speaks_for(spent, time_limit, processors)
        large = np.asarray(time_limit * processors) >= LARGE_REQUEST
        met.update(zip(large.tolist(), speaks.tolist(), strict=True))
        return speaks

    settings = SimulationSettings(capacity=prepared.capacity)
    monkeypatch.setattr(history_columns, "speaks_for", watched)
    online = simulate_policy(prepared, believed, predicts, settings)
    network = replace(small_network(sees_history=True), prediction=PREDICTION)
    compiled = simulate_network(believed, network, settings)
    assert online.start.tolist() == compiled.start.tolist()
    assert met == {(False, True), (True, False), (True, True)}
    monkeypatch.setattr(history_columns, "speaks_for", lambda spent, *_: spent >= 0.0)
    poisoned = simulate_policy(prepared, believed, predicts, settings)
    assert poisoned.start.tolist() != compiled.start.tolist()  # else it would prove nothing
