"""Each kind of SARSA goes on after an interruption and learns what its reward says."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.reactive_grid import REACTIVE_GRID
from slurm_rl_plugin.learning.algorithms import train_policy
from slurm_rl_plugin.learning.evaluation.paired import Candidate, schedule_of, starts_under
from slurm_rl_plugin.learning.sarsa import (
    PAPER,
    OnLineLearner,
    SarsaLearner,
    SarsaSettings,
    acted_starts,
    network_of,
    recorded_starts,
)
from slurm_rl_plugin.learning.training_load import TrainingLoad, mean_objective
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_network
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.utility.summary import JobMeasures
from tests.fakes.power_cut import Interrupted, stop_at

ESTIMATE = len(REACTIVE_GRID.queue) + REACTIVE_GRID.jobs.index("log_estimate")
SETTINGS = SarsaSettings(sweeps=5, pretraining_sweeps=2, hidden=6, epochs=2, seed=5)
#: Updates and pre-trainings that walk different ways through the learner.
KINDS = {
    "recorded": replace(SETTINGS, pretraining="recorded"),
    "recorded batch": replace(SETTINGS, pretraining="recorded", update="batch"),
}


def load(seed, jobs=300, recorded="fifo", processors=5):
    """A small load whose log records the starts of a rule."""
    log = mmn_log(np.random.default_rng(seed), processors=processors, jobs=jobs)
    prepared = prepare_log(log)
    machine = SimulationSettings(capacity=processors, half_life=np.inf)
    if recorded:
        start = starts_under(Candidate(name=recorded), prepared, prepared.workload(None), machine)
        prepared = replace(prepared, log=replace(log, start=start))
    return TrainingLoad.of(prepared, None, machine)


TRAINING, VALIDATION = [load(1), load(2)], [load(3)]


def train(settings=SETTINGS, training=TRAINING, **more):
    return train_policy(training, VALIDATION, settings, **more)


def weights(trained):
    network = trained.network
    arrays = (network.queue_weights, network.job_weights, network.bias, network.output)
    return b"".join(array.tobytes() for array in arrays) + str(network.output_bias).encode()


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS.keys())
def test_an_interrupted_training_goes_on_and_ends_with_the_same_network(tmp_path, settings):
    checkpoint = tmp_path / "kept"
    with pytest.raises(Interrupted):
        train(settings, checkpoint=checkpoint, progress=stop_at(3))
    resumed, uninterrupted = train(settings, checkpoint=checkpoint), train(settings)
    assert weights(resumed) == weights(uninterrupted)
    assert resumed.curve == uninterrupted.curve


def test_the_best_network_is_kept_or_the_last_where_that_is_asked_for():
    settings = replace(SETTINGS, reward="literal")
    best, last = train(settings), train(replace(settings, keep="last"))
    values = [value for *_, value in best.curve]
    assert best.curve == last.curve
    assert (best.validation_objective, last.validation_objective) == (max(values), values[-1])
    for each in (best, last):
        found = mean_objective(each.network, VALIDATION, settings.weights)
        assert found == each.validation_objective


LEARNING = SarsaSettings(sweeps=8, pretraining_sweeps=2)
LARGER = [load(seed, jobs=1500, processors=10) for seed in (11, 12)]


@pytest.mark.parametrize("update", ["online", "batch"])
def test_the_difference_reward_learns_nearly_shortest_job_first(update):
    network = train(replace(LEARNING, update=update), training=LARGER).network
    learned, shortest = [], []
    for each in LARGER:
        learned.append(each.starts(network) - each.workload.submit)
        start = starts_under(Candidate(name="sjf"), each.prepared, each.workload, each.settings)
        shortest.append(start - each.workload.submit)
    assert np.mean(learned) < 1.15 * np.mean(shortest)


def acted(each, *, by_deadline, settings=SETTINGS):
    parameters = SarsaLearner(settings).parameters
    rng = np.random.default_rng(1)
    return acted_starts(parameters, each, settings, rng, by_deadline=by_deadline)


@pytest.mark.parametrize(
    "settings",
    [replace(SETTINGS, reward=each) for each in ("difference", "completed", "running")],
    ids=lambda settings: settings.reward,
)
def test_recorded_starts_are_what_sarsa_would_have_seen_of_them(settings):
    each = load(7, recorded="edf")
    simulated = acted(each, by_deadline=True, settings=settings)
    recorded = recorded_starts(each, settings)
    np.testing.assert_allclose(recorded.inputs, simulated.inputs, atol=1e-9)
    np.testing.assert_allclose(recorded.reward, simulated.reward, atol=1e-9)
    other = recorded_starts(load(7, recorded="sjf"), settings)
    assert not np.allclose(other.inputs, recorded.inputs)


def test_a_log_that_ran_more_than_its_machine_holds_can_be_learned_from():
    each = load(7, recorded=None)
    at_once = replace(each.prepared, log=replace(each.prepared.log, start=each.workload.submit))
    starts = recorded_starts(replace(each, prepared=at_once), SETTINGS)
    idle = starts.inputs[:, REACTIVE_GRID.queue.index("idle_fraction")] * 0.5 + 0.5
    assert idle.min() == 0.0
    assert np.isfinite(starts.reward).all()
    with pytest.raises(ConfigurationError, match="300 jobs of a training log lack theirs"):
        recorded_starts(each, SETTINGS)


def test_the_frozen_network_starts_what_the_learner_would():
    learner, each = SarsaLearner(SETTINGS), load(8)
    learner.sweep(1, each)
    greedy = replace(SETTINGS, epsilon=0.0, update="batch")  # looks, and does not learn
    rng = np.random.default_rng(1)
    acted_now = acted_starts(learner.parameters, each, greedy, rng, by_deadline=False)
    network = network_of(learner.parameters)
    start = simulate_network(each.workload, network, each.settings).start
    estimates = np.log10(1 + each.workload.estimate[np.argsort(start, kind="stable")]) / 6
    np.testing.assert_allclose(acted_now.inputs[:, ESTIMATE] * 0.15 + 0.5, estimates)


def test_a_start_is_paid_the_utility_of_the_jobs_that_complete_until_the_next_one():
    """Sequential jobs and rewards without fairness: each utility is paid out exactly once."""
    settings = replace(SETTINGS, reward="completed", utility_weight=1.0)
    each = load(7, recorded="edf")
    start = each.prepared.log.start
    paid = acted(each, by_deadline=True, settings=settings).reward
    utility = JobMeasures.of(schedule_of(each.prepared, start, each.settings)).time_utility
    begun, end = np.sort(start, kind="stable"), start + each.workload.run_time
    for place in range(len(begun) - 1):
        # ends at the very second of a start come before it
        mine = (end > begun[place]) & (end <= begun[place + 1])
        assert paid[place] == pytest.approx(utility[mine].mean() if mine.any() else 0.0)
    assert (paid[:-1] > 0.0).any()


def test_a_start_is_paid_the_utility_of_the_jobs_that_run_at_the_next_one():
    settings = replace(SETTINGS, reward="running", utility_weight=1.0)
    each = load(7, recorded="edf")
    found = acted(each, by_deadline=True, settings=settings)
    place = REACTIVE_GRID.queue.index("running_time_utility")
    seen = found.inputs[:, place] * 0.5 + 0.5
    np.testing.assert_allclose(found.reward[:-1], seen[1:])


@pytest.mark.parametrize("one_hot", [False, True])
def test_a_learner_on_line_learns_at_every_start_and_frozen_not_at_all(one_hot):
    calibration, measured = load(1), load(2)
    settings = replace(PAPER, reward="completed", hidden=6)

    def learner():
        return OnLineLearner(calibration, settings, replayed=20, one_hot=one_hot)

    one, again = learner(), learner()
    before = one.parameters.copy()
    frozen = one.run(measured, learning=False)
    np.testing.assert_array_equal(one.parameters, before)
    learned = one.run(measured, learning=True)
    assert not np.array_equal(one.parameters, before)
    assert not np.array_equal(learned, frozen)
    np.testing.assert_array_equal(again.run(measured, learning=True), learned)
    assert len(before) == (11 + 3 * one_hot + 2) * 6 + 1
    assert (learned >= measured.workload.submit).all()
