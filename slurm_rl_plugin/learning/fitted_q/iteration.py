"""Fitted Q iteration, feed-forward or with an echo state network (2011, Algorithm 1)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.checkpoint import Checkpoint
from slurm_rl_plugin.learning.fitted_q.grid_experience import GridPatterns
from slurm_rl_plugin.learning.fitted_q.regression import (
    EchoStateRegressor,
    FeedForwardRegressor,
    QRegressor,
    Samples,
)
from slurm_rl_plugin.learning.fitted_q.settings import SCHEMAS, FittedQSettings
from slurm_rl_plugin.learning.fitted_q.site_experience import SitePatterns
from slurm_rl_plugin.learning.side_by_side import processors_here
from slurm_rl_plugin.learning.trained_policy import Progress, TrainedPolicy
from slurm_rl_plugin.learning.training_load import TrainingLoad, drawn_loads, mean_objective


class Patterns(Protocol):
    """Where the pattern set of Algorithm 1 comes from: one form of experience."""

    @property
    def regressor(self) -> QRegressor:
        """Fits the Q-function to the patterns."""
        ...

    def collected(
        self, parameters: Sequence[float] | None, loads: Sequence[TrainingLoad], iteration: int
    ) -> Any:
        """Experience of every load under the Q-function with these parameters, None at first."""
        ...

    def samples(self, collections: Sequence[Any], parameters: Sequence[float] | None) -> Samples:
        """The patterns of some collections with targets by the Q-function; perhaps none."""
        ...


def _patterns(settings: FittedQSettings) -> Patterns:
    schema = SCHEMAS[settings.schema]
    if settings.regressor == "echo-state":
        reservoir = EchoStateRegressor.drawn(
            schema, settings.reservoir, settings.ridge, settings.seed
        )
        return GridPatterns(settings=settings, regressor=reservoir)
    regressor = FeedForwardRegressor(
        schema=schema,
        hidden=settings.hidden,
        passes=settings.passes,
        decay=settings.decay,
    )
    if schema == SITE:
        return SitePatterns(settings=settings, regressor=regressor)
    return GridPatterns(settings=settings, regressor=regressor)


def _fitted(
    patterns: Patterns,
    collections: Sequence[Any],
    parameters: Sequence[float] | None,
    seed: int,
) -> list[float]:
    """Parameters of the next Q-function.

    Raises:
        ConfigurationError: there is nothing to learn.
    """
    samples = patterns.samples(collections, parameters)
    if len(samples.targets) == 0:
        raise ConfigurationError(
            "no queue ever builds up in the training loads: there is nothing to choose, hence "
            "nothing to learn; train on busier logs."
        )
    return patterns.regressor.fit(samples, seed)


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
    patterns, simulated = _patterns(settings), 0
    collections: deque[Any] = deque(maxlen=settings.kept)

    def valued(parameters: Sequence[float], loads: Sequence[TrainingLoad]) -> float:
        network = patterns.regressor.network(parameters)
        return mean_objective(network, loads, settings.weights, threads=processors_here())

    first = len(kept.steps) + 1 if len(kept.steps) < settings.iterations else math.inf
    for iteration in range(1, settings.iterations + 1):
        before = kept.steps[iteration - 2][0] if iteration > 1 else None
        loads = drawn_loads(training, settings.batch, settings.seed, iteration)
        simulated += 2 * sum(len(load.workload.submit) for load in loads)
        if iteration > first - settings.kept:  # what no later step is fitted to is not simulated
            collections.append(patterns.collected(before, loads, iteration))
        if iteration >= first:
            parameters = _fitted(patterns, collections, before, settings.seed + iteration)
            kept.add([parameters, valued(parameters, loads), valued(parameters, validation)])
        if progress is not None:
            progress(iteration, max(step[2] for step in kept.steps[:iteration]))
    kept.close()
    best = max(kept.steps, key=lambda step: step[2])
    return TrainedPolicy(
        network=patterns.regressor.network(best[0]),
        validation_objective=best[2],
        curve=tuple((place + 1, step[1], step[2]) for place, step in enumerate(kept.steps)),
        simulated_jobs=simulated,
    )
