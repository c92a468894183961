"""The fields of a report by hand, and the objective with the weights that it refuses."""

import math

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.utility.reward import RewardWeights
from slurm_rl_plugin.utility.summary import ENOUGH_OF_ONE, ScheduledJobs, one_user_capped, summarise

#: submit, start, run, processors, account, interactive
ROWS = np.array(
    [
        (0, 0, 100, 1, 0, 1),
        (0, 120, 1000, 2, 1, 0),
        (10, 131, 50, 1, 0, 1),
        (20, 320, 2, 1, 1, 1),
    ],
    dtype=float,
)
JOBS = ScheduledJobs(
    submit=ROWS[:, 0],
    start=ROWS[:, 1],
    run_time=ROWS[:, 2],
    processors=ROWS[:, 3].astype(np.int64),
    account=ROWS[:, 4].astype(np.int64),
    interactive=ROWS[:, 5] > 0,
    shares=np.array([0.5, 0.5]),
    capacity=4,
)
WAIT = [0.0, 120.0, 121.0, 300.0]
#: starts: nothing consumed; 100/0; 100/22; 150/400
FAIRNESS = [0.0, 0.0, 1 - (0.5 - 22 / 122) / 0.5, 1 - (0.5 - 150 / 550) / 0.5]
UTILITY = [1.0, (1120 / 1060) ** -0.3, math.exp(-0.5 * 61 / 60), math.exp(-0.5 * 240 / 60)]


@pytest.mark.parametrize(
    ("of_eve", "of_others", "counts"),
    [
        (100_000, 400, 400.0),  # no more than all others together
        (400, 400, 400.0),
        (5000, 3, ENOUGH_OF_ONE),  # a new user's three rows must not outweigh 5000
        (50, 0, 50.0),
        (0, 0, 0.0),
    ],
)
def test_one_user_has_at_most_half_of_a_figure(of_eve: int, of_others: int, counts: float):
    user = np.array(["eve"] * of_eve + ["ann", "ben"] * of_others)[: of_eve + of_others]
    weight = one_user_capped(np.ones(len(user)), user)
    assert weight[user == "eve"].sum() == pytest.approx(counts)
    assert (weight[user != "eve"] == 1.0).all()


def test_waits_are_start_minus_submit():
    report = summarise(JOBS)
    assert report["jobs"] == 4
    assert report["mean_wait"] == pytest.approx(np.mean(WAIT))
    assert report["std_wait"] == pytest.approx(np.std(WAIT))
    assert report["max_wait"] == 300


def test_time_utility_responsiveness_slowdown_and_overhead_follow_their_definitions():
    report = summarise(JOBS)
    assert report["time_utility"] == pytest.approx(np.mean(UTILITY))
    assert report["responsiveness"] == pytest.approx(np.mean([1, 1000 / 1120, 50 / 171, 2 / 302]))
    assert report["mean_bounded_slowdown"] == pytest.approx(
        np.mean([1, 1120 / 1000, 171 / 50, 302 / 10])
    )
    overhead = [0, 120 / 1000, 121 / 50, 150]
    assert report["relative_overhead_p90"] == pytest.approx(np.quantile(overhead, 0.9))


def test_fairness_is_the_mean_at_starts_and_final_is_that_of_the_last_start():
    report = summarise(JOBS)
    assert report["fairness"] == pytest.approx(np.mean(FAIRNESS))
    assert report["fairness_final"] == pytest.approx(FAIRNESS[3])
    assert report["objective"] == pytest.approx((np.mean(UTILITY) + np.mean(FAIRNESS)) / 2)


def test_utilization_is_work_over_capacity_from_first_submit_to_last_end():
    assert summarise(JOBS)["utilization"] == pytest.approx((100 + 2000 + 50 + 2) / (4 * 1120))


def test_within_120s_includes_a_wait_of_exactly_120():
    classes = summarise(JOBS)["classes"]
    assert classes["batch"]["within_120s"] == 1.0
    assert classes["interactive"]["within_120s"] == pytest.approx(1 / 3)


def test_classes_are_summed_up_apart():
    classes = summarise(JOBS)["classes"]
    assert classes["batch"]["jobs"] == 1
    assert classes["batch"]["time_utility"] == pytest.approx(UTILITY[1])
    interactive = classes["interactive"]
    assert interactive["jobs"] == 3
    assert interactive["median_wait"] == 121
    assert interactive["max_wait"] == 300
    assert interactive["p95_wait"] == pytest.approx(np.quantile([0, 121, 300], 0.95))


def test_accounts_show_share_work_and_wait():
    accounts = summarise(JOBS, accounts=("first", "second"))["accounts"]
    assert accounts["first"]["work_fraction"] == pytest.approx(150 / 2152)
    assert accounts["second"]["share"] == 0.5
    assert accounts["second"]["mean_wait"] == pytest.approx(210)
    assert accounts["first"]["jobs"] == 2


