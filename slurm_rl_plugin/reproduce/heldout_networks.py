"""The networks of the held-out study: each log left out, fine-tuned on its past, with a reserve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.heldout import HeldoutProtocol
from slurm_rl_plugin.learning.heldout_training import (
    TRAINING,
    VALIDATION,
    HeldoutLoads,
    best_reserve,
    heldout_loads,
    with_reserve,
)
from slurm_rl_plugin.learning.policy_search import search_policy
from slurm_rl_plugin.learning.policy_search_settings import (
    SLOWDOWN,
    PolicySearchSettings,
    initial_parameters,
    parameters_of,
)
from slurm_rl_plugin.learning.trained_policy import TrainedPolicy
from slurm_rl_plugin.learning.training_load import site_scaler
from slurm_rl_plugin.policies.network import QNetwork, network_from_parameters
from slurm_rl_plugin.reproduce.trained_networks import Learned, LearningTask, Loads, NetworkShelf
from slurm_rl_plugin.simulator.log_workload import PreparedLog

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
        tuning: generations of fine-tuning.
        training: windows of a log that train.
        validation: windows of a log that choose.
        test: windows of a log that measure.
    """

    settings: PolicySearchSettings = SLOWDOWN
    tuning: int = TUNING_GENERATIONS
    training: HeldoutProtocol = TRAINING
    validation: HeldoutProtocol = VALIDATION
    test: HeldoutProtocol = TEST


_SMALL = HeldoutProtocol(windows=4, warm_up=100, counted=200, further=50)
#: To see that it runs; its figures are no study.
QUICK_STUDY = StudySize(
    settings=replace(SLOWDOWN, generations=2, population=4, batch=2),
    tuning=2,
    training=_SMALL,
    validation=_SMALL,
    test=replace(_SMALL, windows=8),
)


class HeldoutTraining:
    """Trains the networks of one seed, or takes them from the shelf."""

    def __init__(
        self,
        logs: Mapping[str, PreparedLog],
        checksums: Mapping[str, str],
        size: StudySize,
        seed: int,
        shelf: NetworkShelf,
    ) -> None:
        """Prepare; nothing is trained yet.

        Args:
            logs: name -> whole log.
            checksums: name -> sha256 of its file.
            size: how much is trained.
            seed: of the searches.
            shelf: keeps the networks.
        """
        self._logs, self._checksums, self._size, self._shelf = logs, checksums, size, shelf
        self._seed = seed
        self._made: dict[tuple[str, ...], HeldoutLoads] = {}

    def pooled(self, names: Sequence[str], changes: Mapping[str, Any] | None = None) -> Learned:
        """Trained on the past of several logs at once, with some settings changed."""
        settings = replace(self._size.settings, seed=self._seed, **(changes or {}))
        return self._take("pooled", names, settings, None)

    def fine_tuned(self, name: str, start: Learned) -> Learned:
        """A network trained on other logs, trained further on the past of this one."""
        settings = replace(
            self._size.settings,
            seed=self._seed,
            generations=self._size.tuning,
            step=TUNING_STEP,
        )
        return self._take("fine-tuned", [name], settings, start)

    def holding(self, name: str, tuned: QNetwork) -> tuple[QNetwork, float]:
        """The network with the reserve that the log's past likes best, and its part."""
        loads = self._loads([name])
        both = [*loads.training, *loads.validation]
        part = best_reserve(tuned, both, RESERVES, self._size.settings.weights)
        return with_reserve(tuned, part * loads.training[0].settings.capacity), part

    def start(self, names: Sequence[str]) -> QNetwork:
        """Where the search on these logs starts: nothing searched, only run times predicted."""
        settings = self._size.settings
        return network_from_parameters(
            SITE,
            initial_parameters(settings),
            hidden=settings.hidden,
            scaler=site_scaler(),
            prediction=self._loads(names).prediction,
        )

    def _loads(self, names: Sequence[str]) -> HeldoutLoads:
        """What training on these logs sees; fine-tuning and the reserve ask for the same."""
        key = tuple(names)
        if key not in self._made:
            self._made[key] = heldout_loads(
                [self._logs[name] for name in names],
                self._seed,
                training=self._size.training,
                validation=self._size.validation,
            )
        return self._made[key]

    def _take(
        self, kind: str, names: Sequence[str], settings: PolicySearchSettings, start: Learned | None
    ) -> Learned:
        sources = [f"{name} {self._checksums[name]}" for name in names]
        sources += [str(self._size.training), str(self._size.validation)]
        begin = None
        if start is not None:
            begin = parameters_of(start.q_network, settings)
            sources.append(f"from {begin.tolist()}")

        def train(*loads: Any, **more: Any) -> TrainedPolicy:
            prediction = self._loads(names).prediction
            return search_policy(*loads, prediction=prediction, start=begin, **more)

        def training_and_validation() -> Loads:
            loads = self._loads(names)
            return loads.training, loads.validation

        task = LearningTask(
            name=f"{kind}-{'-'.join(names)}-{self._seed}".lower(),
            settings=settings,
            train=train,
            sources=sources,
            loads=training_and_validation,
            steps=settings.generations,
        )
        return self._shelf.take(task)
