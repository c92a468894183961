"""Several trainings side by side or in turn: seeds, and folds that leave one log out."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.algorithms import Settings, algorithm_of, train_policy
from slurm_rl_plugin.learning.checkpoint import steps_kept
from slurm_rl_plugin.learning.trained_policy import Progress, TrainedPolicy
from slurm_rl_plugin.learning.training_load import TrainingLoads, short_load
from slurm_rl_plugin.learning.workplace import Workplace
from slurm_rl_plugin.policies.network import QNetwork


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One training among several side by side: its loads, settings and place to begin.

    Attributes:
        loads: which of the loads.
        settings: of the algorithm, with the seed.
        load_key: names the loads.
        start: a network to start the search from.
        checkpoint: file that keeps the progress.
    """

    loads: int
    settings: Settings
    load_key: str
    start: QNetwork | None
    checkpoint: Path


def train_all(
    loads: Sequence[TrainingLoads],
    trainings: Sequence[Training],
    steps: int,
    *,
    place: Workplace | None,
    progress: Progress | None,
) -> list[TrainedPolicy]:
    """Policies of all trainings, in their order.

    A single policy search gives its candidates to the place; several trainings go there whole.

    Args:
        loads: that the trainings point at.
        trainings: one at least.
        steps: of each of them.
        place: where they run; None trains one after the other on this machine.
        progress: told the steps of all of them.
    """
    searches = "place" in algorithm_of(trainings[0].settings).takes
    shared = (loads, trainings[0])
    if place is not None and (len(trainings) > 1 or not searches):
        look = None if progress is None else _Looks(trainings, steps, progress)
        return place.each(_trained, shared, trainings, warm_up=_compile, on_look=look)
    found = []
    for turn, training in enumerate(trainings):
        told = _shifted(progress, turn * steps)
        found.append(_trained(shared, training, progress=told, place=place))
    return found


def _shifted(progress: Progress | None, before: int) -> Progress | None:
    if progress is None:
        return None
    return lambda step, value: progress(before + step, value)


def _trained(
    shared: tuple[Sequence[TrainingLoads], Training],
    training: Training,
    *,
    progress: Progress | None = None,
    place: Workplace | None = None,
) -> TrainedPolicy:
    """The policy of one training; steps that its checkpoint keeps are not done again."""
    chosen = shared[0][training.loads]
    return train_policy(
        chosen.training,
        chosen.validation,
        training.settings,
        checkpoint=training.checkpoint,
        load_key=training.load_key,
        progress=progress,
        start=training.start,
        place=place,
    )


class _Looks:
    """Tells the steps of trainings that run elsewhere, from the checkpoints they write."""

    def __init__(self, trainings: Sequence[Training], steps: int, progress: Progress) -> None:
        self._trainings, self._steps, self._progress = trainings, steps, progress

    def __call__(self, policies: Sequence[TrainedPolicy | None]) -> None:
        done = [
            steps_kept(training.checkpoint) if policy is None else self._steps
            for training, policy in zip(self._trainings, policies, strict=True)
        ]
        self._progress(sum(done), float(sum(policy is not None for policy in policies)))


def _compile(shared: tuple[Sequence[TrainingLoads], Training]) -> None:
    """Make a worker compile, or load, what a training calls: one step of it on few jobs."""
    loads, training = shared
    chosen, settings = loads[training.loads], training.settings
    one_step: dict[str, Any] = {algorithm_of(settings).steps[0]: 1}
    short = [short_load(chosen.training[0])]
    with contextlib.suppress(ConfigurationError):  # too few jobs to learn from: they are no matter
        one = replace(settings, **one_step)
        train_policy(short, short, one, start=training.start)
