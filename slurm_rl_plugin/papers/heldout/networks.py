"""The networks of the held-out study: each log left out, fine-tuned on its past, with a reserve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slurm_rl_plugin.learning import fitted_q
from slurm_rl_plugin.learning.algorithms import Settings, train_policy
from slurm_rl_plugin.learning.evaluation.heldout import HeldoutProtocol
from slurm_rl_plugin.learning.fitted_q import FittedQSettings
from slurm_rl_plugin.learning.heldout_training import (
    TRAINING,
    VALIDATION,
    best_reserve,
    heldout_loads,
    with_reserve,
)
from slurm_rl_plugin.learning.policy_search import (
    SLOWDOWN,
    PolicySearchSettings,
    unsearched_network,
)
from slurm_rl_plugin.learning.training_load import TrainedPolicy, TrainingLoads
from slurm_rl_plugin.papers.study.logs import StudyLog
from slurm_rl_plugin.papers.study.result_store import Learned, LearningTask, Loads, ResultStore
from slurm_rl_plugin.policies.network import QNetwork

#: Windows of a log that measure.
TEST = HeldoutProtocol()
#: Fine-tuning takes half as many generations as a training, of smaller steps.
TUNING_GENERATIONS, TUNING_STEP = 10, 0.1
#: Parts of the machine that may be kept free of batch work.
RESERVES = (0.0, 0.02, 0.04, 0.08)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySize:
    """How much is trained.

    Attributes:
        settings: of the search on several logs.
        fitted: of fitted Q iteration on the same.
        training: windows of a log that train.
        validation: windows of a log that choose.
        test: windows of a log that measure.
    """

    settings: PolicySearchSettings = SLOWDOWN
    fitted: FittedQSettings = fitted_q.SLOWDOWN
    tuning: int = TUNING_GENERATIONS
    training: HeldoutProtocol = TRAINING
    validation: HeldoutProtocol = VALIDATION
    test: HeldoutProtocol = TEST


_SMALL = HeldoutProtocol(windows=4, warm_up=100, counted=200, further=50)
#: To see that it runs; its figures are no study.
QUICK_STUDY = StudySize(
    settings=replace(SLOWDOWN, generations=2, population=4, batch=2),
    fitted=replace(fitted_q.SLOWDOWN, iterations=2, batch=2, passes=2),
    tuning=2,
    training=_SMALL,
    validation=_SMALL,
    test=replace(_SMALL, windows=8),
)


class HeldoutTraining:
    """Trains the networks of one seed, or takes them from the store."""

    def __init__(
        self,
        logs: Mapping[str, StudyLog],
        size: StudySize,
        seed: int,
        store: ResultStore,
    ) -> None:
        """Prepare; nothing is trained yet.

        Args:
            logs: name -> whole log.
            store: keeps the networks.
        """
        self._logs, self._size, self._store = logs, size, store
        self._seed = seed
        self._made: dict[tuple[str, ...], TrainingLoads] = {}

    def pooled(self, names: Sequence[str], changes: Mapping[str, Any] | None = None) -> Learned:
        """Trained on the past of several logs at once, with some settings changed."""
        settings = replace(self._size.settings, seed=self._seed, **(changes or {}))
        return self._take("pooled", names, settings, settings.generations)

    def fitted(self, names: Sequence[str]) -> Learned:
        """Fitted Q iteration in place of the search, on the same loads."""
        settings = replace(self._size.fitted, seed=self._seed)
        return self._take("fitted-q", names, settings, settings.iterations)

    def fine_tuned(self, name: str, start: Learned) -> Learned:
        """A network trained on other logs, trained further on the past of this one."""
        settings = replace(
            self._size.settings,
            seed=self._seed,
            generations=self._size.tuning,
            step=TUNING_STEP,
        )
        return self._take("fine-tuned", [name], settings, settings.generations, start.q_network)

    def holding(self, name: str, tuned: QNetwork) -> tuple[QNetwork, float]:
        """The network with the reserve that the log's past likes best, and its part."""
        loads = self._loads([name])
        both = [*loads.training, *loads.validation]
        part = best_reserve(tuned, both, RESERVES, self._size.settings.weights)
        return with_reserve(tuned, part * loads.training[0].settings.capacity), part

    def start(self) -> QNetwork:
        """Where the search starts: nothing searched."""
        return unsearched_network(self._size.settings)

    def _loads(self, names: Sequence[str]) -> TrainingLoads:
        """What training on these logs sees; fine-tuning and the reserve ask for the same."""
        key = tuple(names)
        if key not in self._made:
            self._made[key] = heldout_loads(
                [self._logs[name].prepared for name in names],
                training=self._size.training,
                validation=self._size.validation,
            )
        return self._made[key]

    def _take(
        self,
        kind: str,
        names: Sequence[str],
        settings: Settings,
        steps: int,
        start: QNetwork | None = None,
    ) -> Learned:
        sources = [f"{name} {self._logs[name].checksum}" for name in names]
        sources += [str(self._size.training), str(self._size.validation)]
        if start is not None:
            parts = (start.queue_weights, start.job_weights, start.bias, start.output, start.linear)
            sources.append(f"from {[part.tolist() for part in parts]}")

        def train(*loads: Any, **more: Any) -> TrainedPolicy:
            return train_policy(*loads, start=start, **more)

        def training_and_validation() -> Loads:
            loads = self._loads(names)
            return loads.training, loads.validation

        task = LearningTask(
            name=f"{kind}-{'-'.join(names)}-{self._seed}".lower(),
            settings=settings,
            train=train,
            sources=sources,
            loads=training_and_validation,
            steps=steps,
        )
        return self._store.network(task)
