"""The models of the study: one a log, trained on nothing but its first third."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.learning.algorithms import train_policy
from slurm_rl_plugin.learning.evaluation.heldout import HeldoutProtocol
from slurm_rl_plugin.learning.heldout_training import TRAINING, VALIDATION, heldout_loads
from slurm_rl_plugin.learning.policy_search.settings import SLOWDOWN, PolicySearchSettings
from slurm_rl_plugin.learning.trained_policy import TrainedPolicy
from slurm_rl_plugin.learning.training_load import TrainingLoads
from slurm_rl_plugin.papers.study.parallel_machines import StudyLog
from slurm_rl_plugin.papers.study.result_store import LearningTask, Loads, ResultStore
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.protection import Protection
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log

#: Part of a log whose first 60 %, which held-out training looks at, is a third of the log.
_PART = 5.0 / 9.0
#: Of the training.
_SETTINGS = replace(SLOWDOWN, generations=45, seed=1)
_SMALL = HeldoutProtocol(windows=4, warm_up=100, counted=200, further=50)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftSize:
    """How large the study is.

    Attributes:
        settings: of the training.
        training: windows that train.
        validation: windows that choose.
        alike: weeks of a run in which nothing changes.
    """

    settings: PolicySearchSettings = _SETTINGS
    training: HeldoutProtocol = TRAINING
    validation: HeldoutProtocol = VALIDATION
    alike: int = 104


#: To see that it runs; its figures are no study.
QUICK = DriftSize(
    settings=replace(_SETTINGS, generations=2, population=4, batch=2),
    training=_SMALL,
    validation=_SMALL,
    alike=30,
)


class ModelInService(NamedTuple):
    """A model and what identifies it."""

    network: QNetwork
    stem: str


def first_third_model(
    name: str, log: StudyLog, size: DriftSize, store: ResultStore
) -> ModelInService:
    """Train on the first third of a log as `train` would, or take what was trained before.

    Args:
        name: of the log.
        log: whole.
        size: how much is trained.
        store: keeps the model.

    Raises:
        ConfigurationError: the third is shorter than a window of the training.
    """
    settings = size.settings

    @cache
    def loads() -> TrainingLoads:
        part = _part_of(log.prepared)
        return heldout_loads(
            [part], settings.seed, training=size.training, validation=size.validation
        )

    def train(*both: Any, **more: Any) -> TrainedPolicy:
        return train_policy(*both, prediction=loads().prediction, **more)

    def training_and_validation() -> Loads:
        return loads().training, loads().validation

    task = LearningTask(
        name=f"drift-{name}".lower(),
        settings=settings,
        train=train,
        sources=[f"{name} {log.checksum}", str(size.training), str(size.validation)],
        loads=training_and_validation,
        steps=settings.generations,
    )
    network = replace(store.network(task).q_network, protection=Protection())
    return ModelInService(network=network, stem=task.stem)


def _part_of(whole: PreparedLog) -> PreparedLog:
    """The first jobs as a log of their own: no share is known of what came later."""
    first = np.arange(int(len(whole.log) * _PART))
    return prepare_log(whole.log.select(first), capacity=whole.capacity)
