"""The reward of a start, and what a scorer saw at it."""

import math

import numpy as np
import pytest

from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.rollout import MOST_OTHERS, NO_JOB, site_experience
from slurm_rl_plugin.learning.sarsa_loop import (
    DIFFERENCE,
    LITERAL,
    descend,
    interchange_gain,
    perceptron_of,
    random_parameters,
    start_reward,
    value_of,
    values_of,
)
from slurm_rl_plugin.simulator.kernel.cluster import (
    advance,
    empty_cluster,
    forget_started,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.workload import NO_PAST
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_network
from slurm_rl_plugin.utility.time_utility import JobUtilities, job_rows
from tests.reference.loads import users_workload, workload_of
from tests.reference.test_history_against_readable_simulator import (
    predicting_network,
    scores_while_simulating,
)
from tests.reference.test_network_against_readable_simulator import CAPACITY, random_network

NOTHING = np.empty(0, dtype=np.int64)
RUN_TIME = np.array([500.0, 60.0, 940.0, 120.0])


def waiting(now=300.0):
    """Job 0 runs since 0; jobs 1 (interactive), 2 (batch) and 3 (interactive) wait."""
    workload = workload_of(
        [0.0, 100.0, 200.0, 290.0],
        RUN_TIME,
        estimate=np.full(4, 7.0),
        account=[1, 0, 1, 0],
        interactive=[False, True, False, True],
        shares=[0.75, 0.25],
    )
    cluster = empty_cluster(workload, 2)
    advance(cluster, 0.0)
    start_job(cluster, 0)
    forget_started(cluster)
    advance(cluster, now)
    return cluster, job_rows(workload.interactive, None)


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
    assert interchange_gain(*load, 1) == pytest.approx(expected)
    assert start_reward(*load, 1, 0.4, DIFFERENCE) == pytest.approx(0.4 * expected)
    against_both = interactive_kept(940.0) - batch_kept(60.0)
    against_both += interactive_kept(940.0) - batch_kept(120.0)
    assert interchange_gain(*load, 2) == pytest.approx(against_both / 2)


def test_a_class_of_the_sites_own_is_rewarded_by_its_own_utility():
    """Start within 60 s or never: a job in time loses all by any further wait, a late one none."""
    cluster, _ = waiting()
    refused = {**BUILT_IN, "SDJ": UtilityClass(form="deadline", interactive=True)}
    of_job = JobUtilities.of(refused, np.array([0, 2, 0, 2]))
    load = (cluster, job_rows(cluster.jobs.interactive, of_job))
    assert start_reward(*load, 1, 1.0, LITERAL) == 0.0  # it waited for 200 s
    assert start_reward(*load, 3, 1.0, LITERAL) == 1.0
    expected = (1.0 - (1.0 - batch_kept(60.0))) / 2  # job 3 loses as much by job 1 as 1 by 3
    assert interchange_gain(*load, 1) == pytest.approx(expected)


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


EITHER = pytest.mark.parametrize("knows_users", [True, False])


def a_simulation(seed=5, *, knows_users=True, cycle=0.0, jobs=200):
    """A workload, a network of large weights, settings, and the starts."""
    workload, network = users_workload(seed, jobs, parallel=True), predicting_network(seed)
    if not knows_users:
        workload, network = workload.having(past=NO_PAST), random_network(seed)
    half_life = 2000.0 if cycle else np.inf
    settings = SimulationSettings(
        capacity=CAPACITY, backfilling="easy", cycle=cycle, half_life=half_life
    )
    return workload, network, settings, simulate_network(workload, network, settings).start


@EITHER
@pytest.mark.parametrize("cycle", [0.0, 30.0])
def test_a_network_scores_what_was_written_down_as_the_compiled_scorer_did(knows_users, cycle):
    workload, network, settings, start = a_simulation(knows_users=knows_users, cycle=cycle)
    found = site_experience(workload, start, settings)
    known = scores_while_simulating(workload, network, settings)
    again = network.scores(found.queue[:, None], found.features)
    row, column = np.nonzero(found.job != NO_JOB)
    assert len(row) > 300
    jobs = found.job[row, column].tolist()
    expected = [known[now, job] for now, job in zip(found.now[row].tolist(), jobs, strict=True)]
    np.testing.assert_allclose(again[row, column], expected, rtol=0, atol=1e-9)


def test_the_longest_wait_may_be_of_a_job_that_left_nobody_waiting():
    """One processor: a job waits 9999 s alone; half of that is longer than the next one waits."""
    workload = users_workload(1, 4, parallel=False).having(
        submit=np.array([0.0, 1.0, 11_000.0, 11_000.0]),
        run_time=np.array([10_000.0, 5000.0, 10.0, 10.0]),
    )
    settings = SimulationSettings(capacity=1)
    start = np.array([0.0, 10_000.0, 15_000.0, 15_010.0])
    found = site_experience(workload, start, settings)
    assert found.now.tolist() == [15_000.0]
    overdue = SITE.jobs.index("overdue")
    assert found.features[0, :2, overdue].tolist() == [0.0, 0.0]


def test_every_start_that_leaves_somebody_waiting_is_written_down_in_order():
    workload, _, settings, start = a_simulation()
    found = site_experience(workload, start, settings)
    expected = []
    for now in np.unique(start):
        starting = np.flatnonzero(start == now)
        left = np.flatnonzero((workload.submit <= now) & (start > now))
        if len(left):
            expected += [(now, job, left) for job in starting]
    assert len(found.now) == len(expected)
    for row, (now, job, left) in enumerate(expected):
        assert (found.now[row], found.job[row, 0]) == (now, job)
        others = found.job[row, 1:][found.job[row, 1:] != NO_JOB]
        assert len(others) == min(len(left), MOST_OTHERS)
        assert set(others) <= set(left)
        assert len(set(others)) == len(others)


def test_what_is_spared_and_lost_is_that_of_an_interchange():
    workload, _, settings, start = a_simulation()
    found = site_experience(workload, start, settings)
    row = int(np.argmax((found.job != NO_JOB).sum(axis=1)))
    left = np.flatnonzero((workload.submit <= found.now[row]) & (start > found.now[row]))
    held = workload.run_time * workload.processors / CAPACITY
    counted = np.maximum(workload.run_time, 10.0)
    for column in (0, 1, 5):
        job = found.job[row, column]
        others = left[left != job]
        assert found.spared[row, column] == pytest.approx(np.sum(held[others] / counted[job]))
        assert found.lost[row, column] == pytest.approx(np.sum(held[job] / counted[others]))
