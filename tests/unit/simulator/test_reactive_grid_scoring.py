"""The papers' 11 inputs: the compiled loop computes what the head node does, and scores by it."""

import numpy as np
import pytest

from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.features.reactive_grid import (
    REACTIVE_GRID,
    REACTIVE_GRID_2011,
    REACTIVE_GRID_WAIT,
    account_places,
    grid_job_columns,
    grid_job_columns_with_wait,
    grid_queue_columns,
    grid_queue_columns_2011,
)
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.policies.network import network_from_parameters, parameter_count
from slurm_rl_plugin.simulator.kernel.cluster import (
    advance,
    empty_cluster,
)
from slurm_rl_plugin.simulator.kernel.cluster import next_event as next_event_of
from slurm_rl_plugin.simulator.kernel.dispatch import EASY, dispatch_in_order
from slurm_rl_plugin.simulator.scoring.network import compile_network, score_pending
from slurm_rl_plugin.simulator.scoring.queue_features import grid_code, grid_job_table, grid_state
from tests.reference.loads import random_workload, snapshot_of
from tests.reference.readable_simulator import Moment
from tests.reference.test_network_against_readable_simulator import probe

CAPACITY = 12
COLUMNS = {
    REACTIVE_GRID: grid_queue_columns,
    REACTIVE_GRID_2011: grid_queue_columns_2011,
    REACTIVE_GRID_WAIT: grid_queue_columns,
}
JOB_COLUMNS = {REACTIVE_GRID_WAIT: grid_job_columns_with_wait}
SCHEMAS = pytest.mark.parametrize("schema", COLUMNS, ids=lambda schema: schema.name)


def network(schema, seed=1, hidden=6):
    rng = np.random.default_rng(seed)
    jobs = len(schema.jobs)
    scaler = (np.full(8, 0.5), np.full(8, 0.5), np.full(jobs, 0.5), np.full(jobs, 0.25))
    parameters = rng.normal(0, 1, parameter_count(schema, hidden))
    return network_from_parameters(
        schema, parameters, hidden=hidden, scaler=scaler, activation="sigmoid"
    )


def moments(workload, capacity=CAPACITY, half_life=5000.0):
    """(cluster, snapshot) at every event of a first-come, first-served schedule."""
    cluster = empty_cluster(workload, capacity, half_life)
    nothing = np.empty(0, dtype=np.int64)
    while not np.isinf(event := next_event_of(workload.jobs, cluster)):
        advance(workload.jobs, cluster, event, nothing)
        pending = cluster.pending[: cluster.state[0].pending].tolist()
        running = np.sort(cluster.running.end_job[: cluster.state[0].running]).tolist()
        moment = Moment(float(cluster.state[0].now), pending, running, cluster.start.tolist())
        yield cluster, snapshot_of(workload, moment, capacity, half_life), pending, running
        order = np.array(pending, dtype=np.int64)
        dispatch_in_order(workload.jobs, cluster, order, len(order), EASY, 0)


@SCHEMAS
@pytest.mark.parametrize("accounts", [2, 6])
def test_compiled_features_equal_those_of_the_head_node(schema, accounts):
    workload = random_workload(3, jobs=120, parallel=True, accounts=accounts)
    places, table = account_places(workload.shares), grid_job_table(workload)
    seen = []
    for cluster, snapshot, pending, running in moments(workload):
        estimate, running_estimate = workload.estimate[pending], workload.estimate[running]
        expected = COLUMNS[schema](snapshot, estimate, running_estimate)
        state = grid_state(workload, cluster, places, grid_code(schema))
        np.testing.assert_allclose(state, expected, atol=1e-6)
        np.testing.assert_allclose(table[pending], grid_job_columns(snapshot, estimate), atol=1e-6)
        seen.append(state)
    varied = np.ptp(np.array(seen), axis=0) > 0.01
    assert varied.sum() >= (6 if accounts == 2 else 8)  # two accounts leave two places empty


@SCHEMAS
def test_the_compiled_loop_scores_as_the_network_does(schema):
    workload, scorer = random_workload(4, jobs=100, parallel=False), network(schema)
    in_loop = compile_network(scorer, workload)
    scores, jobs = np.empty(101), np.empty(101, dtype=np.int64)
    most = 0
    for cluster, snapshot, pending, running in moments(workload, capacity=4):
        estimate = workload.estimate[pending]
        queue = COLUMNS[schema](snapshot, estimate, workload.estimate[running])
        expected = scorer.scores(
            queue, JOB_COLUMNS.get(schema, grid_job_columns)(snapshot, estimate)
        )
        score_pending(workload, cluster, in_loop, scores, jobs)
        np.testing.assert_allclose(scores[: len(pending)], expected, atol=1e-5)
        assert jobs[: len(pending)].tolist() == pending
        most = max(most, len(pending))
    assert most > 5


MONTH = 30 * 86_400.0
NO_RANK = np.empty(0, dtype=np.int64)
#: The first job waits two hours and starts; the others come a month later.
SUBMIT = np.array([0.0, MONTH + 7200.0 - 2700.0, MONTH + 7200.0 - 1000.0])


def load(submit):
    return random_workload(1, len(submit), parallel=False).having(submit=np.array(submit))


def overdue(workload, cluster, network):
    """Job -> how far it is overdue now."""
    count = int(cluster.state[0].pending)
    scores, jobs = np.empty(count), np.empty(count, dtype=np.int64)
    score_pending(workload, cluster, network, scores, jobs)
    return dict(zip(jobs.tolist(), scores.tolist(), strict=True))


def compiled(workload, **goals):
    network = probe(job_feature=SITE.jobs.index("overdue"))
    return compile_network(network, workload, Goals(**goals))


def test_a_copy_remembers_waits_of_its_own():
    workload = load(SUBMIT)
    network, cluster = compiled(workload), empty_cluster(workload, 1)
    advance(workload.jobs, cluster, 7200.0, NO_RANK)
    copy = network.copy()
    overdue(workload, cluster, copy)
    assert copy.longest.tolist() == [7200.0, 7200.0]
    assert network.longest.tolist() == [0.0, -np.inf]
