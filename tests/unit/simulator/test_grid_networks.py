"""Networks of the grid papers in the compiled loop: they score as on a head node."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.features.reactive_grid import (
    REACTIVE_GRID,
    REACTIVE_GRID_2011,
    grid_columns,
)
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.onnx_file import export_echo_state
from slurm_rl_plugin.learning.rollout import (
    MOST_ACTIONS,
    best_action_values,
    collect_experience,
)
from slurm_rl_plugin.policies.echo_state import (
    ReservoirSettings,
    random_echo_state,
)
from slurm_rl_plugin.policies.network import (
    fixed_scaler,
    network_from_parameters,
    parameter_count,
)
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.simulator.kernel.cluster import (
    advance,
    empty_cluster,
    next_event,
)
from slurm_rl_plugin.simulator.kernel.dispatch import EASY, dispatch_by_score, dispatch_in_order
from slurm_rl_plugin.simulator.schedules.policy_driver import simulate_policy
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_network,
)
from slurm_rl_plugin.simulator.scoring.echo_state import (
    compile_echo_state,
    queue_state,
    score_pending_from_memory,
    without_memory,
)
from slurm_rl_plugin.simulator.scoring.network import compile_network, score_pending
from slurm_rl_plugin.simulator.scoring.queue_features import grid_job_table
from slurm_rl_plugin.simulator.workloads.generators import egee_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.reference.loads import random_workload, snapshot_of
from tests.reference.readable_simulator import Moment

SETTINGS = SimulationSettings(capacity=5)
SCHEMAS = pytest.mark.parametrize(
    "schema", [REACTIVE_GRID, REACTIVE_GRID_2011], ids=lambda schema: schema.name
)


def network(seed=1, schema=REACTIVE_GRID_2011, leak=0.5):
    rng = np.random.default_rng(seed)
    jobs = len(schema.jobs)
    scaler = (np.full(8, 0.4), np.full(8, 0.5), np.full(jobs, 0.6), np.full(jobs, 0.7))
    drawn = random_echo_state(schema, ReservoirSettings(size=40, leak=leak), scaler, rng)
    return replace(
        drawn,
        readout=np.where(drawn.connected, rng.normal(0, 4, 40), 0.0),
        queue_linear=rng.normal(0, 1, 8),
        job_linear=rng.normal(0, 1, jobs),
        output_bias=0.25,
    )


def prepared(seed=1, jobs=300):
    log = egee_log(np.random.default_rng(seed), processors=5, jobs=jobs, load=0.8)
    return prepare_log(replace(log, time_limit=log.run_time))


@SCHEMAS
@pytest.mark.parametrize("parallel", [False, True])
def test_scores_and_memory_of_every_decision_are_the_networks_own(schema, parallel):
    here = network(schema=schema)
    workload = random_workload(3, jobs=120, capacity=5, parallel=parallel)
    compiled = compile_echo_state(here, workload)
    cluster = empty_cluster(workload, 5)
    expected = here.empty_memory()
    scores, jobs = np.empty(121), np.empty(121, dtype=np.int64)
    decisions = 0
    while not np.isinf(event := next_event(cluster)):
        advance(cluster, event)
        count = int(cluster.state[0].pending)
        if cluster.state[0].idle == 0 or count == 0:
            continue
        queue = queue_state(cluster, compiled)
        waiting = cluster.pending[:count].copy()
        score_pending_from_memory(cluster, compiled, True, scores, jobs)
        np.testing.assert_allclose(compiled.memory, expected, rtol=0, atol=1e-9)
        table = grid_job_table(workload)[waiting]
        wanted = here.scores(queue, table, expected)[0]
        np.testing.assert_array_equal(jobs[:count], waiting)
        np.testing.assert_allclose(scores[:count], wanted, rtol=0, atol=1e-9)
        before = cluster.state[0].started
        dispatch_by_score(cluster, scores, jobs, 0, 0)
        for job in cluster.started[before : cluster.state[0].started]:
            row = grid_job_table(workload)[[job]]
            expected = here.scores(queue, row, expected)[1][0]
        decisions += count > 1
    assert decisions > 20


def test_the_exported_model_on_the_head_node_gives_the_same_schedule(tmp_path):
    load, here, path = prepared(), network(4), tmp_path / "model.onnx"
    export_echo_state(here, path, {"algorithm": "fitted-q"})
    workload, policy = load.workload(None), load_q_network(path)
    driven = simulate_policy(load, workload, policy, SETTINGS)
    np.testing.assert_array_equal(driven.start, simulate_network(workload, here, SETTINGS).start)


def feed_forward(schema, seed=1, hidden=6):
    rng = np.random.default_rng(seed)
    jobs = len(schema.jobs)
    scaler = (np.full(8, 0.5), np.full(8, 0.5), np.full(jobs, 0.5), np.full(jobs, 0.25))
    parameters = rng.normal(0, 1, parameter_count(schema, hidden))
    return network_from_parameters(
        schema, parameters, hidden=hidden, scaler=scaler, activation="sigmoid"
    )


def test_a_feed_forward_network_is_one_without_links():
    workload, plain = prepared(2).workload(None), feed_forward(REACTIVE_GRID_2011)
    there = simulate_network(workload, without_memory(plain), SETTINGS)
    np.testing.assert_array_equal(there.start, simulate_network(workload, plain, SETTINGS).start)
    with pytest.raises(SimulationError, match="sigmoid"):
        without_memory(replace(plain, activation="relu"))


def test_a_network_of_another_schema_is_refused():
    drawn = random_echo_state(SITE, ReservoirSettings(size=5), fixed_scaler(SITE), _rng())
    with pytest.raises(SimulationError, match="reactive-grid"):
        simulate_network(prepared().workload(None), drawn, SETTINGS)


def _rng():
    return np.random.default_rng(7)


def test_a_rollout_without_exploration_is_the_simulation():
    # whole loads of single starts: one decision is one start, as nothing happens at one instant
    workload, here = prepared(3).workload(None), network(8)
    found = collect_experience(workload, here, SETTINGS, epsilon=0.0, rng=_rng())
    simulated = simulate_network(workload, here, SETTINGS).start
    assert sorted(found.job) == list(range(300))
    assert (np.diff(simulated[found.job]) >= 0).all()


@pytest.mark.parametrize("epsilon", [None, 0.0, 0.5])
def test_a_rollout_keeps_states_actions_and_rewards_of_every_start(epsilon):
    workload, here = prepared(3).workload(None), network(8)
    found = collect_experience(workload, here, SETTINGS, epsilon=epsilon, rng=_rng())
    memory = here.empty_memory()
    values = best_action_values(compile_echo_state(here, workload), found)
    for start in range(300):
        actions = found.actions[found.first_action[start] : found.first_action[start + 1]]
        table = grid_job_table(workload)[actions]
        scores, states = here.scores(found.queue[start], table, memory)
        assert found.job[start] in actions or len(actions) == MOST_ACTIONS
        chosen = int(np.flatnonzero(actions == found.job[start])[0])
        np.testing.assert_allclose(found.state[start], states[chosen], rtol=0, atol=1e-9)
        assert values[start] == pytest.approx(scores.max(), abs=1e-9)
        assert epsilon != 0.0 or scores[chosen] == pytest.approx(scores.max(), abs=1e-9)
        assert 0.0 <= found.lost[start] < 1.0
        assert (found.lost[start] > 0.0) == (len(actions) > 1)
        memory = found.state[start]
    assert 0.0 < found.responsiveness.min() <= found.responsiveness.max() <= 1.0
    assert 0.0 <= found.fairness.min() <= found.fairness.max() <= 1.0


def moments(workload, capacity, half_life=5000.0):
    """(cluster, snapshot) at every event of a first-come, first-served schedule."""
    cluster = empty_cluster(workload, capacity, half_life)
    while not np.isinf(event := next_event(cluster)):
        advance(cluster, event)
        pending = cluster.pending[: cluster.state[0].pending].tolist()
        running = np.sort(cluster.running.end_job[: cluster.state[0].running]).tolist()
        moment = Moment(float(cluster.state[0].now), pending, running, cluster.start.tolist())
        yield cluster, snapshot_of(workload, moment, capacity, half_life), pending, running
        order = np.array(pending, dtype=np.int64)
        dispatch_in_order(cluster, order, len(order), EASY, 0)


@SCHEMAS
def test_the_compiled_loop_scores_as_the_network_does(schema):
    workload = random_workload(4, jobs=100, parallel=False, accounts=6)
    scorer = feed_forward(schema)
    in_loop = compile_network(scorer, workload)
    scores, jobs = np.empty(101), np.empty(101, dtype=np.int64)
    most = 0
    for cluster, snapshot, pending, running in moments(workload, capacity=4):
        estimates = workload.estimate[pending], workload.estimate[running]
        expected = scorer.scores(*grid_columns(schema, snapshot, *estimates))
        score_pending(cluster, in_loop, scores, jobs)
        np.testing.assert_allclose(scores[: len(pending)], expected, atol=1e-5)
        assert jobs[: len(pending)].tolist() == pending
        most = max(most, len(pending))
    assert most > 5
