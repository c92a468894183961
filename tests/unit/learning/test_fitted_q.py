"""Fitted Q learns what it is rewarded for, on the grid's and on the site's schema."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.features.reactive_grid import REACTIVE_GRID_2011
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.algorithms import train_policy
from slurm_rl_plugin.learning.fitted_q import (
    SLOWDOWN,
    FittedQSettings,
    SitePatterns,
    rewards,
    site_targets,
    slowdown_rewards,
    targets,
    with_a_choice,
)
from slurm_rl_plugin.learning.regression import EchoStateRegressor, FeedForwardRegressor, Samples
from slurm_rl_plugin.learning.rollout import (
    NO_JOB,
    SiteExperience,
    best_action_values,
    collect_experience,
)
from slurm_rl_plugin.learning.training_load import TrainingLoad, mean_objective, rule_objective
from slurm_rl_plugin.policies.echo_state import ReservoirSettings
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.echo_state import compile_echo_state
from slurm_rl_plugin.simulator.workloads.generators import egee_log, generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log

SETTINGS = FittedQSettings(iterations=4, kept=2, passes=3, reservoir=ReservoirSettings(size=30))
BOTH = pytest.mark.parametrize("regressor", ["feed-forward", "echo-state"])


def load(seed, jobs=400, estimates=None):
    log = egee_log(np.random.default_rng(seed), processors=10, jobs=jobs, load=0.8)
    return TrainingLoad.of(prepare_log(log), estimates, SimulationSettings(capacity=10))


TRAINING, VALIDATION = [load(1), load(2)], [load(3)]


def train(regressor, **more):
    settings = replace(SETTINGS, regressor=regressor, **more.pop("settings", {}))
    return train_policy(TRAINING, VALIDATION, settings, **more)


@cache
def uninterrupted(kind):
    return train(kind)


@BOTH
def test_with_the_oracle_it_learns_short_jobs_first(regressor):
    fifo, sjf = (rule_objective(r, VALIDATION, SETTINGS.weights) for r in ("fifo", "sjf"))
    assert sjf > fifo
    learned = uninterrupted(regressor).validation_objective
    assert learned > fifo + 0.8 * (sjf - fifo)


def experience(epsilon=0.3):
    here = uninterrupted("echo-state").network
    rng = np.random.default_rng(4)
    found = collect_experience(
        TRAINING[0].workload, here, TRAINING[0].settings, epsilon=epsilon, rng=rng
    )
    return here, found


def test_each_reward_is_what_its_name_says():
    _, found = experience()
    reward = rewards(found, "literal", 0.25)
    np.testing.assert_allclose(reward, 0.25 * found.responsiveness + 0.75 * found.fairness)
    gained = np.append(np.diff(found.fairness), 0.0)
    reward = rewards(found, "difference", 0.25)
    np.testing.assert_allclose(reward, -0.25 * found.lost + 0.75 * gained)


def test_targets_look_one_start_ahead_and_pass_through_starts_without_a_choice():
    here, found = experience()
    reward = rewards(found, "difference", 1.0)
    workload = TRAINING[0].workload
    value = best_action_values(compile_echo_state(here, workload), found)
    target = targets(found, reward, here, workload, 0.5)
    free = with_a_choice(found)
    assert free[:-1].any()
    assert not free.all()
    assert target[-1] == reward[-1]
    for start in range(len(reward) - 1):
        ahead = value[start + 1] if free[start + 1] else target[start + 1]
        assert target[start] == pytest.approx(reward[start] + 0.5 * ahead)


def samples(seed=5, count=3000):
    rng = np.random.default_rng(seed)
    queue, jobs = rng.random((count, 8)), rng.random((count, 3))
    return Samples(
        queue=queue,
        jobs=jobs,
        states=rng.random((count, 30)),
        targets=2.0 - queue[:, 0] + 3.0 * jobs[:, 2],
    )


def test_both_regressors_find_a_linear_function():
    known = samples()
    plain = FeedForwardRegressor(schema=REACTIVE_GRID_2011, hidden=6, passes=40, decay=1e-5)
    network = plain.network(plain.fit(known, 1))
    found = [network.scores(q, x[None])[0] for q, x in zip(known.queue, known.jobs, strict=True)]
    assert np.abs(np.array(found) - known.targets).mean() < 0.1
    reservoir = EchoStateRegressor.drawn(
        REACTIVE_GRID_2011, ReservoirSettings(size=30), ridge=1e-6, seed=1
    )
    echo = reservoir.network(reservoir.fit(known, 1))
    np.testing.assert_allclose(echo.job_linear, [0.0, 0.0, 1.5], atol=1e-3)
    np.testing.assert_allclose(echo.queue_linear, [-0.5, *[0.0] * 7], atol=1e-3)


def test_loads_without_any_queue_are_refused():
    log = egee_log(np.random.default_rng(1), processors=500, jobs=50, load=0.01)
    idle = TrainingLoad.of(prepare_log(log), None, SimulationSettings(capacity=500))
    with pytest.raises(ConfigurationError, match="busier"):
        train_policy([idle], [idle], SETTINGS)


SETTINGS_SITE = replace(SLOWDOWN, iterations=2, batch=2, passes=5)


def load_site(seed):
    """Users who ask for whole hours, on 20 processors."""
    log = generated_log(f"mmn:jobs=600,processors=20,load=.97,seed={seed}")
    log.time_limit[:] = 3600 * np.ceil(log.run_time / 3600)
    settings = SimulationSettings(capacity=20, backfilling="easy")
    return TrainingLoad.of(prepare_log(log), RequestedLimit(), settings)


TRAINING_SITE, VALIDATION_SITE = [load_site(1), load_site(2), load_site(3)], [load_site(4)]


REGRESSOR = FeedForwardRegressor(schema=SITE, hidden=3, passes=2, decay=1e-4)


def patterns(**changes):
    return SitePatterns(settings=replace(SETTINGS_SITE, **changes), regressor=REGRESSOR)


def numbers(seed=1):
    """Parameters of a network."""
    size = (len(SITE.queue) + len(SITE.jobs) + 2) * 3
    values = np.random.default_rng(seed).normal(size=size)
    return [*values.tolist(), *[0.0] * len(SITE.jobs), 0.5]


def stakes(spared, lost):
    nothing = np.empty(0)
    job = np.zeros(np.shape(spared), dtype=np.int64)
    return SiteExperience(nothing, nothing, job, nothing, np.array(spared), np.array(lost))


def test_the_reward_compares_what_is_spared_with_what_is_lost():
    found = stakes([[3.0, 1.0, 0.0, 0.0]], [[1.0, 1.0, 5.0, 0.0]])
    np.testing.assert_allclose(slowdown_rewards(found, 1.0), [[0.5, 0.0, -1.0, 0.0]])
    tempered = slowdown_rewards(stakes([[16.0]], [[1.0]]), 0.25)
    np.testing.assert_allclose(tempered, [[(2.0 - 1.0) / (2.0 + 1.0)]])


def test_targets_look_one_start_ahead():
    collected = patterns().collected(numbers(), TRAINING_SITE[:1], 2)[0]
    reward = slowdown_rewards(collected, 1.0)
    network = patterns().regressor.network(numbers(2))
    np.testing.assert_array_equal(site_targets(collected, reward, network, 0.0), reward)
    np.testing.assert_array_equal(site_targets(collected, reward, None, 0.5), reward)
    found = site_targets(collected, reward, network, 0.5)
    np.testing.assert_array_equal(found[-1], reward[-1])
    for start in (0, 17, len(reward) - 2):
        present = collected.job[start + 1] != NO_JOB
        ahead = network.scores(collected.queue[start + 1], collected.features[start + 1][present])
        np.testing.assert_allclose(found[start], reward[start] + 0.5 * ahead.max())


def test_a_short_training_does_about_as_well_as_smallest_area_first():
    trained = train_policy(TRAINING_SITE, VALIDATION_SITE, SETTINGS_SITE)
    fifo = rule_objective("fifo", VALIDATION_SITE, SETTINGS_SITE.weights)
    saf = rule_objective("saf", VALIDATION_SITE, SETTINGS_SITE.weights)
    assert trained.validation_objective > fifo + 0.7 * (saf - fifo)
    there = mean_objective(trained.network, VALIDATION_SITE, SETTINGS_SITE.weights)
    assert there == trained.validation_objective
    assert trained.simulated_jobs == 2 * 2 * 2 * 600
