"""Networks that look at past runs decide as one that knows the whole past at every decision."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.features.columns import feature_columns
from slurm_rl_plugin.features.history.past_runs import PastRuns
from slurm_rl_plugin.features.site import SITE, longest_wait
from slurm_rl_plugin.policies.network import ACTIVATIONS, QNetwork
from slurm_rl_plugin.simulator.kernel.cluster import (
    advance,
    decision_time,
    empty_cluster,
    next_event,
)
from slurm_rl_plugin.simulator.kernel.dispatch import (
    BACKFILLING,
    EASY,
    anything_fits,
    dispatch_by_score,
    dispatch_in_order,
)
from slurm_rl_plugin.simulator.kernel.workload import NO_PAST, Workload, copied
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_network
from slurm_rl_plugin.simulator.scoring.network import compile_network, score_pending
from tests.reference.loads import arrived_by, jobs_of, requests_of, told_snapshot, users_workload
from tests.reference.readable_past_runs import (
    LARGE,
    LIMIT_KEEPS,
    SITE_KEEPS,
    TEMPLATE_KEEPS,
    USER_KEEPS,
    Row,
    Rows,
    history_columns,
    rows_at,
)
from tests.reference.readable_simulator import Moment, simulate
from tests.reference.test_network_against_readable_simulator import (
    CAPACITY,
    GOALS,
    JOBS,
    SEEN,
    features_at,
    probe,
    random_network,
)


def predicting_network(seed: int, activation: str = "relu") -> QNetwork:
    """A random network in whose scores the past weighs more than all else."""
    rng = np.random.default_rng(seed + 50)
    network = random_network(seed, activation)
    network.job_weights[SEEN:] = rng.normal(0, 4, network.job_weights[SEEN:].shape)
    network.linear[SEEN:] = rng.normal(0, 4, JOBS - SEEN)
    return network


def capacity_of(workload: Workload) -> int:
    """Large requests are of jobs eight times as wide."""
    return CAPACITY if workload.processors.max() <= CAPACITY else 8 * CAPACITY


def features_with_past(
    workload: Workload, moment: Moment, known: Rows | None = None, goals: Goals = AS_TRAINED
) -> tuple[np.ndarray, np.ndarray]:
    """The features of a moment, from the whole past."""
    queue, seen = features_at(workload, moment, np.inf, goals, capacity_of(workload))
    past = history_columns(requests_of(workload), workload.run_time.tolist(), moment, known)
    told = np.array(past).reshape(-1, JOBS - SEEN)
    told[:, 0] *= goals.short_jobs
    return queue, np.column_stack([seen[:, :SEEN], told])


def distinct_scores(network: QNetwork, queue: np.ndarray, jobs: np.ndarray) -> list[float]:
    """Jobs with equal features get one score, as in `head_node`."""
    distinct, place = np.unique(jobs, axis=0, return_inverse=True)
    return network.scores(queue, distinct)[place.reshape(-1)].tolist()


def random_rows(workload: Workload, seed: int) -> Rows:
    """Rows of kinds of requests, of user 1, a limit and half of the templates, left by others."""
    rng = np.random.default_rng(seed)

    def row(keeps: float) -> Row:
        came = rng.uniform(0, 30, 16)
        before = list(zip((rng.uniform(0, 1, 16) * came).tolist(), came.tolist(), strict=True))
        return Row(keeps, before=before)

    paid = replace(row(USER_KEEPS), spent=LARGE, last=50.0, previous=7000.0, inverse=0.01)
    mine = sorted({request.own for request in requests_of(workload) if request.user == 1})
    kinds = sorted({request.kind for request in requests_of(workload)})
    within = sorted({request.within for request in requests_of(workload) if request.user == 1})
    return Rows(
        {each: row(SITE_KEEPS) for each in kinds[::2]},
        {1: paid},
        {each: row(LIMIT_KEEPS) for each in within[::2]},
        {each: row(TEMPLATE_KEEPS) for each in mine[::2]},
    )


def with_rows(workload: Workload, rows: Rows) -> Workload:
    """The workload with these rows known before its first job."""
    past = copied(workload.past)
    for long, wide in rows.site:
        past.site[14 * long + wide] = rows.site[long, wide].numbers()
    for number, each in rows.users.items():
        past.users[number] = each.numbers()
    for request in requests_of(workload):
        if request.within in rows.limits:
            place = past.within[request.template]
            past.limits[place] = rows.limits[request.within].numbers()
        if request.own in rows.templates:
            past.templates[past.own[request.template]] = rows.templates[request.own].numbers()
    return workload.having(past=past)


@dataclass
class HeadNode:
    """Scores by what a head node remembers from one decision to the next."""

    workload: Workload
    network: QNetwork
    settings: SimulationSettings
    past: PastRuns = field(default_factory=PastRuns)
    longest: float = 0.0
    looked: float = -np.inf
    found: dict[tuple[float, int], float] = field(default_factory=dict)

    def __call__(self, _jobs: object, moment: Moment) -> list[float]:
        workload, settings = self.workload, self.settings
        snapshot = told_snapshot(
            workload, moment, settings.capacity, self.looked, settings.half_life
        )
        self.past = self.past.after(snapshot)
        waited = float(snapshot.accrued_wait.max())
        self.longest = longest_wait(self.longest, moment.now - self.looked, waited)
        self.looked = moment.now
        estimate, goals = workload.estimate, settings.goals
        arrived = arrived_by(workload, moment.now)
        columns = (estimate[moment.pending], estimate[moment.running], arrived)
        queue, jobs = feature_columns(SITE, snapshot, *columns, self.past, goals, self.longest)
        scores = distinct_scores(self.network, queue, jobs)
        keys = ((moment.now, job) for job in moment.pending)
        self.found.update(zip(keys, scores, strict=True))
        return scores


def scores_while_simulating(
    workload: Workload, network: QNetwork, settings: SimulationSettings
) -> dict[tuple[float, int], float]:
    """(instant, job) -> its score, as the compiled scorer gave it there."""
    cluster = empty_cluster(workload, settings.capacity, settings.half_life)
    scorer, found = compile_network(network, workload, settings.goals), {}
    way = BACKFILLING[settings.backfilling]
    scores = np.empty(len(workload.submit) + 1)
    jobs = np.empty(len(workload.submit) + 1, dtype=np.int64)
    while not np.isinf(event := next_event(cluster)):
        advance(cluster, decision_time(event, settings.cycle))
        if cluster.state[0].idle == 0 or not anything_fits(cluster):
            continue
        score_pending(cluster, scorer, scores, jobs)
        now = float(cluster.state[0].now)
        for place in range(cluster.state[0].pending):
            found[now, int(jobs[place])] = float(scores[place])
        dispatch_by_score(cluster, scores, jobs, way, 0)
    return found


@pytest.mark.parametrize("goals", [AS_TRAINED, GOALS], ids=["as trained", "goals"])
@pytest.mark.parametrize(("backfilling", "cycle"), [("none", 0.0), ("easy", 0.0), ("easy", 45.0)])
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("seed", [1, 2])
def test_kernel_and_head_node_score_and_start_alike_at_every_decision(
    seed: int, large: bool, cycle: float, backfilling: str, goals: Goals
) -> None:
    """Waits, the longest one, decayed usage, past runs and the template weigh in every score."""
    workload = users_workload(seed, 100, parallel=True, large=large)
    network = predicting_network(seed, ACTIVATIONS[seed % 2])
    how = SimulationSettings(
        capacity=capacity_of(workload),
        backfilling=backfilling,
        cycle=cycle,
        half_life=3000.0,
        goals=goals,
    )
    there = HeadNode(workload, network, how)
    easy = backfilling == "easy"
    expected = simulate(jobs_of(workload), how.capacity, there, easy=easy, cycle=cycle)
    assert simulate_network(workload, network, how).start.tolist() == expected
    found = scores_while_simulating(workload, network, how)
    assert len(found) > 500
    scores = np.array(list(found.values()))
    assert np.ptp(scores) > 10.0
    np.testing.assert_allclose(scores, [there.found[key] for key in found], rtol=0, atol=2e-4)


def kinds_met(workload: Workload, moment: Moment, known: Rows | None = None) -> set[str]:
    """The kinds of the pending jobs, by whether past runs predict them."""
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


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("seed", [5, 7])
def test_every_history_feature_is_that_of_the_readable_simulator(seed: int, large: bool) -> None:
    workload = users_workload(seed, jobs=150, parallel=True, large=large)
    rows = random_rows(workload, seed)
    workload = with_rows(workload, rows)
    before = copied(workload.past)
    networks = [probe(job_feature=index) for index in range(SEEN, JOBS)]
    # one of each runs along with the simulation; others see the whole past at once
    going = [compile_network(network, workload) for network in networks]
    cluster = empty_cluster(workload, capacity_of(workload))
    seen, met = [], set()
    scores, jobs = np.empty(151), np.empty(151, dtype=np.int64)
    decision = 0
    while np.isfinite(event := next_event(cluster)):
        advance(cluster, event)
        count = int(cluster.state[0].pending)
        decision += 1
        if count and decision % 3 == 0:
            pending = sorted(cluster.pending[:count].tolist())
            running = sorted(cluster.running.end_job[: cluster.state[0].running].tolist())
            moment = Moment(event, pending, running, cluster.start.tolist())
            _, expected = features_with_past(workload, moment, rows)
            met |= kinds_met(workload, moment, rows)
            seen.append(expected[:, SEEN:])
            for index, network in enumerate(networks):
                for compiled in (going[index], compile_network(network, workload)):
                    score_pending(cluster, compiled, scores, jobs)
                    there = scores[:count][np.argsort(jobs[:count])]
                    np.testing.assert_allclose(there, seen[-1][:, index], rtol=0, atol=1e-9)
        order = cluster.pending[: cluster.state[0].pending]
        dispatch_in_order(cluster, order[::-1].copy(), len(order), EASY, 0)
    assert sum(map(len, seen)) > 500
    assert met == (KINDS if large else {"small, paid"})
    # a feature that never changes would be compared in vain
    assert (np.ptp(np.concatenate(seen), axis=0) > 0.1).all()
    for mine, known in zip(workload.past, before, strict=True):  # the run kept its own rows
        np.testing.assert_array_equal(mine, known)


@pytest.mark.parametrize("feature", range(SEEN, JOBS), ids=SITE.history_jobs)
def test_users_must_be_told_apart_for_a_network_that_looks_at_past_runs(feature: int) -> None:
    workload = users_workload(1, parallel=False).having(past=NO_PAST)
    with pytest.raises(SimulationError, match="needs to know users"):
        compile_network(probe(job_feature=feature), workload)
    compile_network(probe(job_feature=SEEN - 1), workload)
