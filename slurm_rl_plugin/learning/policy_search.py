"""Policy search: CMA-ES over the weights of a small Q-network inside the compiled simulator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from cmaes import CMA

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.checkpoint import Checkpoint
from slurm_rl_plugin.learning.trained_policy import Progress, TrainedPolicy
from slurm_rl_plugin.learning.training_load import TrainingLoad, mean_objective, site_scaler
from slurm_rl_plugin.policies.network import (
    QNetwork,
    network_from_parameters,
    parameter_count,
)
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.reward import RewardWeights

#: Processors held where the search begins; a fixed reserve of two is a fair start anywhere.
INITIAL_RESERVE = 2.0
#: Processors that a step of 1 in a searched number of the reserve makes: scores are of order 1,
#: reserves of some processors.
RESERVE_STEP = 4.0
_RESERVE_NUMBERS = len(SITE.queue) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySearchSettings:
    """Settings of the search (Hansen and Ostermeier 2001: CMA-ES).

    Attributes:
        hidden: hidden units of the network.
        generations: how often the search distribution is updated.
        population: candidates a generation; 0 takes 4 + 3 ln(parameters).
        step: initial standard deviation.
        validate_every: generations between looks at the validation loads.
        seed: seed of the search.
        weights: what is maximised.
        hold: whether the network also says how many processors to keep free of batch work.
    """

    hidden: int = 6
    generations: int = 120
    population: int = 0
    step: float = 0.3
    validate_every: int = 5
    seed: int = 1
    weights: RewardWeights = field(default_factory=RewardWeights)
    hold: bool = False


def initial_parameters(hidden: int, *, hold: bool = False) -> FloatArray:
    """Where the search starts: shortest turnaround first (2011), the network part silent.

    A search that may hold starts with interactive jobs first and INITIAL_RESERVE processors held.
    """
    parameters = np.zeros(parameter_count(SITE, hidden, hold=hold))
    scores = len(parameters) - hold * _RESERVE_NUMBERS
    linear = parameters[scores - len(SITE.jobs) : scores]
    linear[SITE.jobs.index("log_turnaround")] = -1.0
    if hold:
        linear[SITE.jobs.index("interactive")] = 0.5
        parameters[-1] = INITIAL_RESERVE / RESERVE_STEP
    return parameters


def _network(parameters: FloatArray, settings: PolicySearchSettings) -> QNetwork:
    if settings.hold:
        parameters = parameters.copy()
        parameters[-_RESERVE_NUMBERS:] *= RESERVE_STEP
    return network_from_parameters(
        SITE, parameters, hidden=settings.hidden, scaler=site_scaler(), hold=settings.hold
    )


def _objectives(
    candidates: Sequence[FloatArray],
    training: Sequence[TrainingLoad],
    settings: PolicySearchSettings,
) -> list[float]:
    """Objective of each candidate, in threads: the compiled simulator needs no interpreter."""

    def objective(parameters: FloatArray) -> float:
        network = _network(parameters, settings)
        return mean_objective(network, training, settings.weights)

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return list(pool.map(objective, candidates))


def search_policy(
    training: Sequence[TrainingLoad],
    validation: Sequence[TrainingLoad],
    settings: PolicySearchSettings,
    *,
    checkpoint: Path | None = None,
    load_key: str = "",
    progress: Progress | None = None,
) -> TrainedPolicy:
    """Maximise the site's objective over the weights of a network.

    Args:
        training: loads on which candidates are compared; each sees the same ones.
        validation: loads that choose among the search's means; never searched on.
        settings: of the search.
        checkpoint: file that keeps the progress; a search with the same settings and loads that
            was interrupted goes on from there and ends with the same result.
        load_key: names the loads, so that a checkpoint of other loads is not taken up.
        progress: called after each generation with its number and the best objective so far.

    Raises:
        ConfigurationError: no training or no validation load.
    """
    if not training or not validation:
        raise ConfigurationError("policy search needs at least one training and validation load.")
    kept = Checkpoint(checkpoint, {"settings": asdict(settings), "loads": load_key})
    start = initial_parameters(settings.hidden, hold=settings.hold)
    search = CMA(
        mean=start,
        sigma=settings.step,
        seed=settings.seed,
        population_size=settings.population or None,
    )
    best_parameters = start
    best_value = mean_objective(_network(start, settings), validation, settings.weights)
    curve: list[tuple[int, float, float]] = [(0, best_value, best_value)]
    for generation in range(1, settings.generations + 1):
        candidates = [search.ask() for _ in range(search.population_size)]
        if generation <= len(kept.steps):
            objectives = kept.steps[generation - 1]
        else:
            objectives = _objectives(candidates, training, settings)
            kept.add(objectives)
        search.tell([(x, -value) for x, value in zip(candidates, objectives, strict=True)])
        if generation % settings.validate_every == 0 or generation == settings.generations:
            mean = np.array(search.mean)
            value = mean_objective(_network(mean, settings), validation, settings.weights)
            curve.append((generation, max(objectives), value))
            if value > best_value:
                best_value, best_parameters = value, mean
        if progress is not None:
            progress(generation, best_value)
    kept.forget()
    jobs = sum(len(load.workload.submit) for load in training)
    return TrainedPolicy(
        network=_network(best_parameters, settings),
        validation_objective=best_value,
        curve=tuple(curve),
        simulated_jobs=jobs * settings.generations * search.population_size,
    )
