"""In which order the simulated cluster notes starts and ends, and what nobody may know early."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.features.history.run_history import AT_RISK, BOUNDS, ENDED_BEFORE
from slurm_rl_plugin.simulator.kernel.cluster import (
    advance,
    empty_cluster,
    forget_started,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload, nothing_past
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_network
from slurm_rl_plugin.simulator.scoring.history import bring_up_to_now, history_part
from slurm_rl_plugin.simulator.scoring.network import compile_network, score_pending
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.recorded_runs import (
    hazards_at_submission,
    quantiles_at_start,
    recent_runs,
)
from tests.reference.loads import log_of, users_workload
from tests.reference.test_history_against_readable_simulator import predicting_network
from tests.reference.test_network_against_readable_simulator import CAPACITY, SEEN, probe

NO_RANK = np.empty(0, dtype=np.int64)


def at_once(run_time, submit=0.0) -> Workload:
    """Jobs of one processor that are all submitted at a time; even and odd ones of a user each."""
    count = len(run_time)
    workload = users_workload(1, jobs=count, parallel=False)
    user = np.arange(count) % 2
    past = nothing_past(user, user, np.full(count, 600.0), np.ones(count, dtype=np.int64))
    return workload.having(
        submit=np.full(count, submit), run_time=np.array(run_time, dtype=float), past=past
    )


@settings(deadline=None)
@given(
    run_time=st.lists(st.sampled_from([5.0, 60.0, 70.0, 900.0]), min_size=1, max_size=12),
    order=st.randoms(use_true_random=False),
    steps=st.lists(st.sampled_from([5.0, 59.0, 60.0, 70.0, 100.0]), max_size=3, unique=True),
)
def test_ends_are_noted_by_time_and_ties_by_number(run_time, order, steps):
    workload = at_once(run_time)
    cluster = empty_cluster(workload, 12)
    advance(workload.jobs, cluster, 0.0, NO_RANK)
    jobs = list(range(len(run_time)))
    order.shuffle(jobs)
    for job in jobs:
        start_job(workload.jobs, cluster, job)
    assert cluster.started[: cluster.state[0].started].tolist() == sorted(jobs)
    for time in [*sorted(steps), 900.0]:
        advance(workload.jobs, cluster, time, NO_RANK)
        gone = sorted((run_time[job], job) for job in jobs if run_time[job] <= time)
        assert cluster.ended[: cluster.state[0].ended].tolist() == [job for _, job in gone]


def test_starts_at_different_times_keep_their_order_and_ties_are_put_in_order_of_number():
    workload = at_once([7000.0] * 6)
    cluster = empty_cluster(workload, 6)
    for time, jobs in ((0.0, [4, 2]), (30.0, [5, 0, 1]), (40.0, [3])):
        advance(workload.jobs, cluster, time, NO_RANK)
        for job in jobs:
            start_job(workload.jobs, cluster, job)
    history = history_part(workload, np.ones((3, 1)), np.ones(3))
    minute = AT_RISK + BOUNDS.index(60.0)
    for time, users in (
        (59.0, [0, 0]),
        (60.0, [1.9, 0]),  # jobs 2 and 4
        (90.0, [1 + 0.9 * 1.9, 1.9]),  # jobs 0, 1 and 5
    ):
        advance(workload.jobs, cluster, time, NO_RANK)
        bring_up_to_now(workload, cluster, history)
        assert history.running.tolist() == [3, 3]
        assert history.past.users[:, minute].tolist() == pytest.approx(users)
    # runs of a user of whom 0, 1 and 1.9 have come so far before
    site = history.past.site[history.past.alike[0], minute]
    assert site == pytest.approx(2 * (1 + 1 / 2**2) + 1 / 2.9**2, abs=0.01)
    assert cluster.started[:6].tolist() == [2, 4, 0, 1, 5, 3]


@pytest.mark.parametrize("steps", [[30.0], [25.0, 30.0], [10.0, 29.0, 31.0]])
def test_of_what_happens_at_one_instant_ends_are_noted_last(steps: list[float]) -> None:
    """A job outlives 30 s as another of its user ends after 20 s: the end weighs 1."""
    workload = at_once([40.0, 5.0, 20.0])
    cluster = empty_cluster(workload, 3)
    history = history_part(workload, np.ones((3, 1)), np.ones(3))
    for time, job in ((0.0, 0), (10.0, 2)):
        advance(workload.jobs, cluster, time, NO_RANK)
        start_job(workload.jobs, cluster, job)
    for time in steps:
        advance(workload.jobs, cluster, time, NO_RANK)
        bring_up_to_now(workload, cluster, history)
    place = BOUNDS.index(30.0)
    row = history.past.users[0]
    assert row[[ENDED_BEFORE + place, AT_RISK + place]].tolist() == [1.0, 1.9]


def test_runs_of_one_user_tell_of_another_who_asks_for_the_same():
    """The jobs of the second user wait while runs of the first tell the site something anew."""
    workload = at_once([5.0] * 8)
    network = probe(job_feature=SEEN)
    going = compile_network(network, workload)
    cluster = empty_cluster(workload, 1)
    scores, jobs, seen = np.empty(8), np.empty(8, dtype=np.int64), []
    for job in (0, 2, 4):
        advance(workload.jobs, cluster, 2.5 * job, NO_RANK)
        for network_now in (going, compile_network(network, workload)):
            score_pending(workload, cluster, network_now, scores, jobs)
            seen.append(scores[jobs.tolist().index(7)])
        start_job(workload.jobs, cluster, job)
        forget_started(cluster)
    assert seen[::2] == seen[1::2]
    assert seen[0] > seen[2] > seen[4]  # the runs were short


LOADS = {
    (seed, parallel): users_workload(seed, jobs=60, parallel=parallel)
    for seed in (1, 2, 3)
    for parallel in (False, True)
}
NETWORK = predicting_network(2, "sigmoid")


def changed(workload, start, moment, seed):
    """Other run times of all jobs that have not ended by a time: what nobody can know then."""
    rng = np.random.default_rng(seed)
    count = len(start)
    run_time = workload.run_time.copy()
    waiting = start > moment
    run_time[waiting] = rng.choice([1.0, 61.0, 950.0, 8000.0], count)[waiting]
    running = ~waiting & (start + workload.run_time > moment)
    more = rng.choice([0.125, 30.0, 10000.0], count)
    run_time[running] = (moment - start + more)[running]
    assert (run_time != workload.run_time).any()
    return workload.having(run_time=run_time)


@settings(deadline=None, max_examples=60)
@given(
    load=st.sampled_from(sorted(LOADS)),
    part=st.floats(0.02, 0.95),
    backfilling=st.sampled_from(["none", "easy"]),
    cycle=st.sampled_from([0.0, 45.0]),
    seed=st.integers(0, 99),
)
def test_no_decision_knows_more_than_what_runs_have_told_so_far(
    load, part, backfilling, cycle, seed
):
    workload = LOADS[load]
    how = SimulationSettings(capacity=CAPACITY, backfilling=backfilling, cycle=cycle)
    start = simulate_network(workload, NETWORK, how).start
    moment = float(np.quantile(start, part))
    other = changed(workload, start, moment, seed)
    again = simulate_network(other, NETWORK, how).start
    early = start <= moment
    assert again[early].tolist() == start[early].tolist()
    assert (again[~early] > moment).all()


def test_run_times_do_change_decisions_once_they_are_known():
    workload = LOADS[1, True]
    how = SimulationSettings(capacity=CAPACITY)
    start = simulate_network(workload, NETWORK, how).start
    other = changed(workload, start, float(np.quantile(start, 0.3)), 1)
    assert simulate_network(other, NETWORK, how).start.tolist() != start.tolist()


@settings(deadline=None, max_examples=40)
@given(load=st.sampled_from(sorted(LOADS)), part=st.floats(0.02, 0.95), seed=st.integers(0, 99))
def test_a_recorded_log_tells_no_run_before_its_time(load, part, seed):
    workload = LOADS[load]
    rng = np.random.default_rng(seed)
    start = workload.submit + rng.choice([0.0, 60.0, 500.0], len(workload.submit))
    moment = float(np.quantile(start, part))

    def prepared(each):
        log = log_of(each, time_limit=np.where(each.time_limit > 0, each.time_limit, np.nan))
        users = tuple("abc")
        return prepare_log(replace(log, start=start, user=each.past.user, users=users))

    whole, other = prepared(workload), prepared(changed(workload, start, moment, seed))
    started, submitted = start <= moment, workload.submit <= moment
    told, changed_told = quantiles_at_start(whole), quantiles_at_start(other)
    assert changed_told[started].tolist() == told[started].tolist()
    hazards, changed_hazards = hazards_at_submission(whole), hazards_at_submission(other)
    assert changed_hazards[submitted].tolist() == hazards[submitted].tolist()
    last, changed_last = recent_runs(whole), recent_runs(other)
    assert changed_last.predicted[submitted].tolist() == last.predicted[submitted].tolist()
    assert changed_last.rate[submitted].tolist() == last.rate[submitted].tolist()
