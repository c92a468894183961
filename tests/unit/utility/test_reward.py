"""The objective and the weights it refuses."""

import math

import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.utility.reward import RewardWeights


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
