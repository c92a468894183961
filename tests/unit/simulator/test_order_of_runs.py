"""In which order the simulated cluster notes starts and ends, and what nobody may know early."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_network
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.recorded_runs import (
    hazards_at_submission,
    quantiles_at_start,
    recent_runs,
)
from tests.reference.loads import log_of, users_workload
from tests.reference.test_history_against_readable_simulator import predicting_network
from tests.reference.test_network_against_readable_simulator import CAPACITY

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
