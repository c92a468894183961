"""Policy search: CMA-ES (Hansen and Ostermeier 2001) over the weights of a small Q-network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.site import RESERVE_FEATURES, SITE, USUAL
from slurm_rl_plugin.learning.checkpoint import Checkpoint
from slurm_rl_plugin.learning.side_by_side import side_by_side
from slurm_rl_plugin.learning.training_load import (
    Count,
    Natural,
    Progress,
    TrainedPolicy,
    TrainingLoad,
    check_settings,
    drawn_loads,
    mean_objective,
)
from slurm_rl_plugin.policies.network import (
    QNetwork,
    fixed_scaler,
    network_from_parameters,
    parameter_count,
)
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.utility.reward import RewardWeights

#: Reserve at the start of the search, processors.
INITIAL_RESERVE = 2.0
#: Processors for a step of 1 in a searched number of the reserve: scores are of order 1, a reserve
#: has some processors.
RESERVE_STEP = 4.0
#: Orders to start with -> points of their job features. `site` is the shipped order: a job's age
#: against its predicted run time, its size, whether similar jobs run, and points for a wait beyond
#: half of the longest; the others are rules.
STARTS = {
    "site": {
        "log_age": 1.0,
        "overdue": 3.0,
        "log_size": 0.8,
        "log_run_time": -2.0,
        "log_alike_none_running": 1.0,
    },
    "expansion-factor": {"log_age": 1.0, "log_time_limit": -1.1},
    "sjf": {"log_time_limit": -1.0},
    "saf": {"log_time_limit": -1.0, "log_size": -1.0},
}
#: Searched in a linear search: not the class of jobs, which a log without limits derives from run
#: times that were unknown at submission, nor shares, which goals weigh.
_LINEAR = tuple(name for name in SITE.jobs if name not in ("interactive", "share_doublings"))
#: Features of the goals: never searched, with the same points in every network.
_BY_GOALS = {"interactive_points": 1.0, "share_points": -1.0}
#: Waiting never counts against a job.
_WAITING = ("log_age", "overdue")
#: Job features that a network can do without, to measure their effect.
FEATURE_GROUPS: Mapping[str, tuple[str, ...]] = {
    "request": ("log_time_limit",),
    "processors": ("log_size",),
    "class": ("interactive",),
    "prediction": SITE.history_jobs[:-1],
    "alike": SITE.history_jobs[-1:],
}
#: Fewest candidates of a generation from which the search gets weights.
_FEWEST_CANDIDATES = 3
#: The reserve uses few features; with all of them it overfits the training loads.
RESERVE_NUMBERS = len(RESERVE_FEATURES) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySearchSettings:
    """Settings of the search (Hansen and Ostermeier 2001: CMA-ES)."""

    hidden: Count = 6  #: hidden units of the network
    generations: Count = 120  #: updates of the search distribution
    population: int = 0  #: candidates a generation; 0 takes 4 + 3 ln(parameters)
    step: Annotated[float, "(0, 1000]"] = 0.3  #: initial standard deviation; weights are of order 1
    validate_every: Count = 5  #: generations between validations
    seed: Natural = 1
    weights: RewardWeights = field(default_factory=RewardWeights)  #: of the maximised objective
    hold: bool = False  #: whether the network also gives a reserve free of batch work
    #: The searched part: the whole network, the linear term (and the reserve with `hold`), or the
    #: reserve alone; the rest stays as at the start.
    searched: Annotated[str, ("network", "linear", "reserve")] = "network"
    #: The order at the start; with `hold`, interactive jobs first.
    start: Annotated[str, tuple(STARTS)] = "sjf"
    history: bool = False  #: whether the network uses past runs
    without: str = ""  #: names of FEATURE_GROUPS that it does not use, separated by commas
    batch: Natural = 0  #: training loads drawn for each generation; 0 takes all of them

    def __post_init__(self) -> None:
        check_settings(self)
        if 0 != self.population < _FEWEST_CANDIDATES:
            raise ConfigurationError(
                f"population is {self.population}: give {_FEWEST_CANDIDATES} at least, or 0."
            )
        if self.searched == "reserve" and not self.hold:
            raise ConfigurationError("searched=reserve searches the reserve: give --hold as well.")
        if self.start == "site" and not self.history:
            raise ConfigurationError("start=site looks at past runs: set history=true as well.")
        for group in self.groups_left_out:
            if group not in FEATURE_GROUPS:
                raise ConfigurationError(
                    f"without is {group!r}: give some of {', '.join(FEATURE_GROUPS)}."
                )

    @property
    def groups_left_out(self) -> list[str]:
        """The names in `without`."""
        return [name for name in self.without.split(",") if name]

    @property
    def unseen(self) -> set[str]:
        """Job features that the search does not change."""
        past = set(_BY_GOALS) if self.history else {*_BY_GOALS, *SITE.history_jobs}
        return past.union(*(FEATURE_GROUPS[group] for group in self.groups_left_out))


def initial_parameters(settings: PolicySearchSettings) -> FloatArray:
    """Where the search starts: one of STARTS, the network part silent, INITIAL_RESERVE held."""
    scores = parameter_count(SITE, settings.hidden)
    parameters = np.zeros(scores + settings.hold * RESERVE_NUMBERS)
    linear = parameters[scores - len(SITE.jobs) : scores]
    for feature, weight in {**STARTS[settings.start], **_BY_GOALS}.items():
        if feature in _BY_GOALS or feature not in settings.unseen:
            linear[SITE.jobs.index(feature)] = weight * USUAL[feature][1]
    if settings.hold:
        linear[SITE.jobs.index("interactive")] = 2.0
        parameters[-1] = INITIAL_RESERVE / RESERVE_STEP
    return parameters


def searched_places(settings: PolicySearchSettings) -> IntArray:
    """Places in `initial_parameters` that the search changes."""
    scores = parameter_count(SITE, settings.hidden)
    reserve = np.arange(scores, scores + settings.hold * RESERVE_NUMBERS)
    if settings.searched == "reserve":
        return reserve
    linear = scores - len(SITE.jobs) + np.arange(len(SITE.jobs))
    if settings.searched == "linear":
        seen = [SITE.jobs.index(name) for name in _LINEAR if name not in settings.unseen]
        return np.concatenate([linear[seen], reserve])
    unseen = [SITE.jobs.index(name) for name in sorted(settings.unseen)]
    rows = [len(SITE.queue) + place for place in unseen]
    hidden = np.array(rows, dtype=np.int64) * settings.hidden
    into = (hidden[:, None] + np.arange(settings.hidden)).ravel()
    places = np.setdiff1d(np.arange(scores), np.concatenate([into, linear[unseen]]))
    return np.concatenate([places, reserve])


def search_bounds(settings: PolicySearchSettings) -> FloatArray | None:
    """Bounds under which waiting never counts against a job, shape [searched, 2]; or None."""
    if settings.searched != "linear":
        return None
    first = parameter_count(SITE, settings.hidden) - len(SITE.jobs)
    waiting = [first + SITE.jobs.index(name) for name in _WAITING]
    lowest = np.where(np.isin(searched_places(settings), waiting), 0.0, -np.inf)
    return np.column_stack([lowest, np.full(len(lowest), np.inf)])


def parameters_of(network: QNetwork, settings: PolicySearchSettings) -> FloatArray:
    """The numbers of a network of the `site` schema without a reserve, to start a search."""
    fits = network.schema == SITE and network.hidden == settings.hidden and not settings.hold
    if not fits or network.activation != "relu":
        raise ConfigurationError(
            f"a search without --hold from a model needs one of the site schema with "
            f"{settings.hidden} hidden units (--hidden): give another --from."
        )
    parts = (network.queue_weights, network.job_weights, network.bias, network.output)
    return np.concatenate([*(part.ravel() for part in parts), network.linear])


#: For mean bounded slowdown in windows of logs: few weights, many loads, the shipped order.
SLOWDOWN = PolicySearchSettings(
    hidden=1,
    generations=20,
    population=12,
    step=0.15,
    weights=RewardWeights(slowdown=10.0, tail=0.0),
    searched="linear",
    start="site",
    history=True,
    batch=16,
)
#: For a site: the weights of the shipped order, searched so that no group of jobs loses; each
#: generation is compared on one run through the log.
SITE_ORDER = replace(
    SLOWDOWN, weights=RewardWeights(slowdown=10.0, tail=2.0, groups=10.0), batch=1, validate_every=2
)


#: Rules that order by a sum of logarithms, and the weights of its features.
RULE_WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "fifo": {"log_age": 1.0},
    "sjf": {"log_time_limit": -1.0},
    "saf": {"log_time_limit": -1.0, "log_size": -1.0},
}


def rule_network(rule: str) -> QNetwork:
    """The network of the `site` schema with the order of one of RULE_WEIGHTS."""
    parameters = np.zeros(parameter_count(SITE, 1))
    linear = parameters[-len(SITE.jobs) :]
    for feature, weight in RULE_WEIGHTS[rule].items():
        linear[SITE.jobs.index(feature)] = weight * USUAL[feature][1]
    return network_from_parameters(SITE, parameters, hidden=1, scaler=fixed_scaler(SITE))


def _network(
    settings: PolicySearchSettings, parameters: FloatArray, searched: FloatArray
) -> QNetwork:
    """The network of the numbers at the start, with new ones in the searched places."""
    parameters = parameters.copy()
    parameters[searched_places(settings)] = searched
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


def unsearched_network(settings: PolicySearchSettings) -> QNetwork:
    """The network at the start of a search."""
    parameters = initial_parameters(settings)
    return _network(settings, parameters, parameters[searched_places(settings)])


def search_policy(
    training: Sequence[TrainingLoad],
    validation: Sequence[TrainingLoad],
    settings: PolicySearchSettings,
    kept: Checkpoint,
    progress: Progress,
    start: QNetwork | None,
) -> TrainedPolicy:
    """Maximise the site's objective over the weights of a network.

    Candidates of a generation run on the same training loads. The validation loads choose among the
    means of the search. `start` replaces `initial_parameters`.
    """
    from cmaes import CMA  # noqa: PLC0415 - brings scipy.stats, which no worker has to wait for

    parameters = initial_parameters(settings) if start is None else parameters_of(start, settings)
    network = partial(_network, settings, parameters)

    def valued(searched: FloatArray, loads: Sequence[TrainingLoad]) -> float:
        return mean_objective(network(searched), loads, settings.weights, together=True)

    best = parameters[searched_places(settings)]
    objective = valued(best, validation)
    first = drawn_loads(training, settings.batch, settings.seed, 0)
    curve = [(0, valued(best, first), objective)]
    evolution = CMA(
        mean=best.copy(),  # CMA changes it in place
        sigma=settings.step,
        bounds=search_bounds(settings),
        seed=settings.seed,
        population_size=settings.population or None,
    )
    simulated = 0
    for generation in range(1, settings.generations + 1):
        candidates = [evolution.ask() for _ in range(evolution.population_size)]
        loads = drawn_loads(training, settings.batch, settings.seed, generation)
        simulated += len(candidates) * sum(len(load.workload.submit) for load in loads)
        if generation <= len(kept.steps):
            objectives = kept.steps[generation - 1]
        else:
            alone = partial(mean_objective, loads=loads, weights=settings.weights)
            objectives = side_by_side(alone, [network(each) for each in candidates])
            kept.add(objectives)
        evolution.tell([(x, -value) for x, value in zip(candidates, objectives, strict=True)])
        if generation % settings.validate_every == 0 or generation == settings.generations:
            mean = np.array(evolution.mean)
            value = valued(mean, validation)
            curve.append((generation, max(objectives), value))
            if value > objective:
                best, objective = mean, value
        progress(generation, objective)
    return TrainedPolicy(
        network=network(best),
        validation_objective=objective,
        curve=tuple(curve),
        simulated_jobs=simulated,
    )
