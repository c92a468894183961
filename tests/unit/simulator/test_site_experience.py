"""Experience on the `site` schema: what a scorer saw at each start, and what the start cost."""

import numpy as np
import pytest

from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.simulator.kernel.workload import NO_PAST
from slurm_rl_plugin.simulator.rollouts.site_experience import MOST_OTHERS, NOBODY, site_experience
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_network
from tests.reference.loads import users_workload
from tests.reference.test_history_against_readable_simulator import (
    predicting_network,
    scores_while_simulating,
)
from tests.reference.test_network_against_readable_simulator import CAPACITY, random_network

EITHER = pytest.mark.parametrize("knows_users", [True, False])


def a_simulation(seed=5, *, knows_users=True, cycle=0.0, jobs=200):
    """A workload, a network of large weights, settings, and the starts."""
    workload, network = users_workload(seed, jobs, parallel=True), predicting_network(seed)
    if not knows_users:
        workload, network = workload._replace(past=NO_PAST), random_network(seed)
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
    row, column = np.nonzero(found.job != NOBODY)
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
        others = found.job[row, 1:][found.job[row, 1:] != NOBODY]
        assert len(others) == min(len(left), MOST_OTHERS)
        assert set(others) <= set(left)
        assert len(set(others)) == len(others)


def test_what_is_spared_and_lost_is_that_of_an_interchange():
    workload, _, settings, start = a_simulation()
    found = site_experience(workload, start, settings)
    row = int(np.argmax((found.job != NOBODY).sum(axis=1)))
    left = np.flatnonzero((workload.submit <= found.now[row]) & (start > found.now[row]))
    held = workload.run_time * workload.processors / CAPACITY
    counted = np.maximum(workload.run_time, 10.0)
    for column in (0, 1, 5):
        job = found.job[row, column]
        others = left[left != job]
        assert found.spared[row, column] == pytest.approx(np.sum(held[others] / counted[job]))
        assert found.lost[row, column] == pytest.approx(np.sum(held[job] / counted[others]))
