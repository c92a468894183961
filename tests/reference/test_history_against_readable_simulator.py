"""Networks that look at past runs decide as one that is told the whole past at every decision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.features.history.run_history import HISTORY
from slurm_rl_plugin.features.history.run_prediction import (
    KNOWN_FACTS,
    PREDICTED,
    RunTimePrediction,
)
from slurm_rl_plugin.policies.network import ACTIVATIONS, QNetwork
from slurm_rl_plugin.simulator.kernel.cluster import (
    PENDING,
    RUNNING,
    advance,
    empty_cluster,
)
from slurm_rl_plugin.simulator.kernel.dispatch import EASY, dispatch_in_order
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.kernel.workload_history import NO_PAST
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.partitions import simulate_in_partitions
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    next_event,
    simulate_network,
)
from slurm_rl_plugin.simulator.scoring.compiled_network import compile_network
from slurm_rl_plugin.simulator.scoring.network import score_pending
from tests.reference.loads import jobs_of, requests_of, users_workload
from tests.reference.readable_past_runs import LARGE, Row, Rows, history_columns, rows_at
from tests.reference.readable_simulator import Moment, Scorer, simulate
from tests.reference.test_network_against_readable_simulator import (
    CAPACITY,
    JOBS,
    SEEN,
    features_at,
    probe,
    random_network,
)


def random_prediction(seed: int) -> RunTimePrediction:
    """Weights that make probabilities from near 0 to near 1."""
    rng = np.random.default_rng(seed)
    return RunTimePrediction(weights=rng.normal(0, 1.5, (PREDICTED, KNOWN_FACTS)))


def predicting_network(seed: int, activation: str = "relu") -> QNetwork:
    """A random network in whose scores the past weighs more than all else."""
    rng = np.random.default_rng(seed + 50)
    network = random_network(seed, activation)
    network.job_weights[SEEN:] = rng.normal(0, 4, network.job_weights[SEEN:].shape)
    network.linear[SEEN:] = rng.normal(0, 4, JOBS - SEEN)
    return replace(network, prediction=random_prediction(seed))


def capacity_of(workload: Workload) -> int:
    """Large requests are of jobs eight times as wide."""
    return CAPACITY if workload.processors.max() <= CAPACITY else 8 * CAPACITY


def features_with_past(
    workload: Workload, moment: Moment, network: QNetwork, known: Rows | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The features of a moment, all that is known of past runs told anew."""
    queue, seen = features_at(workload, moment, np.inf, capacity_of(workload))
    assert network.prediction is not None
    weights = network.prediction.weights.tolist()
    run_time = workload.run_time.tolist()
    past = history_columns(requests_of(workload), run_time, moment, weights, known)
    return queue, np.column_stack([seen[:, :SEEN], np.array(past).reshape(-1, JOBS - SEEN)])


def readable_scores(workload: Workload, network: QNetwork, known: Rows | None = None) -> Scorer:
    """Jobs with equal features get one score, as in `head_node`."""

    def scores(_jobs: object, moment: Moment) -> list[float]:
        queue, jobs = features_with_past(workload, moment, network, known)
        distinct, place = np.unique(jobs, axis=0, return_inverse=True)
        return network.scores(queue, distinct)[place.reshape(-1)].tolist()

    return scores


def random_rows(workload: Workload, seed: int) -> Rows:
    """Rows of the site, of user 1 and of half of his templates, as another window left them."""
    rng = np.random.default_rng(seed)

    def row() -> Row:
        shares = rng.uniform(0, 1, (3, 2)).tolist()
        lengths = rng.uniform(1, 9000, 2).tolist()
        return Row(
            tuple(map(tuple, shares)), tuple(rng.uniform(1, 4, 2)), *lengths, rng.uniform(0.001, 1)
        )

    paid = replace(row(), spent=LARGE)

    his = np.unique(workload.past.template[workload.past.user == 1])
    return Rows(row(), {1: paid}, {int(each): row() for each in his[::2]})


