"""Fitted Q iteration, feed-forward or with an echo state network (2011, Algorithm 1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.reactive_grid import log_wait
from slurm_rl_plugin.learning.checkpoint import Checkpoint
from slurm_rl_plugin.learning.fitted_q_settings import SCHEMAS, FittedQSettings
from slurm_rl_plugin.learning.fitted_q_targets import rewards, targets, with_a_choice
from slurm_rl_plugin.learning.q_regression import (
    EchoStateRegressor,
    FeedForwardRegressor,
    QRegressor,
    Samples,
)
from slurm_rl_plugin.learning.trained_policy import Progress, TrainedPolicy
from slurm_rl_plugin.learning.training_load import TrainingLoad, mean_objective
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.simulator.cluster import Workload
from slurm_rl_plugin.simulator.experience import Experience
from slurm_rl_plugin.simulator.reactive_grid import grid_job_table
from slurm_rl_plugin.simulator.rollout import collect_experience
from slurm_rl_plugin.units import FloatArray


def _regressor(settings: FittedQSettings) -> QRegressor:
    schema = SCHEMAS[settings.schema]
    if settings.regressor == "feed-forward":
        return FeedForwardRegressor(
            schema=schema, hidden=settings.hidden, passes=settings.passes, decay=settings.decay
        )
    return EchoStateRegressor.drawn(schema, settings.reservoir, settings.ridge, settings.seed)


def _collected(
    network: EchoStateNetwork,
    loads: Sequence[TrainingLoad],
    settings: FittedQSettings,
    iteration: int,
) -> list[Experience]:
    """Experience of every load; the first is that of simple orders, for want of a policy."""
    epsilon = None if iteration == 1 else settings.epsilon
    return [
        collect_experience(
            load.workload,
            network,
            load.settings,
            epsilon=epsilon,
            rng=np.random.default_rng([settings.seed, iteration, number]),
        )
        for number, load in enumerate(loads)
    ]


def _samples(
    collections: Sequence[Sequence[Experience]],
    loads: Sequence[TrainingLoad],
    network: EchoStateNetwork | None,
    settings: FittedQSettings,
) -> Samples:
    """Pattern set of Algorithm 1; memory was driven through each simulation in its order."""
    parts = []
    for collection in collections:
        for experience, load in zip(collection, loads, strict=True):
            reward = rewards(experience, settings.reward, settings.utility_weight)
            found = targets(experience, reward, network, load.workload, settings.gamma)
            free = with_a_choice(experience)
            jobs = _job_features(experience, load.workload, settings)[free]
            parts.append((experience.queue[free], jobs, experience.state[free], found[free]))
    queue, jobs, states, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    if len(values) == 0:
        raise ConfigurationError(
            "no queue ever builds up in the training loads: there is nothing to choose, hence "
            "nothing to learn; train on busier logs."
        )
    return Samples(queue=queue, jobs=jobs, states=states, targets=values)


def _job_features(
    experience: Experience, workload: Workload, settings: FittedQSettings
) -> FloatArray:
    """Features of the job of every start when it started, float64[n, Fx]."""
    table = grid_job_table(workload)[experience.job]
    if not SCHEMAS[settings.schema].dynamic_jobs:
        return table
    wait = experience.now - workload.submit[experience.job]
    return np.column_stack([table, log_wait(wait)])


def train_fitted_q(
    training: Sequence[TrainingLoad],
    validation: Sequence[TrainingLoad],
    settings: FittedQSettings,
    *,
    checkpoint: Path | None = None,
    load_key: str = "",
    progress: Progress | None = None,
) -> TrainedPolicy:
    """Collect, set targets, fit; again and again, and keep the network that validates best.

    Args:
        training: loads that experience is collected on.
        validation: loads that choose among the iterations' networks; never learned from.
        settings: of the iteration.
        checkpoint: file that keeps the progress; an interrupted training with the same settings
            and loads goes on from there and ends with the same result.
        load_key: names the loads, so that a checkpoint of other loads is not taken up.
        progress: called after each iteration with its number and the best objective so far.

    Raises:
        ConfigurationError: no training or no validation load, or no queue in any of them.
    """
    if not training or not validation:
        raise ConfigurationError("fitted Q needs at least one training and validation load.")
    kept = Checkpoint(checkpoint, {"settings": asdict(settings), "loads": load_key})
    regressor = _regressor(settings)
    collections: deque[list[Experience]] = deque(maxlen=settings.kept)
    for iteration in range(1, settings.iterations + 1):
        driven = regressor.driven(kept.steps[iteration - 2][0] if iteration > 1 else None)
        collections.append(_collected(driven, training, settings, iteration))
        if iteration > len(kept.steps):
            known = driven if iteration > 1 else None
            samples = _samples(collections, training, known, settings)
            parameters = regressor.fit(samples, settings.seed + iteration)
            network = regressor.network(parameters)
            objectives = [mean_objective(network, training, settings.weights)]
            objectives.append(mean_objective(network, validation, settings.weights))
            kept.add([parameters, *objectives])
        if progress is not None:
            progress(iteration, max(step[2] for step in kept.steps[:iteration]))
    kept.forget()
    best = max(kept.steps, key=lambda step: step[2])
    jobs = sum(len(load.workload.submit) for load in training)
    return TrainedPolicy(
        network=regressor.network(best[0]),
        validation_objective=best[2],
        curve=tuple((place + 1, step[1], step[2]) for place, step in enumerate(kept.steps)),
        simulated_jobs=2 * jobs * settings.iterations,
    )
