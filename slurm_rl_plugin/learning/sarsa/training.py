"""SARSA with a small network on the papers' 11 inputs (Perez et al. 2008, sections III and V.A)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.checkpoint import Checkpoint
from slurm_rl_plugin.learning.sarsa.settings import SarsaSettings
from slurm_rl_plugin.learning.sarsa.sweeps import (
    acted_starts,
    input_width,
    learn_afresh,
    network_of,
    recorded_starts,
)
from slurm_rl_plugin.learning.trained_policy import Progress, TrainedPolicy
from slurm_rl_plugin.learning.training_load import TrainingLoad, mean_objective
from slurm_rl_plugin.simulator.rollouts.sarsa import Transitions, learn_in_order
from slurm_rl_plugin.simulator.scoring.perceptron import perceptron_of, random_parameters
from slurm_rl_plugin.units import FloatArray


class SarsaLearner:
    """A network and what it has seen.

    Attributes:
        parameters: of the network, as `perceptron_of` takes them.
        collected: starts of the sweeps so far, one element a sweep; kept by the batch variant.
    """

    def __init__(self, settings: SarsaSettings) -> None:
        self._settings = settings
        self._width = input_width(settings.inputs)
        self.parameters = self._initial(0)
        self.collected: list[Transitions] = []

    def _generator(self, sweep: int, purpose: int) -> np.random.Generator:
        """Randomness of its own for each sweep, so that a resumed training draws the same."""
        return np.random.default_rng([self._settings.seed, sweep, purpose])

    def _initial(self, sweep: int) -> FloatArray:
        return random_parameters(self._generator(sweep, 0), self._width, self._settings.hidden)

    def sweep(self, number: int, load: TrainingLoad) -> None:
        """Act and learn on one load; sweeps count from 1.

        Raises:
            ConfigurationError: pre-training on recorded starts that the log lacks.
        """
        settings = self._settings
        starts = self.starts(number, load)
        if settings.update == "batch":
            self.collected.append(starts)
            self.parameters = learn_afresh(
                self.parameters,
                self._initial(number),
                self.collected,
                settings,
                self._generator(number, 2),
            )

    def starts(self, number: int, load: TrainingLoad) -> Transitions:
        """The starts of a sweep; the online variant learns from them on the way."""
        settings = self._settings
        pretraining = number <= settings.pretraining_sweeps
        if pretraining and settings.pretraining == "recorded":
            starts = recorded_starts(load, settings)
            if settings.update == "online":
                network = perceptron_of(self.parameters, self._width)
                learn_in_order(network, starts, settings.gamma, settings.learning_rate)
            return starts
        by_deadline = pretraining and settings.pretraining == "edf"
        rng = self._generator(number, 1)
        return acted_starts(self.parameters, load, settings, rng, by_deadline=by_deadline)

    def take_up(self, number: int, load: TrainingLoad, parameters: list[float]) -> None:
        """Be as after a sweep that an earlier run has learned from."""
        if self._settings.update == "batch":  # the starts follow from the network before it
            self.collected.append(self.starts(number, load))
        self.parameters = np.array(parameters)


def train_sarsa(
    training: Sequence[TrainingLoad],
    validation: Sequence[TrainingLoad],
    settings: SarsaSettings,
    *,
    checkpoint: Path | None = None,
    load_key: str = "",
    progress: Progress | None = None,
) -> TrainedPolicy:
    """Learn a Q-network by SARSA and keep the best one or the last, which then acts greedily.

    Args:
        training: loads to act on, in turn.
        validation: loads that choose among the networks after each sweep; never acted on.
        settings: of the learner.
        checkpoint: file that keeps the progress; a training with the same settings and loads that
            was interrupted goes on from there and ends with the same result.
        load_key: names the loads, so that a checkpoint of other loads is not taken up.
        progress: called after each sweep with its number and the objective of the network that
            would be kept.

    Returns:
        The policy; its curve holds an entry for the untrained network and one a sweep, both
        objectives those of the greedy network.

    Raises:
        ConfigurationError: no training or no validation load, or pre-training on recorded starts
            that a log lacks.
    """
    if not training or not validation:
        raise ConfigurationError("SARSA needs at least one training and validation load.")
    kept = Checkpoint(checkpoint, {"settings": asdict(settings), "loads": load_key})
    learner = SarsaLearner(settings)
    steps = [_step(learner, training, validation, settings)]
    best = steps[0]
    for number in range(1, settings.sweeps + 1):
        load = training[(number - 1) % len(training)]
        if number <= len(kept.steps):
            step = kept.steps[number - 1]
            learner.take_up(number, load, step["parameters"])
        else:
            learner.sweep(number, load)
            step = _step(learner, training, validation, settings)
            kept.add(step)
        steps.append(step)
        if settings.keep == "last" or step["validation"] > best["validation"]:
            best = step
        if progress is not None:
            progress(number, best["validation"])
    kept.close()
    jobs = [len(load.workload.submit) for load in training]
    return TrainedPolicy(
        network=network_of(np.array(best["parameters"]), settings.inputs),
        validation_objective=best["validation"],
        curve=tuple(
            (number, step["training"], step["validation"]) for number, step in enumerate(steps)
        ),
        simulated_jobs=sum(jobs[number % len(jobs)] for number in range(settings.sweeps)),
    )


def _step(
    learner: SarsaLearner,
    training: Sequence[TrainingLoad],
    validation: Sequence[TrainingLoad],
    settings: SarsaSettings,
) -> dict[str, Any]:
    """What the checkpoint keeps of a sweep: the network and what it is worth when greedy."""
    network = network_of(learner.parameters, settings.inputs)
    return {
        "parameters": learner.parameters.tolist(),
        "training": mean_objective(network, training, settings.weights),
        "validation": mean_objective(network, validation, settings.weights),
    }