def with_rows(workload: Workload, rows: Rows) -> Workload:
    """The workload with these rows known before its first job."""
    past = workload.past.copy()
    past.site[:] = rows.site.numbers()
    for table, known, here in (
        (past.users, past.user_known, rows.users),
        (past.templates, past.template_known, rows.templates),
    ):
        for number, each in here.items():
            table[number], known[number] = each.numbers(), True
    return workload._replace(past=past)


@pytest.mark.parametrize("parallel", [False, True], ids=["sequential", "parallel"])
@pytest.mark.parametrize("cycle", [0.0, 45.0])
@pytest.mark.parametrize("backfilling", ["none", "easy"])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_kernel_orders_by_past_runs_as_the_readable_simulator(
    seed: int, backfilling: str, cycle: float, parallel: bool
) -> None:
    workload = users_workload(seed, parallel=parallel)
    known = random_rows(workload, seed) if seed % 2 else None
    if known is not None:
        workload = with_rows(workload, known)
    network = predicting_network(seed, ACTIVATIONS[seed % 2])
    expected = simulate(
        jobs_of(workload),
        CAPACITY,
        readable_scores(workload, network, known),
        easy=backfilling == "easy",
        cycle=cycle,
    )
    how = SimulationSettings(
        capacity=CAPACITY, backfilling=backfilling, cycle=cycle, half_life=np.inf
    )
    assert simulate_network(workload, network, how).start.tolist() == expected
    whole = [CAPACITY, CAPACITY]  # the second partition has no jobs
    nowhere = np.zeros(len(workload.submit), dtype=np.int64)
    order = QueueOrder(network=network)
    parted = simulate_in_partitions(workload, nowhere, whole, order, how)
    assert parted.start.tolist() == expected
    forgetful = random_network(seed)
    assert simulate_network(workload, forgetful, how).start.tolist() != expected


def kinds_met(workload: Workload, moment: Moment, known: Rows | None = None) -> set[str]:
    """Of which kinds the pending jobs are, by whether past runs speak for them."""
    requests, run_time = requests_of(workload), workload.run_time.tolist()
    rows = rows_at(requests, moment.start, run_time, moment.now, known)
    kinds = set()
    for job in moment.pending:
        asks = requests[job].processors * requests[job].time_limit
        size = "small" if asks < LARGE else "just large" if asks == LARGE else "large"
        kinds.add(f"{size}, {'paid' if rows.speak_for(requests[job]) else 'not paid'}")
    return kinds


#: Every kind there is: past runs speak for small requests whatever they have cost.
KINDS = {"small, paid"} | {
    f"{size}, {paid}" for size in ("just large", "large") for paid in ("paid", "not paid")
}


