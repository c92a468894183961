"""A job is there from the moment it is eligible: begin times, dependencies and holds."""

from dataclasses import replace

import numpy as np

from slurm_rl_plugin.learning.evaluation.paired import Candidate, schedule_of, starts_under
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log, select_prepared

SUBMIT = np.array([0.0, 10.0, 20.0, 30.0])


def log_with(eligible):
    log = mmn_log(np.random.default_rng(1), processors=1, jobs=4)
    return replace(
        log,
        submit=SUBMIT,
        eligible=np.array(eligible),
        start=np.array([0.0, 500.0, 100.0, 200.0]),
        run_time=np.full(4, 100.0),
    )


#: Job 2 has a begin time of 450 s.
LATER = log_with([0.0, 450.0, 20.0, 30.0])


def test_jobs_arrive_in_the_order_in_which_they_became_eligible():
    prepared = prepare_log(LATER)
    assert prepared.log.job_id.tolist() == [LATER.job_id[i] for i in (0, 2, 3, 1)]
    assert prepared.log.submit.tolist() == [0.0, 20.0, 30.0, 450.0]
    assert prepared.workload(None).submit.tolist() == [0.0, 20.0, 30.0, 450.0]
    assert prepared.eligible_after.tolist() == [0.0, 0.0, 0.0, 440.0]
    assert prepared.past.user.tolist() == prepared.log.user.tolist()


def test_no_policy_starts_a_job_before_it_is_eligible():
    prepared = prepare_log(LATER)
    settings = SimulationSettings(capacity=1)
    for name in ("fifo", "sjf", "multifactor"):
        start = starts_under(Candidate(name=name), prepared, prepared.workload(None), settings)
        assert (start >= prepared.log.eligible).all(), name
        assert start[-1] == 450.0


def test_recorded_waits_count_from_then_on():
    prepared = prepare_log(LATER)
    settings = SimulationSettings(capacity=1)
    start = starts_under(Candidate(name="native"), prepared, prepared.workload(None), settings)
    assert schedule_of(prepared, start, settings).wait.tolist() == [0.0, 80.0, 170.0, 50.0]


def test_a_log_that_tells_of_none_stays_as_it_is():
    prepared = prepare_log(log_with(SUBMIT))
    assert prepared.eligible_after is None
    assert prepared.log.submit.tolist() == SUBMIT.tolist()


def test_a_window_keeps_how_long_its_jobs_were_not_eligible():
    window = select_prepared(prepare_log(LATER), np.array([2, 3]))
    assert window.eligible_after.tolist() == [0.0, 440.0]
