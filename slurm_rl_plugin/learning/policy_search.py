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
from slurm_rl_plugin.features.site import RESERVE_FEATURES, SITE
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
#: Orders to start with -> weights of the job features that make them. The first two are the
#: marginal optima of responsiveness (2011) and of time utility (2008); the third takes the newest
#: first among jobs of equal estimates, which class medians make many of; under the fourth nobody
#: waits many times longer than others of his run time, so that longest waits stay short.
STARTS = {
    "min-run-wait": {"log_turnaround": -1.0},
    "utility-greedy": {"log_loss_rate_per_work": 1.0},
    "sjf": {"log_estimate": -1.0, "log_turnaround": -0.02},
    "expansion-factor": {"log_turnaround": 1.0, "log_estimate": -1.1},
}
#: The reserve looks at few features: with all of them it learns what only the training loads show.
_RESERVE_NUMBERS = len(RESERVE_FEATURES) + 1


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
        reserve_only: search nothing but that; the order stays the one that the search starts with.
        start: the order that it starts with, one of STARTS; with `hold`, interactive jobs first.
    """

    hidden: int = 6
    generations: int = 120
    population: int = 0
    step: float = 0.3
    validate_every: int = 5
    seed: int = 1
    weights: RewardWeights = field(default_factory=RewardWeights)
    hold: bool = False
    reserve_only: bool = False
    start: str = "min-run-wait"

    def __post_init__(self) -> None:
        if self.start not in STARTS:
            raise ConfigurationError(f"start is {self.start!r}: give {' or '.join(STARTS)}.")
        if self.reserve_only and not self.hold:
            raise ConfigurationError("reserve_only searches the reserve: give --hold as well.")


def initial_parameters(settings: PolicySearchSettings) -> FloatArray:
    """Where the search starts: one of STARTS, the network part silent, INITIAL_RESERVE held."""
    scores = parameter_count(SITE, settings.hidden)
    parameters = np.zeros(scores + settings.hold * _RESERVE_NUMBERS)
    linear = parameters[scores - len(SITE.jobs) : scores]
    for feature, weight in STARTS[settings.start].items():
        linear[SITE.jobs.index(feature)] = weight
    if settings.hold:
        linear[SITE.jobs.index("interactive")] = 2.0
        parameters[-1] = INITIAL_RESERVE / RESERVE_STEP
    return parameters


def _network(searched: FloatArray, settings: PolicySearchSettings) -> QNetwork:
    parameters = initial_parameters(settings)
    parameters[len(parameters) - len(searched) :] = searched
    if settings.hold:
        reserve = parameters[-_RESERVE_NUMBERS:] * RESERVE_STEP
        unseen = np.zeros(len(SITE.queue) - len(RESERVE_FEATURES))
        parameters = np.concatenate([parameters[:-_RESERVE_NUMBERS], unseen, reserve])
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
    start = initial_parameters(settings)
    if settings.reserve_only:
        start = start[-_RESERVE_NUMBERS:]
    search = CMA(
        mean=start,
        sigma=settings.step,
        seed=settings.seed,
        population_size=settings.population or None,
    )
    best_parameters = start
    best_value = mean_objective(_network(start, settings), validation, settings.weights)
    first = mean_objective(_network(start, settings), training, settings.weights)
    curve: list[tuple[int, float, float]] = [(0, first, best_value)]
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