@pytest.mark.parametrize("backfilling", ["none", "easy"])
def test_kernel_tells_of_large_requests_what_was_paid_for_as_the_readable_simulator(
    backfilling: str,
) -> None:
    met = set()
    for seed in (1, 2, 3):
        workload = users_workload(seed, 140, parallel=True, large=True)
        network = predicting_network(seed, "sigmoid")
        scores = readable_scores(workload, network)

        def watched(
            jobs: object, moment: Moment, workload: Workload = workload, scores: Scorer = scores
        ) -> list[float]:
            met.update(kinds_met(workload, moment))
            return scores(jobs, moment)

        expected = simulate(
            jobs_of(workload), capacity_of(workload), watched, easy=backfilling == "easy"
        )
        how = SimulationSettings(
            capacity=capacity_of(workload), backfilling=backfilling, half_life=np.inf
        )
        assert simulate_network(workload, network, how).start.tolist() == expected
    assert met == KINDS


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("seed", [5, 7])
def test_every_history_feature_is_that_of_the_readable_simulator(seed: int, large: bool) -> None:
    workload = users_workload(seed, jobs=150, parallel=True, large=large)
    rows = random_rows(workload, seed)
    workload = with_rows(workload, rows)
    networks = [
        replace(probe(job_feature=index), prediction=random_prediction(seed))
        for index in range(SEEN, JOBS)
    ]
    # one of each goes along with the simulation, as in a run; others are told all at once
    going = [compile_network(network, workload) for network in networks]
    cluster = empty_cluster(workload, capacity_of(workload))
    no_rank, seen, met = np.empty(0, dtype=np.int64), [], set()
    scores, jobs = np.empty(151), np.empty(151, dtype=np.int64)
    decision = 0
    while np.isfinite(event := next_event(workload, cluster)):
        advance(workload, cluster, event, no_rank)
        count = int(cluster.counts[PENDING])
        decision += 1
        if count and decision % 3 == 0:
            pending = sorted(cluster.pending[:count].tolist())
            running = sorted(cluster.end_job[: cluster.counts[RUNNING]].tolist())
            moment = Moment(event, pending, running, cluster.start.tolist())
            _, expected = features_with_past(workload, moment, networks[0], rows)
            met |= kinds_met(workload, moment, rows)
            seen.append(expected[:, SEEN:])
            for index, network in enumerate(networks):
                for compiled in (going[index], compile_network(network, workload)):
                    score_pending(workload, cluster, compiled, scores, jobs)
                    there = scores[:count][np.argsort(jobs[:count])]
                    np.testing.assert_allclose(there, seen[-1][:, index], rtol=0, atol=1e-9)
        order = cluster.pending[: cluster.counts[PENDING]]
        dispatch_in_order(workload, cluster, order[::-1].copy(), len(order), EASY, 0)
    assert sum(map(len, seen)) > 500
    assert met == (KINDS if large else {"small, paid"})
    # a feature that never changes would be compared in vain
    assert (np.ptp(np.concatenate(seen), axis=0) > 0.01).all()
    assert workload.past.user_known.tolist() == [False, True, False]  # the run kept its own rows


def test_jobs_of_new_users_that_start_together_tell_in_the_order_of_their_number() -> None:
    """Whoever is met second begins with what the first one told the site."""
    workload = users_workload(8, jobs=4, parallel=False)._replace(
        submit=np.array([0.0, 0.0, 100.0, 100.0]),
        run_time=np.array([70.0, 70.0, 9.0, 9.0]),
        time_limit=np.full(4, 600.0),
        estimate=np.full(4, 600.0),
        interactive=np.array([False, True, False, False]),
    )
    past = workload.past._replace(
        user=np.array([0, 1, 0, 1]),
        template=np.array([0, 1, 0, 1]),
        asked=np.full(2, 600.0),
        templates=np.zeros((2, HISTORY)),
        template_known=np.zeros(2, dtype=np.bool_),
    )
    workload = workload._replace(past=past)
    network = replace(probe(job_feature=SEEN), prediction=random_prediction(1))
    cluster = empty_cluster(workload, 2)
    advance(workload, cluster, 0.0, np.empty(0, dtype=np.int64))
    dispatch_in_order(workload, cluster, np.array([1, 0]), 2, EASY, 0)  # the later one starts first
    advance(workload, cluster, 100.0, np.empty(0, dtype=np.int64))
    scores, jobs = np.empty(4), np.empty(4, dtype=np.int64)
    score_pending(workload, cluster, compile_network(network, workload), scores, jobs)
    moment = Moment(100.0, [2, 3], [], [0.0, 0.0, np.nan, np.nan])
    _, expected = features_with_past(workload, moment, network)
    np.testing.assert_allclose(scores[:2], expected[:, SEEN], rtol=0, atol=1e-12)


def test_users_must_be_told_apart_for_a_network_that_looks_at_past_runs() -> None:
    workload = users_workload(1, parallel=False)
    network = predicting_network(1)
    with pytest.raises(SimulationError, match="needs to know users"):
        compile_network(network, workload._replace(past=NO_PAST))
