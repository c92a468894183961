"""What a start is worth, by hand: the papers' reward and the difference."""

import math

import numpy as np
import pytest

from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.simulator.kernel.cluster import (
    advance,
    empty_cluster,
    forget_started,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.rollouts.sarsa import (
    DIFFERENCE,
    DIFFERENCE_REACHED,
    LITERAL,
    interchange_gain,
    start_reward,
)
from slurm_rl_plugin.simulator.scoring.perceptron import (
    descend,
    perceptron_of,
    random_parameters,
    value_of,
    values_of,
)
from slurm_rl_plugin.utility.time_utility import JobUtilities, job_rows

NOTHING = np.empty(0, dtype=np.int64)
RUN_TIME = np.array([500.0, 60.0, 940.0, 120.0])


def waiting(now=300.0):
    """Job 0 runs since 0; jobs 1 (interactive), 2 (batch) and 3 (interactive) wait."""
    workload = Workload.of(
        submit=np.array([0.0, 100.0, 200.0, 290.0]),
        run_time=RUN_TIME,
        estimate=np.full(4, 7.0),  # rewards are counted with the real run times
        time_limit=RUN_TIME,
        processors=np.ones(4, dtype=np.int64),
        account=np.array([1, 0, 1, 0]),
        interactive=np.array([False, True, False, True]),
        shares=np.array([0.75, 0.25]),
    )
    cluster = empty_cluster(workload, 2)
    advance(workload.jobs, cluster, 0.0, NOTHING)
    start_job(workload.jobs, cluster, 0)
    forget_started(cluster)
    advance(workload.jobs, cluster, now, NOTHING)
    return workload, cluster, job_rows(workload.interactive, None)


def interactive_kept(delay):
    return math.exp(-0.5 * delay / 60.0)


def batch_kept(delay):
    return ((1000.0 + delay) / 1000.0) ** -0.3


def test_the_literal_reward_is_the_utility_of_the_job_and_the_fairness_at_its_start():
    load = waiting()
    late = math.exp(-0.5 * (200.0 - 60.0) / 60.0)
    fair = 1.0 - 0.75 / 0.75  # only account 1 has been served
    for weight in (0.0, 0.3, 1.0):
        expected = weight * late + (1.0 - weight) * fair
        assert start_reward(*load, 1, weight, LITERAL) == pytest.approx(expected)
    assert start_reward(*load, 2, 1.0, LITERAL) == pytest.approx(1.04**-0.3)
    assert start_reward(*load, 3, 1.0, LITERAL) == 1.0


def test_the_difference_is_what_this_order_keeps_over_the_other_one():
    load = waiting()
    against_batch = batch_kept(60.0) - interactive_kept(940.0)
    against_interactive = interactive_kept(60.0) - interactive_kept(120.0)
    expected = (against_batch + against_interactive) / 2
    assert interchange_gain(*load, 1, False) == pytest.approx(expected)
    assert start_reward(*load, 1, 0.4, DIFFERENCE) == pytest.approx(0.4 * expected)
    against_both = interactive_kept(940.0) - batch_kept(60.0)
    against_both += interactive_kept(940.0) - batch_kept(120.0)
    assert interchange_gain(*load, 2, False) == pytest.approx(against_both / 2)


def test_counted_from_the_waits_reached_a_job_has_only_its_last_utility_to_lose():
    load = waiting()
    left = interactive_kept(140.0)  # job 1 is 140 s past its deadline, job 3 not yet
    expected = left * (1.0 - interactive_kept(120.0)) - (1.0 - interactive_kept(60.0))
    expected += left * (1.0 - interactive_kept(940.0)) - (batch_kept(40.0) - batch_kept(100.0))
    assert interchange_gain(*load, 1, True) == pytest.approx(expected / 2)
    reward = start_reward(*load, 1, 1.0, DIFFERENCE_REACHED)
    assert reward == pytest.approx(expected / 2)


def test_a_class_of_the_sites_own_is_rewarded_by_its_own_utility():
    """Start within 60 s or never: a job in time loses all by any further wait, a late one none."""
    workload, cluster, _ = waiting()
    refused = {**BUILT_IN, "SDJ": UtilityClass(form="deadline", interactive=True)}
    of_job = JobUtilities.of(refused, np.array([0, 2, 0, 2]))
    load = (workload, cluster, job_rows(workload.interactive, of_job))
    assert start_reward(*load, 1, 1.0, LITERAL) == 0.0  # it waited for 200 s
    assert start_reward(*load, 3, 1.0, LITERAL) == 1.0
    expected = (1.0 - (1.0 - batch_kept(60.0))) / 2  # job 3 loses as much by job 1 as 1 by 3
    assert interchange_gain(*load, 1, False) == pytest.approx(expected)


RNG = np.random.default_rng(4)
PARAMETERS = random_parameters(RNG, 11, 6)
EXAMPLES = RNG.normal(0.0, 1.0, (40, 11))


def test_outputs_are_those_of_the_formula():
    network = perceptron_of(PARAMETERS, 11)
    active = 1.0 / (1.0 + np.exp(-(EXAMPLES @ network.weights + network.bias)))
    expected = active @ network.output + network.offset[0]
    np.testing.assert_allclose(values_of(network, EXAMPLES), expected, rtol=1e-12)
    assert value_of(network, EXAMPLES[3]) == values_of(network, EXAMPLES)[3]


def test_one_step_goes_down_the_gradient():
    moved, rate, step = PARAMETERS.copy(), 1e-3, 1e-6
    descend(perceptron_of(moved, 11), EXAMPLES[0], 0.7, rate)

    def loss(parameters):
        return (0.7 - value_of(perceptron_of(parameters, 11), EXAMPLES[0])) ** 2 / 2

    for place in range(0, len(PARAMETERS), 5):
        nudge = np.zeros(len(PARAMETERS))
        nudge[place] = step
        slope = (loss(PARAMETERS + nudge) - loss(PARAMETERS - nudge)) / (2 * step)
        np.testing.assert_allclose(moved[place] - PARAMETERS[place], -rate * slope, atol=1e-10)
