"""The held-out protocol: where windows lie, what policies see, and that the past alone chooses."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.domain.job_class import JobClassifier, JobClassRule
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.heldout import (
    HEURISTICS,
    HeldoutProtocol,
    best_heuristic,
    figures_of_windows,
    heuristics_on_training_part,
    training_and_test_windows,
    windows_of,
)
from slurm_rl_plugin.learning.evaluation.paired import Candidate, evaluate
from slurm_rl_plugin.learning.heldout_training import (
    RuleComparison,
    best_reserve,
    compare_with_rules,
    heldout_entry,
    heldout_loads,
    searched_jobs,
    shipped_rule,
)
from slurm_rl_plugin.learning.policy_search import RULE_WEIGHTS, rule_network
from slurm_rl_plugin.learning.training_load import class_known_at_submission, log_window
from slurm_rl_plugin.policies.ordering_rules import PREDICTED_RULES
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_scores
from slurm_rl_plugin.simulator.workloads.generators import generated_log, mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.recorded_runs import recent_runs
from slurm_rl_plugin.utility.reward import RewardWeights

SMALL = HeldoutProtocol(windows=20, warm_up=20, counted=40, further=10)
CAPACITY = 6


def parallel_log(seed=1, jobs=900):
    """Jobs of several processors whose users ask for more time than they need."""
    rng = np.random.default_rng(seed)
    log = mmn_log(rng, jobs=jobs, processors=CAPACITY, load=0.45)
    asked = np.ceil(log.run_time * rng.choice([1.0, 3.0, 20.0], jobs) / 600) * 600
    return replace(log, processors=rng.integers(1, 4, jobs), time_limit=asked)


LOG = prepare_log(parallel_log())
KNOWN = class_known_at_submission(LOG)


def figures(names, firsts, log=KNOWN):
    candidates = [Candidate(name=name) for name in names]
    return figures_of_windows(candidates, log, firsts, SMALL)


@given(
    first=st.integers(0, 50),
    jobs=st.integers(SMALL.jobs, 600),
    windows=st.integers(1, 40),
)
def test_windows_are_spaced_evenly_over_the_part_and_never_leave_it(first, jobs, windows):
    firsts = windows_of(first, first + jobs, replace(SMALL, windows=windows))
    places = jobs - SMALL.jobs + 1
    assert len(firsts) == min(windows, places)
    assert firsts[0] == first
    if len(firsts) > 1:
        assert firsts[-1] + SMALL.jobs == first + jobs
        gaps = np.diff(firsts)
        assert gaps.min() >= 1
        assert gaps.max() - gaps.min() <= 1


def test_training_windows_end_where_test_windows_begin():
    training, test = training_and_test_windows(LOG, SMALL)
    assert (training[0], training[-1] + SMALL.jobs) == (0, 540)
    assert (test[0], test[-1] + SMALL.jobs) == (540, 900)
    with pytest.raises(ConfigurationError, match=r"69 jobs: a window .* needs 70"):
        windows_of(7, 6 + SMALL.jobs, SMALL)
    assert len(log_window(LOG, 880, 20).log) == 20
    for first, count in ((881, 20), (-1, 5), (5, -1)):
        with pytest.raises(ConfigurationError, match="has no window"):
            log_window(LOG, first, count)


def test_figures_are_those_of_the_counted_jobs_of_a_simulated_window():
    """By the other way: `evaluate` on the same jobs, where the class is the actual run time."""
    (several,) = figures(["sjf"], [0, 123, 250]).values()
    (found,) = figures(["sjf"], [123]).values()
    assert several.bounded_slowdown[1] == found.bounded_slowdown[0]
    settings = SimulationSettings(capacity=CAPACITY, backfilling="easy")
    window = log_window(LOG, 123, SMALL.jobs)
    drop = (SMALL.warm_up, SMALL.further)
    entry = evaluate(Candidate(name="sjf"), window, RequestedLimit(), settings, drop=drop)
    assert found.bounded_slowdown.tolist() == [entry["mean_bounded_slowdown"]]
    assert found.max_wait.tolist() == [entry["max_wait"]]
    assert found.misdelivered.tolist() == [entry["misdelivered"]["fortnight"]]
    quick = entry["classes"]["interactive"]
    assert found.short_jobs.tolist() == [quick["jobs"]]
    assert found.short_within_120s[0] / found.short_jobs[0] == pytest.approx(quick["within_120s"])


@pytest.mark.parametrize("name", sorted(PREDICTED_RULES))
def test_rules_by_predicted_run_times_know_the_runs_before_the_window(name):
    users = np.arange(900) % 7
    start = KNOWN.log.submit + np.random.default_rng(5).exponential(600.0, 900)
    known = replace(KNOWN.log, user=users, users=tuple("abcdefg"), start=start)
    log = replace(KNOWN, log=known)
    (found,) = figures([name], [123], log).values()
    jobs = slice(123, 123 + SMALL.jobs)
    told = recent_runs(log)  # of the whole log, as it was when each job was submitted
    processors = log.log.processors[jobs].astype(float)
    scores = PREDICTED_RULES[name](processors, told.predicted[jobs], told.rate[jobs])
    window = log_window(log, 123, SMALL.jobs)
    workload = window.workload(RequestedLimit())
    settings = SimulationSettings(capacity=CAPACITY, backfilling="easy")
    wait = simulate_scores(workload, scores, settings).start - workload.submit
    counted = slice(SMALL.warm_up, SMALL.warm_up + SMALL.counted)
    assert found.max_wait.tolist() == [wait[counted].max()]
    assert name in HEURISTICS
    nothing = replace(window, recent_runs=recent_runs(window))
    assert (nothing.recent_runs.predicted != told.predicted[jobs]).any()


def test_rules_of_the_site_say_the_class_where_there_are_any():
    rule = JobClassRule(job_class="interactive", time_limit_at_most=3600.0)
    prepared = class_known_at_submission(LOG, JobClassifier([rule]))
    np.testing.assert_array_equal(prepared.interactive, LOG.log.time_limit <= 3600)
    assert prepared.class_rule == str(rule)
    assert "time_limit_at_most=900" in KNOWN.class_rule
    np.testing.assert_array_equal(KNOWN.interactive, LOG.log.time_limit <= 900)
    nothing = replace(LOG.log, time_limit=np.full(len(LOG.log), np.nan))
    assert not class_known_at_submission(replace(LOG, log=nothing)).interactive.any()


def test_the_test_part_has_no_say_in_the_choice():
    training, test = training_and_test_windows(KNOWN, SMALL)
    log = KNOWN.log
    later = np.arange(len(log)) >= 540
    border = log.submit[540]
    other = replace(
        log,
        submit=np.where(later, border + (log.submit - border) / 5, log.submit),
        run_time=np.where(later, log.run_time[::-1] * 3, log.run_time),
        time_limit=np.where(later, 60.0, log.time_limit),
        processors=np.where(later, CAPACITY, log.processors),
    )
    altered = class_known_at_submission(prepare_log(other))
    chosen = heuristics_on_training_part(KNOWN, training, SMALL)
    assert heuristics_on_training_part(altered, training, SMALL) == chosen
    assert heuristics_on_training_part(altered, test, SMALL) != chosen


SMALL_TRAINING = HeldoutProtocol(windows=3, warm_up=50, counted=100, further=50)
JOBS = 2000


def prepared(jobs=JOBS, longer_from=None):
    """A crowded machine; run times from one job on may be made longer."""
    log = generated_log(f"mmn:jobs={jobs},processors=10,load=.95,seed=2")
    run_time = log.run_time.copy()
    if longer_from is not None:
        run_time[longer_from:] *= 3
    limit = 600.0 * np.ceil(log.run_time / 600)
    return prepare_log(replace(log, run_time=run_time, time_limit=limit, processors_available=10))


def loads(log):
    return heldout_loads([log], training=SMALL_TRAINING, validation=SMALL_TRAINING)


def test_training_sees_three_quarters_of_the_first_part_and_chooses_on_the_rest_of_it():
    log = prepared()
    here, there = loads(log), loads(prepared(longer_from=int(0.6 * JOBS)))
    border, submit = searched_jobs(log), log.log.submit
    assert border == int(0.45 * JOBS)
    assert max(load.workload.submit[-1] for load in here.training) <= submit[border - 1]
    assert min(load.workload.submit[0] for load in here.validation) >= submit[border]
    assert max(load.workload.submit[-1] for load in here.validation) <= submit[int(0.6 * JOBS) - 1]
    for one, other in zip(
        here.training + here.validation, there.training + there.validation, strict=True
    ):
        np.testing.assert_array_equal(one.workload.run_time, other.workload.run_time)
        for told, same in zip(one.workload.past, other.workload.past, strict=True):
            np.testing.assert_array_equal(told, same)
        assert one.saf_slowdown == other.saf_slowdown
        assert one.drop == (50, 50)
        np.testing.assert_array_equal(one.workload.interactive, one.workload.time_limit <= 900)


def test_a_network_is_compared_on_windows_that_chose_and_with_every_rule():
    found = compare_with_rules(rule_network("sjf"), prepared(), validation=SMALL_TRAINING)
    assert set(found.slowdown) == set(HEURISTICS)
    assert found.best_heuristic == min(found.slowdown, key=found.slowdown.__getitem__)
    again = compare_with_rules(rule_network("fifo"), prepared(), validation=SMALL_TRAINING)
    assert again.best_heuristic == found.best_heuristic
    assert again.ratio > found.ratio
    assert set(found.ratio_to) == set(RULE_WEIGHTS)
    assert found.ratio_to["fifo"] < 1.0 < again.ratio_to["sjf"]
    for rule in RULE_WEIGHTS:  # each network orders as its rule
        same = compare_with_rules(rule_network(rule), prepared(), validation=SMALL_TRAINING)
        assert same.ratio_to[rule] == pytest.approx(1.0)


def compared(ratio, ratio_to=1.0, **slowdown):
    return RuleComparison(
        best_heuristic="saf",
        slowdown=dict.fromkeys(RULE_WEIGHTS, 9.0) | slowdown,
        ratio=ratio,
        ratio_to=dict.fromkeys(RULE_WEIGHTS, ratio_to),
    )


def test_otherwise_the_best_rule_that_is_a_network_is_shipped():
    found = [compared(0.9, sjf=2.0, saf=8.0), compared(1.3, sjf=8.5, saf=3.0)]
    assert shipped_rule(found) == "sjf"
    assert shipped_rule([compared(1.0)]) is not None
    assert shipped_rule([compared(1.001, ratio_to=0.06)]) is None  # the best rule is no network
    assert shipped_rule([compared(0.7), compared(1.2)]) is None  # a network that wins on all logs
    assert shipped_rule([]) is None
    assert best_heuristic({"fifo": 2.0, "sjf": 2.0}) == "fifo"
    assert heldout_entry({"log": found[0]}, "sjf")["shipped"] == "sjf"
    assert heldout_entry({"log": found[0]}, None)["shipped"] == "network"


def test_the_reserve_is_the_one_with_the_best_objective():
    found = loads(prepared())
    weights = RewardWeights(tail=0.0, slowdown=10.0)
    best = best_reserve(rule_network("sjf"), found.training, [0.9, 0.0], weights)
    assert best == 0.0  # one processor of ten left to batch work is no good order
