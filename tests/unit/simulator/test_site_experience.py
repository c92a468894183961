"""Experience on the `site` schema: what a scorer saw at each start, and what the start cost."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.simulator.kernel.cluster import (
    IDLE,
    NOW,
    PENDING,
    advance,
    decision_time,
    empty_cluster,
    next_event,
)
from slurm_rl_plugin.simulator.kernel.dispatch import EASY, anything_fits, dispatch_by_score
from slurm_rl_plugin.simulator.kernel.workload_history import NO_PAST
from slurm_rl_plugin.simulator.rollouts.site_experience import MOST_OTHERS, NOBODY, site_experience
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_network,
)
from slurm_rl_plugin.simulator.scoring.compiled_network import compile_network
from slurm_rl_plugin.simulator.scoring.network import score_pending
from tests.reference.loads import users_workload
from tests.reference.test_history_against_readable_simulator import predicting_network
from tests.reference.test_network_against_readable_simulator import CAPACITY

EITHER = pytest.mark.parametrize("predicts", [True, False])


def a_simulation(seed=5, *, predicts=True, cycle=0.0, jobs=200):
    """A workload, a network of large weights, settings, and the starts."""
    workload, network = users_workload(seed, jobs, parallel=True), predicting_network(seed)
    if not predicts:
        network = replace(network, prediction=None)
        network.job_weights[-8:], network.linear[-8:] = 0.0, 0.0
    half_life = 2000.0 if cycle else np.inf
    settings = SimulationSettings(
        capacity=CAPACITY, backfilling="easy", cycle=cycle, half_life=half_life
    )
    return workload, network, settings, simulate_network(workload, network, settings).start


def scores_while_simulating(workload, network, settings):
    """(instant, job) -> its score, as the compiled scorer gave it there."""
    cluster = empty_cluster(workload, settings.capacity, settings.half_life)
    scorer, found = compile_network(network, workload), {}
    no_rank = np.empty(0, dtype=np.int64)
    scores = np.empty(len(workload.submit) + 1)
    jobs = np.empty(len(workload.submit) + 1, dtype=np.int64)
    while not np.isinf(event := next_event(workload, cluster)):
        advance(workload, cluster, decision_time(event, settings.cycle), no_rank)
        if cluster.counts[IDLE] == 0 or not anything_fits(workload, cluster):
            continue
        score_pending(workload, cluster, scorer, scores, jobs)
        now = float(cluster.clock[NOW])
        for place in range(cluster.counts[PENDING]):
            found[now, int(jobs[place])] = scores[place]
        dispatch_by_score(workload, cluster, scores, jobs, EASY, 0)
    return found


@EITHER
@pytest.mark.parametrize("cycle", [0.0, 30.0])
def test_a_network_scores_what_was_written_down_as_the_compiled_scorer_did(predicts, cycle):
    workload, network, settings, start = a_simulation(predicts=predicts, cycle=cycle)
    found = site_experience(workload, start, settings, network.prediction)
    known = scores_while_simulating(workload, network, settings)
    again = network.scores(found.queue[:, None], found.features)
    row, column = np.nonzero(found.job != NOBODY)
    assert len(row) > 300
    jobs = found.job[row, column].tolist()
    expected = [known[now, job] for now, job in zip(found.now[row].tolist(), jobs, strict=True)]
    np.testing.assert_allclose(again[row, column], expected, rtol=0, atol=1e-9)


def test_every_start_that_leaves_somebody_waiting_is_written_down_in_order():
    workload, network, settings, start = a_simulation()
    found = site_experience(workload, start, settings, network.prediction)
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
    workload, network, settings, start = a_simulation()
    found = site_experience(workload, start, settings, network.prediction)
    row = int(np.argmax((found.job != NOBODY).sum(axis=1)))
    left = np.flatnonzero((workload.submit <= found.now[row]) & (start > found.now[row]))
    held = workload.run_time * workload.processors / CAPACITY
    counted = np.maximum(workload.run_time, 10.0)
    for column in (0, 1, 5):
        job = found.job[row, column]
        others = left[left != job]
        assert found.spared[row, column] == pytest.approx(np.sum(held[others] / counted[job]))
        assert found.lost[row, column] == pytest.approx(np.sum(held[job] / counted[others]))


def test_where_nobody_waits_there_is_nothing_to_write_down():
    workload, network, settings, _ = a_simulation(predicts=False)
    apart = workload._replace(submit=np.arange(200) * 1e5, past=NO_PAST)
    start = simulate_network(apart, network, settings).start
    found = site_experience(apart, start, settings, None)
    assert len(found.now) == 0
    assert found.features.shape[0] == 0
