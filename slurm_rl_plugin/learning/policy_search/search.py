"""Policy search: CMA-ES over the weights of a small Q-network inside the compiled simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.site import RESERVE_FEATURES, SITE
from slurm_rl_plugin.learning.checkpoint import Checkpoint
from slurm_rl_plugin.learning.policy_search.settings import (
    RESERVE_NUMBERS,
    RESERVE_STEP,
    PolicySearchSettings,
    initial_parameters,
    parameters_of,
    search_bounds,
    searched_places,
)
from slurm_rl_plugin.learning.side_by_side import processors_here, side_by_side
from slurm_rl_plugin.learning.trained_policy import Progress, TrainedPolicy
from slurm_rl_plugin.learning.training_load import (
    TrainingLoad,
    drawn_loads,
    mean_objective,
)
from slurm_rl_plugin.policies.network import QNetwork, fixed_scaler, network_from_parameters
from slurm_rl_plugin.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """What turns searched numbers into a network.

    Attributes:
        settings: of the search.
        parameters: all numbers of the network that it starts with.
        places: of the searched ones among them.
    """

    settings: PolicySearchSettings
    parameters: FloatArray
    places: IntArray

    def network(self, searched: FloatArray) -> QNetwork:
        """The network with these numbers in the searched places."""
        settings, parameters = self.settings, self.parameters.copy()
        parameters[self.places] = searched
        if settings.hold:
            reserve = parameters[-RESERVE_NUMBERS:] * RESERVE_STEP
            weights = np.zeros(len(SITE.queue))
            weights[[SITE.queue.index(name) for name in RESERVE_FEATURES]] = reserve[:-1]
            parameters = np.concatenate([parameters[:-RESERVE_NUMBERS], weights, reserve[-1:]])
        return network_from_parameters(
            SITE,
            parameters,
            hidden=settings.hidden,
            scaler=fixed_scaler(SITE),
            hold=settings.hold,
        )

    @property
    def begin(self) -> FloatArray:
        """The searched numbers of the network that the search starts with."""
        return self.parameters[self.places]


def _search_of(settings: PolicySearchSettings, start: QNetwork | None) -> _Search:
    return _Search(
        settings=settings,
        parameters=initial_parameters(settings)
        if start is None
        else parameters_of(start, settings),
        places=searched_places(settings),
    )


class _Chosen:
    """The best of the means that the search came by, on the loads that it does not search on.

    Attributes:
        searched: its numbers.
        objective: its value on the validation loads.
        curve: generation, best objective of its candidates, and value of its mean.
    """

    def __init__(
        self,
        search: _Search,
        validation: Sequence[TrainingLoad],
        training: Sequence[TrainingLoad],
    ) -> None:
        settings = search.settings
        self._search, self._validation = search, validation
        self.searched = search.begin
        self.objective = self._valued(self.searched, validation)
        loads = drawn_loads(training, settings.batch, settings.seed, 0)
        first = self._valued(self.searched, loads)
        self.curve: list[tuple[int, float, float]] = [(0, first, self.objective)]

    def look_at(self, generation: int, mean: FloatArray, most: float) -> None:
        """Value a mean, and choose it where it is the best yet."""
        objective = self._valued(mean, self._validation)
        self.curve.append((generation, most, objective))
        if objective > self.objective:
            self.searched, self.objective = mean, objective

    def _valued(self, searched: FloatArray, loads: Sequence[TrainingLoad]) -> float:
        network = self._search.network(searched)
        weights = self._search.settings.weights
        return mean_objective(network, loads, weights, threads=processors_here())


def unsearched_network(settings: PolicySearchSettings) -> QNetwork:
    """The network that a search without `hold` starts from, as it is."""
    return network_from_parameters(
        SITE,
        initial_parameters(settings),
        hidden=settings.hidden,
        scaler=fixed_scaler(SITE),
    )


def search_policy(
    training: Sequence[TrainingLoad],
    validation: Sequence[TrainingLoad],
    settings: PolicySearchSettings,
    *,
    start: QNetwork | None = None,
    checkpoint: Path | None = None,
    load_key: str = "",
    progress: Progress | None = None,
) -> TrainedPolicy:
    """Maximise the site's objective over the weights of a network.

    Args:
        training: loads on which candidates are compared; each sees the same ones.
        validation: loads that choose among the search's means; never searched on.
        settings: of the search.
        start: the network that the search starts from instead of `initial_parameters`.
        checkpoint: file that keeps the progress; a search with the same settings and loads that
            was interrupted goes on from there and ends with the same result.
        load_key: names the loads and all else that shapes the search but its settings, so that a
            checkpoint of other loads is not taken up.
        progress: called after each generation with its number and the best objective so far.

    Raises:
        ConfigurationError: no training or no validation load, or a start that does not fit.
    """
    from cmaes import CMA  # noqa: PLC0415 - brings scipy.stats, which no worker has to wait for

    if not training or not validation:
        raise ConfigurationError("policy search needs at least one training and validation load.")
    kept = Checkpoint(checkpoint, {"settings": asdict(settings), "loads": load_key})
    search = _search_of(settings, start)
    evolution = CMA(
        mean=search.begin,
        sigma=settings.step,
        bounds=search_bounds(settings),
        seed=settings.seed,
        population_size=settings.population or None,
    )
    chosen = _Chosen(search, validation, training)
    simulated = 0
    for generation in range(1, settings.generations + 1):
        candidates = [evolution.ask() for _ in range(evolution.population_size)]
        loads = drawn_loads(training, settings.batch, settings.seed, generation)
        simulated += len(candidates) * sum(len(load.workload.submit) for load in loads)
        if generation <= len(kept.steps):
            objectives = kept.steps[generation - 1]
        else:
            networks = [search.network(candidate) for candidate in candidates]
            valued = partial(mean_objective, loads=loads, weights=settings.weights)
            objectives = side_by_side(valued, networks)
            kept.add(objectives)
        evolution.tell([(x, -value) for x, value in zip(candidates, objectives, strict=True)])
        if generation % settings.validate_every == 0 or generation == settings.generations:
            chosen.look_at(generation, np.array(evolution.mean), max(objectives))
        if progress is not None:
            progress(generation, chosen.objective)
    kept.close()
    return TrainedPolicy(
        network=search.network(chosen.searched),
        validation_objective=chosen.objective,
        curve=tuple(chosen.curve),
        simulated_jobs=simulated,
    )
