"""The network in the compiled loop sees and decides what the head node would."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.features.columns import site_job_features, site_queue_features
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.policies.network import (
    QNetwork,
    network_from_parameters,
    parameter_count,
)
from slurm_rl_plugin.simulator.kernel.cluster import Cluster, advance, empty_cluster, next_event
from slurm_rl_plugin.simulator.kernel.dispatch import EASY, dispatch_in_order
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_network,
)
from slurm_rl_plugin.simulator.scoring.network import (
    CompiledNetwork,
    compile_network,
    score_pending,
)
from tests.reference.loads import arrived_by, jobs_of, longest_by, random_workload, snapshot_of
from tests.reference.readable_simulator import Moment, Scorer, simulate

CAPACITY = 12
HIDDEN = 5
QUEUE, JOBS = len(SITE.queue), len(SITE.jobs)
#: Job features that need no past runs.
SEEN = JOBS - len(SITE.history_jobs)
#: A site that wants something of everything.
GOALS = Goals(shares=1.5, short_jobs=0.4, wide_jobs=2.0, longest_wait=3.0, interactive=1.75)


def random_network(seed: int, activation: str = "relu") -> QNetwork:
    """Large weights, a scaler that is not 0 and 1, and a bias: every part shows in the score.

    It looks at no past runs; test_history_against_readable_simulator has networks that do.
    """
    rng = np.random.default_rng(seed)
    scaler = (
        rng.uniform(0, 1, QUEUE),
        rng.uniform(0.3, 2, QUEUE),
        rng.uniform(0, 1, JOBS),
        rng.uniform(0.3, 2, JOBS),
    )
    network = network_from_parameters(
        SITE,
        rng.normal(0, 1, parameter_count(SITE, HIDDEN)),
        hidden=HIDDEN,
        scaler=scaler,
        activation=activation,
    )
    network.job_weights[SEEN:] = 0.0
    network.linear[SEEN:] = 0.0
    return replace(network, output_bias=0.75)


def network_of_waits() -> QNetwork:
    """A network that looks at jobs alone, above all at how long they wait; at no past runs."""
    network = random_network(3)
    network.output[:] = 0.0
    network.linear[SITE.jobs.index("overdue")] = 20.0
    return network


def features_at(
    workload: Workload,
    moment: Moment,
    half_life: float,
    goals: Goals = AS_TRAINED,
    capacity: int = CAPACITY,
) -> tuple[np.ndarray, np.ndarray]:
    """What the head node computes from a snapshot of this moment; nothing of past runs."""
    snapshot = snapshot_of(workload, moment, capacity, half_life)
    estimate = workload.estimate[moment.pending]
    running_estimate = workload.estimate[moment.running]
    arrived = arrived_by(workload, moment.now)
    queue = site_queue_features(snapshot, estimate, running_estimate, arrived)
    longest = longest_by(workload, moment)
    jobs = site_job_features(snapshot, estimate, goals=goals, longest=longest)
    jobs[:, SEEN:] = 0.0
    return queue, jobs


def head_node(workload: Workload, network: QNetwork) -> Scorer:
    """Scores by the head node's features; jobs with equal features get one score.

    Without that, a matrix product may round equal rows differently and break their tie.
    """

    def scores(_jobs: object, moment: Moment) -> list[float]:
        queue, jobs = features_at(workload, moment, np.inf)
        distinct, place = np.unique(jobs, axis=0, return_inverse=True)
        return network.scores(queue, distinct)[place.reshape(-1)].tolist()

    return scores


@pytest.mark.parametrize("parallel", [False, True], ids=["sequential", "parallel"])
@pytest.mark.parametrize("backfilling", ["none", "easy"])
def test_kernel_holds_as_many_processors_as_the_head_node_would(
    backfilling: str, parallel: bool
) -> None:
    workload = random_workload(12, jobs=100, parallel=parallel)
    weights = np.random.default_rng(5).normal(0, 2, QUEUE)
    network = replace(random_network(3), reserve_weights=weights, reserve_bias=8.0)
    asked = []

    def held(_jobs: object, moment: Moment) -> int:
        queue, _ = features_at(workload, moment, np.inf)
        asked.append(round(min(max(network.reserve(queue), 0.0), CAPACITY)))
        return asked[-1]

    order = head_node(workload, network)
    easy = backfilling == "easy"
    expected = simulate(jobs_of(workload), CAPACITY, order, easy=easy, reserve=held)
    how = SimulationSettings(capacity=CAPACITY, backfilling=backfilling, half_life=np.inf)
    assert simulate_network(workload, network, how).start.tolist() == expected
    greedy = replace(network, reserve_weights=None, reserve_bias=0.0)
    assert simulate_network(workload, greedy, how).start.tolist() != expected
    assert len(set(asked)) > 3  # a reserve that never changed would prove little


def probe(queue_feature: int | None = None, job_feature: int | None = None) -> QNetwork:
    """A network whose score is one raw feature."""
    network = QNetwork(
        schema=SITE,
        queue_mean=np.zeros(QUEUE),
        queue_scale=np.ones(QUEUE),
        job_mean=np.zeros(JOBS),
        job_scale=np.ones(JOBS),
        queue_weights=np.zeros((QUEUE, 1)),
        job_weights=np.zeros((JOBS, 1)),
        bias=np.array([10.0]),  # keeps the rectifier linear; taken off again below
        output=np.array([1.0]),
        linear=np.zeros(JOBS),
        output_bias=-10.0,
    )
    if queue_feature is not None:
        network.queue_weights[queue_feature, 0] = 1.0
    if job_feature is not None:
        network.linear[job_feature] = 1.0
    return network


def kernel_scores(workload: Workload, cluster: Cluster, network: CompiledNetwork) -> np.ndarray:
    count = int(cluster.state[0].pending)
    scores, jobs = np.empty(count), np.empty(count, dtype=np.int64)
    score_pending(cluster, network, scores, jobs)
    by_job = np.argsort(jobs)
    return scores[by_job]


@pytest.mark.parametrize("goals", [AS_TRAINED, GOALS], ids=["as trained", "goals"])
@pytest.mark.parametrize("half_life", [np.inf, 1000.0])
def test_every_feature_is_equal_in_kernel_and_on_the_head_node(
    half_life: float, goals: Goals
) -> None:
    workload = random_workload(5, jobs=80, parallel=True)
    cluster = empty_cluster(workload, CAPACITY, half_life)
    # each goes along with the simulation: it has to know the longest wait before
    of_queue, of_jobs = (
        {name: compile_network(probe(**{feature: index}), workload, goals) for index, name in names}
        for feature, names in (
            ("queue_feature", enumerate(SITE.queue)),
            ("job_feature", enumerate(SITE.jobs[:SEEN])),
        )
    )
    compared, seen_queue, seen_jobs = 0, [], []
    while np.isfinite(event := next_event(cluster)):
        advance(cluster, event)
        now = float(cluster.state[0].now)
        pending = sorted(cluster.pending[: cluster.state[0].pending].tolist())
        running = sorted(cluster.running.end_job[: cluster.state[0].running].tolist())
        if pending:
            moment = Moment(now, pending, running, cluster.start.tolist())
            queue, jobs = features_at(workload, moment, half_life, goals)
            for index, (name, network) in enumerate(of_queue.items()):
                there = kernel_scores(workload, cluster, network)
                np.testing.assert_allclose(there, queue[index], rtol=0, atol=1e-6, err_msg=name)
            for index, (name, network) in enumerate(of_jobs.items()):
                there = kernel_scores(workload, cluster, network)
                np.testing.assert_allclose(there, jobs[:, index], rtol=2e-7, atol=0, err_msg=name)
            compared += len(pending)
            seen_queue.append(queue)
            seen_jobs.append(jobs)
        order = cluster.pending[: cluster.state[0].pending]
        dispatch_in_order(cluster, order, len(order), EASY, 0)
    assert compared > 100
    # a feature that never changes would be compared in vain
    assert (np.ptp(np.array(seen_queue), axis=0) > 1e-3).all()
    varied = np.ptp(np.concatenate(seen_jobs)[:, :SEEN], axis=0) > 0.1
    of_goals = np.isin(SITE.jobs[:SEEN], ("interactive_points", "share_points"))
    assert (varied == ~(of_goals & (goals == AS_TRAINED))).all()


def test_a_network_of_another_schema_is_not_simulated() -> None:
    network = replace(random_network(1), schema=replace(SITE, version=SITE.version + 1))
    with pytest.raises(SimulationError, match="schema"):
        compile_network(network, random_workload(1, jobs=5, parallel=False))
