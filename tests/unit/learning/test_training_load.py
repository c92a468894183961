"""What a load compares with over the counted jobs alone; goals and nodes of a load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain.goals import AS_TRAINED, POINTS_A_DOUBLING, Goals
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import Candidate, evaluate, starts_under
from slurm_rl_plugin.learning.policy_search import rule_network
from slurm_rl_plugin.learning.training_load import TrainingLoad, rule_objective
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import (
    GIVEN,
    OF_CLUSTER,
    PAST_WORK,
    PreparedLog,
    prepare_log,
)
from slurm_rl_plugin.utility.reward import RewardWeights

HOW = SimulationSettings(capacity=5, backfilling="easy")
DROP = (105, 30)


def asked_log():
    rng = np.random.default_rng(3)
    log = mmn_log(rng, processors=5, jobs=200, load=0.6)
    asked = np.ceil(log.run_time * rng.choice([1.0, 3.0, 20.0], 200) / 600) * 600
    return prepare_log(replace(log, processors=rng.integers(1, 3, 200), time_limit=asked))


LOG = asked_log()
WHOLE, PART = (TrainingLoad.of(LOG, RequestedLimit(), HOW, drop) for drop in ((0, 0), DROP))


def start_of(name):
    return starts_under(Candidate(name=name), LOG, WHOLE.workload, HOW)


@pytest.mark.parametrize(("load", "drop"), [(WHOLE, (0, 0)), (PART, DROP)])
def test_what_is_compared_with_is_measured_on_the_counted_jobs(load, drop):
    def figures(name, estimates):
        return evaluate(Candidate(name=name), LOG, estimates, HOW, drop=drop)

    assert load.fifo_max_wait == figures("fifo", RequestedLimit())["max_wait"]
    saf = figures("saf", RequestedLimit())
    assert load.saf_slowdown == pytest.approx(saf["mean_bounded_slowdown"])
    sjf = figures("sjf", None)["classes"]["batch"]
    assert load.sjf_batch_wait == pytest.approx(sjf["mean_wait"])
    assert load.drop == drop


@pytest.mark.parametrize(
    "weights",
    [
        RewardWeights(time_utility=1.0, responsiveness=0.0, fairness=0.0, tail=0.0),
        RewardWeights(time_utility=0.0, responsiveness=1.0, fairness=0.0, tail=0.5),
        RewardWeights(time_utility=0.5, responsiveness=0.5, fairness=0.0, batch_delay=1.0),
        RewardWeights(time_utility=0.5, responsiveness=0.5, fairness=0.0, slowdown=10.0),
    ],
    ids=["utility", "tail", "batch", "slowdown"],
)
def test_starts_of_dropped_jobs_do_not_count(weights):
    start = start_of("fifo")
    counted = np.zeros(200, dtype=bool)
    counted[DROP[0] : 200 - DROP[1]] = True
    later = start + 10000.0
    before = PART.objective(start, weights)
    assert PART.objective(np.where(counted, start, later), weights) == before
    assert WHOLE.objective(np.where(counted, start, later), weights) != WHOLE.objective(
        start, weights
    )
    assert PART.objective(np.where(counted, later, start), weights) < before


def test_networks_are_simulated_in_the_partitions_in_which_rules_are():
    log = mmn_log(np.random.default_rng(1), processors=8, jobs=400)
    parts = replace(log, partition=np.arange(400) % 2, partitions=("A", "B"))
    prepared = prepare_log(parts, partitions={"A": 2, "B": 6})
    settings = SimulationSettings(capacity=prepared.capacity, backfilling="easy")
    load = TrainingLoad.of(prepared, RequestedLimit(), settings)
    rule = starts_under(Candidate(name="saf"), prepared, load.workload, settings)
    assert load.starts(rule_network("saf")).tolist() == rule.tolist()


def test_smallest_area_first_has_the_slowdown_that_others_are_measured_by():
    weights = RewardWeights(slowdown=10.0)
    for load in (WHOLE, PART):
        plain = load.objective(start_of("saf"), RewardWeights())
        assert load.objective(start_of("saf"), weights) == pytest.approx(plain)
        worse = load.objective(start_of("fifo"), RewardWeights())
        assert load.objective(start_of("fifo"), weights) < worse
    assert rule_objective("saf", [WHOLE], weights) == WHOLE.objective(start_of("saf"), weights)
    oracle = TrainingLoad.of(LOG, None, HOW)  # requested times, whatever the policy knows
    assert oracle.saf_slowdown == WHOLE.saf_slowdown
    assert rule_objective("saf", [oracle], weights) != rule_objective("saf", [WHOLE], weights)


def test_groups_are_compared_with_the_sites_own_priority():
    """The jobs ask for one or two processors; multifactor lifts the wide ones."""
    own = WHOLE.site_wait + WHOLE.workload.submit
    weights = RewardWeights(
        time_utility=1.0, responsiveness=0.0, fairness=0.0, tail=0.0, groups=10.0
    )
    without = replace(weights, groups=0.0)
    assert WHOLE.objective(own, weights) == WHOLE.objective(own, without)  # no group loses
    later = np.where(LOG.log.processors == 1, own + 1e5, own)
    wait = WHOLE.site_wait[LOG.log.processors == 1].mean()
    lost = WHOLE.objective(later, without) - WHOLE.objective(later, weights)
    assert lost > 10 * np.log10((wait + 1e5) / (wait + 60) / 1.05) / 10 > 0.0


LOG_GOALS = mmn_log(np.random.default_rng(1), processors=5, jobs=300, load=0.95)
UNEQUAL = {"vo0": 0.1, "vo1": 0.2, "vo2": 0.3, "vo3": 0.4}


def log_with(shares: dict[str, float] | None = None) -> PreparedLog:
    return prepare_log(LOG_GOALS, shares=shares)


@pytest.mark.parametrize("wanted", [AS_TRAINED, Goals(shares=3.0, interactive=1.0)], ids=str)
def test_derived_shares_count_nothing_whatever_is_asked_for(wanted: Goals) -> None:
    prepared = log_with()
    assert prepared.shares_from == PAST_WORK
    assert np.ptp(prepared.shares) > 0.01
    assert prepared.goals(wanted) == replace(wanted, shares=0.0)
    equal = log_with(dict.fromkeys(UNEQUAL, 0.25))  # given ones count though they are equal
    assert equal.shares_from == GIVEN
    assert equal.goals(wanted).shares == (wanted.shares or POINTS_A_DOUBLING)


@pytest.mark.parametrize(("alike", "points"), [(True, 0.0), (False, POINTS_A_DOUBLING)])
def test_shares_of_the_batch_system_count_where_they_differ(alike: bool, points: float) -> None:
    shares = np.full(4, 0.25) if alike else np.array(list(UNEQUAL.values()))
    prepared = replace(log_with(), shares=shares, shares_from=OF_CLUSTER)
    assert prepared.goals(AS_TRAINED) == Goals(shares=points)
