"""A model's third output, quantiles of run times: on the head node and in the simulator."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.errors import ModelSchemaMismatch
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.features.history.foretold_runs import ForetoldRuns
from slurm_rl_plugin.features.history.run_events import ARRIVAL_MEMORY
from slurm_rl_plugin.features.history.run_prediction import (
    KNOWN_FACTS,
    PREDICTED,
    PREDICTION_ENTRY,
    SPREAD_ENTRY,
    RunTimePrediction,
)
from slurm_rl_plugin.features.history.run_spread import (
    BOUNDS,
    PARTS,
    SHARES,
    fill_shares,
    nominal_shares,
    run_time_at,
)
from slurm_rl_plugin.learning.export.network import export_network, import_network
from slurm_rl_plugin.papers.backfilling_predictions_2015.estimates import by_prediction
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.simulator.kernel.cluster import IDLE, advance, next_event
from slurm_rl_plugin.simulator.kernel.dispatch import anything_fits
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder, decide_scored
from slurm_rl_plugin.simulator.schedules.policy_driver import simulate_policy
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.history import bring_up_to_now
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.functional.small_network import small_network
from tests.reference.loads import log_of, users_workload
from tests.unit.features.run_tables import USERS, Run, snapshot_of

RNG = np.random.default_rng(5)
PREDICTION = RunTimePrediction(
    weights=np.float64(np.float32(RNG.normal(0, 0.7, (PREDICTED, KNOWN_FACTS)))),
    spread=np.float64(np.float32(RNG.normal(0, 0.7, (len(BOUNDS), KNOWN_FACTS)))),
)


@pytest.fixture
def model(tmp_path):
    network = replace(small_network(sees_history=True), prediction=PREDICTION)
    export_network(network, tmp_path / "tells.onnx", {})
    return tmp_path / "tells.onnx"


def quantiles_by_hand(facts, asked):
    shares = np.empty((SHARES, facts.shape[1]))
    fill_shares(shares, PREDICTION.spread @ facts)
    return np.stack([run_time_at(shares, share) for share in asked], axis=1)


def test_the_graph_tells_what_the_package_computes(model):
    policy = load_q_network(model)
    rng = np.random.default_rng(6)
    for asked in (nominal_shares(), np.array([0.01, 0.02, 0.4, 0.98, 0.999])):
        facts = np.float64(np.float32(rng.normal(0, 0.5, (KNOWN_FACTS, 200))))

        class Told:
            pass

        Told.facts = facts
        found = policy.quantiles(Told, asked)
        np.testing.assert_allclose(found, quantiles_by_hand(facts, asked), rtol=2e-3)


def test_it_comes_back_from_the_file_and_scores_stay_the_same(model, tmp_path):
    read = import_network(model)
    np.testing.assert_array_equal(read.prediction.spread, PREDICTION.spread)
    without = replace(read, prediction=replace(PREDICTION, spread=None))
    export_network(without, tmp_path / "without.onnx", {})
    snapshot = snapshot_of(500.0, pending=[Run(1, 0, 4, 600.0, 400.0), Run(2, 1, 2, 60.0, 450.0)])
    tells, silent = load_q_network(model), load_q_network(tmp_path / "without.onnx")
    told = tells.decide(snapshot)
    np.testing.assert_array_equal(told.scores, silent.decide(snapshot).scores)
    assert silent.decide(snapshot).run_times is None
    assert told.run_times().shape == (2, len(PARTS))
    assert without.digest != read.digest


def test_a_running_job_is_foretold_once_and_its_end_teaches(model):
    policy = load_q_network(model)
    run = Run(1, 0, 4, 600.0, 100.0)
    waiting = policy.decide(snapshot_of(100.0, pending=[run]))
    running = policy.decide(snapshot_of(101.0, running=[run]), waiting.memory)
    again = policy.decide(snapshot_of(131.0, running=[run]), running.memory)
    known = ForetoldRuns.from_memory(running.memory[ARRIVAL_MEMORY:])[0]
    assert known.lines.shape == (1, 1 + len(PARTS))
    assert known.asked.tolist() == list(PARTS)
    later = ForetoldRuns.from_memory(again.memory[ARRIVAL_MEMORY:])[0]
    np.testing.assert_array_equal(later.lines, known.lines)
    ended = replace(run, end=10.0**7)
    learned = policy.decide(snapshot_of(10.0**7 + 1, ended=[ended]), again.memory)
    after = ForetoldRuns.from_memory(learned.memory[ARRIVAL_MEMORY:])[0]
    assert len(after.lines) == 0
    assert (after.asked > known.asked).all()  # it outlived every quantile


def test_a_run_of_a_time_when_nobody_watched_teaches_nothing(model):
    policy = load_q_network(model)
    past = [Run(job, 0, 4, 600.0, 100.0, 160.0) for job in range(1, 40)]
    memory = policy.decide(snapshot_of(1000.0, ended=past)).memory
    known = ForetoldRuns.from_memory(memory[ARRIVAL_MEMORY:])[0]
    assert known.asked.tolist() == list(PARTS)


class Listener:
    """Keeps the last memory of a policy."""

    def __init__(self, policy):
        self.policy, self.name, self.asked, self.told = policy, policy.name, None, {}

    def decide(self, snapshot, memory=None):
        decision = self.policy.decide(snapshot, memory)
        known = ForetoldRuns.from_memory(decision.memory[ARRIVAL_MEMORY:])[0]
        self.asked = known.asked
        self.told.update({int(line[0]): line[1:] for line in known.lines})
        return decision


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_the_head_node_and_the_simulator_foretell_and_learn_alike(model, seed):
    """Both learn from the same ends."""
    workload = users_workload(seed, 200, parallel=True, large=True)
    limit = workload.past.asked[workload.past.template]
    log = replace(
        log_of(workload, available=96, time_limit=limit), user=workload.past.user, users=USERS
    )
    prepared = prepare_log(log)
    believed = prepared.workload(RequestedLimit())
    settings = SimulationSettings(capacity=prepared.capacity)
    listener = Listener(load_q_network(model))
    online = simulate_policy(prepared, believed, listener, settings)
    network = import_network(model)
    queue = settings.ordered_queue(believed, QueueOrder(network=network))
    cluster = settings.empty_cluster(believed)
    history = by_prediction(believed, network, 0.1).history
    while np.isfinite(event := next_event(believed, cluster)):
        advance(believed, cluster, event, np.empty(0, dtype=np.int64))
        if cluster.counts[IDLE] > 0 and anything_fits(believed, cluster):
            bring_up_to_now(believed, cluster, history)
        decide_scored(believed, cluster, queue)
    assert online.start.tolist() == cluster.start.tolist()
    np.testing.assert_allclose(listener.asked, history.asked_shares, atol=1e-6)
    assert np.abs(listener.asked - PARTS).max() > 0.01
    ids = prepared.jobs().job_id
    told = history.told[[int(np.flatnonzero(ids == job)[0]) for job in listener.told]]
    np.testing.assert_allclose(list(listener.told.values()), told, rtol=2e-3)
    assert np.isnan(told).any()  # a large request that nobody had paid for
    assert np.isfinite(told).any()
    assert np.isfinite(told).any()


@pytest.mark.parametrize("text", ["", "[]", "null", "[[1.0]]"])
def test_a_malformed_spread_is_refused(tmp_path, text):
    path = tmp_path / "model.onnx"
    entries = {PREDICTION_ENTRY: PREDICTION.to_json(), SPREAD_ENTRY: text}
    export_network(small_network(sees_history=True), path, entries)
    with pytest.raises(ModelSchemaMismatch, match=r"no table of 15 x 23 numbers: retrain it"):
        load_q_network(path)
