"""Settings of the policy search: what of a network is searched, and where the search begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.site import (
    RESERVE_FEATURES,
    RESOURCE_FEATURES,
    SCARCE_SHARE,
    SCARCITY_FEATURES,
    SITE,
)
from slurm_rl_plugin.learning.setting_numbers import check_number
from slurm_rl_plugin.policies.network import QNetwork, parameter_count, with_resources
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.utility.reward import RewardWeights

#: Processors held where the search begins; a fixed reserve of two is a fair start anywhere.
INITIAL_RESERVE = 2.0
#: Processors that a step of 1 in a searched number of the reserve makes: scores are of order 1,
#: reserves of some processors.
RESERVE_STEP = 4.0
#: Orders to start with -> weights of the job features that make them. The first two are the
#: marginal optima of responsiveness (2011) and of time utility (2008); the third takes the newest
#: first among jobs of equal estimates, which class medians make many of; under the fourth nobody
#: waits many times longer than others of his run time, so that longest waits stay short. The fifth
#: is weighted shortest processing time (Smith 1956) with what past runs predict: a job weighs what
#: a second of waiting costs in slowdown, by half, since the prediction errs; jobs of which many
#: alike wait, and the first of them above all, go earlier for what they tell. The last one is
#: smallest area first, for a network that is not to look at predictions.
STARTS = {
    "min-run-wait": {"log_turnaround": -1.0},
    "utility-greedy": {"log_loss_rate_per_work": 1.0},
    "sjf": {"log_estimate": -1.0, "log_turnaround": -0.02},
    "expansion-factor": {"log_turnaround": 1.0, "log_estimate": -1.1},
    "wspt": {
        "log_slowdown_rate": 1.0,
        "log_expected_run_time": -3.0,
        "log_processors": -2.0,
        "log_pending_alike": 0.5,
        "log_pending_alike_none_running": 0.5,
    },
    "saf": {"log_estimate": -3.0, "log_processors": -2.0},
}
#: What of the network is searched: all of it, or the rest stays as it starts.
SEARCHED = ("network", "linear", "reserve")
#: Searched where the search is linear: all but what changes with every second of waiting, which
#: gains nothing for slowdown. The age of a job counts where the tail does, and never against it.
_LINEAR = (*SITE.static_jobs, SCARCE_SHARE, *SITE.history_jobs)
_AGE = "log_wait"
#: Job features that a network can be made to do without, to see what they are worth.
FEATURE_GROUPS: Mapping[str, tuple[str, ...]] = {
    "request": ("log_estimate", "log_time_limit", "log_work"),
    "processors": ("log_processors", "log_work"),
    "class": ("interactive",),
    "prediction": SITE.history_jobs[:-2],
    "alike": SITE.history_jobs[-2:],
}
#: Features of what a machine has beside processors; a search looks at them where it is told to.
_OF_RESOURCES = {*RESOURCE_FEATURES, SCARCE_SHARE, *SCARCITY_FEATURES}
#: Fewer candidates a generation give the search no weights to learn by.
_FEWEST_CANDIDATES = 3
#: Weights of networks are of order 1; where they begin to overflow, nothing is learned for long.
_LARGEST_STEP = 1000.0
#: The reserve looks at few features: with all of them it learns what only the training loads show.
RESERVE_NUMBERS = len(RESERVE_FEATURES) + 1


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
        searched: one of SEARCHED: the whole network, the linear term only (and the reserve where
            it holds), or the reserve only.
        start: the order that it starts with, one of STARTS; with `hold`, interactive jobs first.
        history: whether the network looks at past runs.
        resources: whether the network looks at the shares of each resource that jobs ask for, and
            at what is scarce; on processors alone that tells it nothing new.
        without: names of FEATURE_GROUPS that it does not look at, separated by commas.
        batch: training loads drawn anew for each generation; 0 takes all of them in each.

    Raises:
        ConfigurationError: a word that is not known, words that do not go together, or a number out
            of its range.
    """

    hidden: int = 6
    generations: int = 120
    population: int = 0
    step: float = 0.3
    validate_every: int = 5
    seed: int = 1
    weights: RewardWeights = field(default_factory=RewardWeights)
    hold: bool = False
    searched: str = "network"
    start: str = "min-run-wait"
    history: bool = False
    resources: bool = False
    without: str = ""
    batch: int = 0

    def __post_init__(self) -> None:
        for name, known in (("start", tuple(STARTS)), ("searched", SEARCHED)):
            given = getattr(self, name)
            if given not in known:
                raise ConfigurationError(f"{name} is {given!r}: give {' or '.join(known)}.")
        self._check_numbers()
        if self.searched == "reserve" and not self.hold:
            raise ConfigurationError("searched=reserve searches the reserve: give --hold as well.")
        if self.start == "wspt" and not self.history:
            raise ConfigurationError("start=wspt looks at past runs: set history=true as well.")
        for group in self.groups_left_out:
            if group not in FEATURE_GROUPS:
                raise ConfigurationError(
                    f"without is {group!r}: give some of {', '.join(FEATURE_GROUPS)}."
                )

    def _check_numbers(self) -> None:
        check = partial(check_number, "policy-search")
        for name in ("hidden", "generations", "validate_every"):
            check(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        for name in ("batch", "seed"):
            check(name, getattr(self, name), getattr(self, name) >= 0, "at least 0")
        several = self.population == 0 or self.population >= _FEWEST_CANDIDATES
        check("population", self.population, several, f"at least {_FEWEST_CANDIDATES}, or 0")
        fits = 0.0 < self.step <= _LARGEST_STEP
        check("step", self.step, fits, f"above 0, and at most {_LARGEST_STEP:g}")

    @property
    def groups_left_out(self) -> list[str]:
        """Names of the groups of features that `without` lists, separated by commas."""
        return [name for name in self.without.split(",") if name]

    @property
    def unseen(self) -> set[str]:
        """Job features that the network does not look at."""
        past = set() if self.history else set(SITE.history_jobs)
        beside = set() if self.resources else _OF_RESOURCES.intersection(SITE.jobs)
        return past.union(beside, *(FEATURE_GROUPS[group] for group in self.groups_left_out))

    @property
    def unseen_queue(self) -> set[str]:
        """Queue features that the network does not look at."""
        return set() if self.resources else _OF_RESOURCES.intersection(SITE.queue)


def initial_parameters(settings: PolicySearchSettings) -> FloatArray:
    """Where the search starts: one of STARTS, the network part silent, INITIAL_RESERVE held."""
    scores = parameter_count(SITE, settings.hidden)
    parameters = np.zeros(scores + settings.hold * RESERVE_NUMBERS)
    linear = parameters[scores - len(SITE.jobs) : scores]
    for feature, weight in STARTS[settings.start].items():
        if feature not in settings.unseen:
            linear[SITE.jobs.index(feature)] = weight
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
        names = (*_LINEAR, _AGE) if settings.weights.tail > 0 else _LINEAR
        seen = [SITE.jobs.index(name) for name in names if name not in settings.unseen]
        return np.concatenate([linear[seen], reserve])
    unseen = [SITE.jobs.index(name) for name in sorted(settings.unseen)]
    rows = [SITE.queue.index(name) for name in sorted(settings.unseen_queue)]
    rows += [len(SITE.queue) + place for place in unseen]
    hidden = np.array(rows, dtype=np.int64) * settings.hidden
    into = (hidden[:, None] + np.arange(settings.hidden)).ravel()
    places = np.setdiff1d(np.arange(scores), np.concatenate([into, linear[unseen]]))
    return np.concatenate([places, reserve])


def search_bounds(settings: PolicySearchSettings) -> FloatArray | None:
    """The age of a job never counts against it; shape [searched, 2], None where it is free."""
    if settings.searched != "linear":
        return None
    age = parameter_count(SITE, settings.hidden) - len(SITE.jobs) + SITE.jobs.index(_AGE)
    lowest = np.where(searched_places(settings) == age, 0.0, -np.inf)
    return np.column_stack([lowest, np.full(len(lowest), np.inf)])


def parameters_of(network: QNetwork, settings: PolicySearchSettings) -> FloatArray:
    """The numbers of a network, where a search of these settings may start.

    Args:
        network: of the `site` schema; a fixed reserve is not taken over.
        settings: of the search.

    Raises:
        ConfigurationError: the network has another schema, size or scaler.
    """
    network = with_resources(network)
    fits = network.schema == SITE and network.hidden == settings.hidden and not settings.hold
    if not fits or network.activation != "relu":
        raise ConfigurationError(
            f"a search without --hold from a model needs one of the site schema with "
            f"{settings.hidden} hidden units (--hidden): give another --from."
        )
    parts = (network.queue_weights, network.job_weights, network.bias, network.output)
    return np.concatenate([*(part.ravel() for part in parts), network.linear])


#: For mean bounded slowdown on parallel machines: few weights, many loads, a good start.
SLOWDOWN = PolicySearchSettings(
    hidden=1,
    generations=20,
    population=12,
    step=0.15,
    weights=RewardWeights(slowdown=10.0, tail=0.0),
    searched="linear",
    start="wspt",
    history=True,
    batch=16,
)
