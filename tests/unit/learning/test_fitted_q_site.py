"""Fitted Q on the `site` schema: reward, targets, noise, and that it learns to do well."""

from dataclasses import replace

import numpy as np

from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.algorithms import train_policy
from slurm_rl_plugin.learning.fitted_q import (
    SLOWDOWN,
    SitePatterns,
    site_targets,
    slowdown_rewards,
)
from slurm_rl_plugin.learning.regression import FeedForwardRegressor
from slurm_rl_plugin.learning.training_load import TrainingLoad, mean_objective, rule_objective
from slurm_rl_plugin.simulator.rollouts.site_experience import NOBODY, SiteExperience
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log

SETTINGS = replace(SLOWDOWN, iterations=2, batch=2, passes=5)


def load(seed):
    """Users who ask for whole hours, on 20 processors."""
    log = generated_log(f"mmn:jobs=600,processors=20,load=.97,seed={seed}")
    log.time_limit[:] = 3600 * np.ceil(log.run_time / 3600)
    settings = SimulationSettings(capacity=20, backfilling="easy")
    return TrainingLoad.of(prepare_log(log), RequestedLimit(), settings)


TRAINING, VALIDATION = [load(1), load(2), load(3)], [load(4)]


REGRESSOR = FeedForwardRegressor(schema=SITE, hidden=3, passes=2, decay=1e-4)


def patterns(**changes):
    return SitePatterns(settings=replace(SETTINGS, **changes), regressor=REGRESSOR)


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
    collected = patterns().collected(numbers(), TRAINING[:1], 2)[0]
    reward = slowdown_rewards(collected, 1.0)
    network = patterns().regressor.network(numbers(2))
    np.testing.assert_array_equal(site_targets(collected, reward, network, 0.0), reward)
    np.testing.assert_array_equal(site_targets(collected, reward, None, 0.5), reward)
    found = site_targets(collected, reward, network, 0.5)
    np.testing.assert_array_equal(found[-1], reward[-1])
    for start in (0, 17, len(reward) - 2):
        present = collected.job[start + 1] != NOBODY
        ahead = network.scores(collected.queue[start + 1], collected.features[start + 1][present])
        np.testing.assert_allclose(found[start], reward[start] + 0.5 * ahead.max())


def test_a_short_training_does_about_as_well_as_smallest_area_first():
    trained = train_policy(TRAINING, VALIDATION, SETTINGS)
    fifo = rule_objective("fifo", VALIDATION, SETTINGS.weights)
    saf = rule_objective("saf", VALIDATION, SETTINGS.weights)
    assert trained.validation_objective > fifo + 0.7 * (saf - fifo)
    there = mean_objective(trained.network, VALIDATION, SETTINGS.weights)
    assert there == trained.validation_objective
    assert trained.simulated_jobs == 2 * 2 * 2 * 600