def test_dropped_jobs_count_in_no_mean_but_have_consumed_service():
    report = summarise(JOBS, drop=(1, 1))
    assert report["jobs"] == 2
    assert report["max_wait"] == 121
    assert report["fairness"] == pytest.approx(np.mean(FAIRNESS[1:3]))
    assert report["fairness_final"] == pytest.approx(FAIRNESS[2])


@pytest.mark.parametrize("drop", [(4, 0), (0, 4), (2, 2), (0, 5), (0, 7), (9, 9)])
def test_dropping_all_jobs_or_more_leaves_nothing_to_tell(drop):
    report = summarise(JOBS, drop=drop)
    assert report["jobs"] == 0
    assert report["mean_wait"] is None
    assert report["fairness_final"] is None
    assert report["objective"] is None
    assert report["classes"]["batch"]["within_120s"] is None


def test_objective_is_the_weighted_sum_less_the_tail():
    weights = RewardWeights(time_utility=0.2, responsiveness=0.3, fairness=0.5, tail=0.1)
    value = weights.objective(0.9, 0.8, 0.6, 100.0)
    assert value == pytest.approx(0.18 + 0.24 + 0.3 - 0.1 * 2)


def test_a_shorter_tail_than_fifo_is_rewarded():
    weights = RewardWeights(tail=0.02)
    gain = weights.objective(0, 0, 0, 0.1) - weights.objective(0, 0, 0, 1.0)
    assert gain == pytest.approx(0.02)


def test_what_batch_jobs_pay_counts_by_its_logarithm_beyond_a_tenth():
    weights = RewardWeights(batch_delay=0.5)
    free = weights.objective(1, 1, 1, 1.0, 0.4)
    assert weights.objective(1, 1, 1, 1.0, 1.1) == free
    assert free - weights.objective(1, 1, 1, 1.0, 11.0) == pytest.approx(0.5)
    assert RewardWeights().objective(1, 1, 1, 1.0, 11.0) == free


def test_slowdown_counts_by_its_logarithm_against_the_smallest_area_first():
    weights = RewardWeights(slowdown=10.0)
    equal = weights.objective(1, 1, 1, 1.0, 1.0, 1.0)
    assert weights.objective(1, 1, 1, 1.0, 1.0, 0.1) - equal == pytest.approx(10.0)
    assert equal - weights.objective(1, 1, 1, 1.0, 1.0, 100.0) == pytest.approx(20.0)
    assert weights.objective(1, 1, 1, 1.0) == equal == RewardWeights().objective(1, 1, 1, 1.0)
    assert RewardWeights().objective(1, 1, 1, 1.0, 1.0, 100.0) == equal


def test_no_slowdown_is_worth_more_than_a_thousandth_of_the_other():
    weights = RewardWeights(slowdown=1.0)
    least = weights.objective(1, 1, 1, 1.0, 1.0, 1e-3)
    assert weights.objective(1, 1, 1, 1.0, 1.0, 0.0) == least


def test_no_wait_at_all_is_worth_no_more_than_a_thousandth_of_fifos():
    weights = RewardWeights()
    assert weights.objective(1, 1, 1, 0.0) == weights.objective(1, 1, 1, 1e-3)


@pytest.mark.parametrize(
    "weights",
    [
        {"time_utility": 0.5},
        {"time_utility": -0.25, "responsiveness": 0.75},
        {"fairness": math.nan},
        {"fairness": math.inf},
        {"time_utility": 0.0, "responsiveness": 0.0, "fairness": 0.0},
    ],
)
def test_weights_that_do_not_sum_to_one_or_are_negative_are_refused(weights):
    with pytest.raises(ConfigurationError, match="non-negative with sum 1"):
        RewardWeights(**weights)


def test_groups_cost_what_they_lose_beyond_a_twentieth():
    weights = RewardWeights(tail=0.0, groups=10.0)
    nothing = weights.objective(0.0, 0.0, 0.0, 1.0)
    assert nothing == 0.0
    assert weights.objective(0.0, 0.0, 0.0, 1.0, group_ratios=(0.2, 1.05)) == nothing
    # one of two groups waits ten times as long as it may: half a decade in the mean
    assert weights.objective(0.0, 0.0, 0.0, 1.0, group_ratios=(0.2, 10.5)) == pytest.approx(-5.0)


@pytest.mark.parametrize("name", ["tail", "batch_delay", "slowdown", "groups"])
@pytest.mark.parametrize("weight", [-0.01, math.nan, math.inf])
def test_an_impossible_weight_of_a_price_is_refused_by_name(name, weight):
    with pytest.raises(ConfigurationError, match=name):
        RewardWeights(**{name: weight})


def test_weights_may_miss_one_by_rounding_only():
    RewardWeights(time_utility=0.25 + 5e-7)
    with pytest.raises(ConfigurationError):
        RewardWeights(time_utility=0.25 + 5e-6)
