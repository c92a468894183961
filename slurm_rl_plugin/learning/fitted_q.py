"""Fitted Q iteration, feed-forward or with an echo state network (2011, Algorithm 1)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.reactive_grid import REACTIVE_GRID_SCHEMAS
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning import policy_search, rollout
from slurm_rl_plugin.learning.checkpoint import Checkpoint
from slurm_rl_plugin.learning.regression import EchoStateRegressor, FeedForwardRegressor, Samples
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
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork, ReservoirSettings
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.simulation import simulate_network
from slurm_rl_plugin.simulator.scoring.echo_state import compile_echo_state
from slurm_rl_plugin.simulator.scoring.queue_features import grid_job_table
from slurm_rl_plugin.units import BoolArray, FloatArray
from slurm_rl_plugin.utility.reward import RewardWeights

#: Rewards of a start on the papers' schemas; see `rewards`.
GRID_REWARDS = ("literal", "difference")
#: Rewards on the `site` schema; see `slowdown_rewards`.
SITE_REWARDS = ("slowdown",)
REWARDS = (*GRID_REWARDS, *SITE_REWARDS)


def rewards(experience: rollout.Experience, kind: str, utility_weight: float) -> FloatArray:
    """The reward lambda W + (1 - lambda) F of every start, float64[n] (2011, section 3.3).

    "literal" takes W, the responsiveness of the job at its completion, and F, the fairness at its
    start. Neither depends on the jobs left waiting, so it favours the longest jobs, whose
    responsiveness hardly depends on their wait. "difference" takes the effect of the start: minus
    the responsiveness that the jobs left waiting lose, and the fairness gained until the next
    start. `utility_weight` is lambda.
    """
    if kind == "literal":
        utility, fairness = experience.responsiveness, experience.fairness
    else:
        utility = -experience.lost
        fairness = np.diff(experience.fairness, append=experience.fairness[-1:])
    return utility_weight * utility + (1.0 - utility_weight) * fairness


def slowdown_rewards(experience: rollout.SiteExperience, exponent: float) -> FloatArray:
    """The reward (s - l) / (s + l) of each job at each start, in [-1, 1]; shape as `spared`.

    s is the slowdown that the job would have lost behind each of the jobs left waiting, l what they
    lose behind it, each to the power of `exponent`. An exponent below 1 distinguishes good jobs
    from better ones, since s / l spans many powers of ten. Weighted shortest processing time first
    (Smith 1956) is the order of s / l. The reward has no scale, so long and short queues count the
    same; it is 0 if neither side loses anything.
    """
    spared, lost = experience.spared**exponent, experience.lost**exponent
    stake, gained = spared + lost, spared - lost
    return np.divide(gained, stake, out=np.zeros_like(stake), where=stake > 0.0)


def with_a_choice(experience: rollout.Experience) -> BoolArray:
    """Whether another job could have started at each start, shape [n]."""
    return np.diff(experience.first_action) > 1


def targets(
    experience: rollout.Experience,
    reward: FloatArray,
    network: EchoStateNetwork | None,
    workload: Workload,
    gamma: float,
) -> FloatArray:
    """The target r + gamma max_b Q(s', b) of every start, float64[n] (2011, Algorithm 1).

    The algorithm is printed with min and the state s; here rewards are maximised, and the value is
    that of the next state s'. If s' has a single job, its own target replaces max_b Q: there is no
    choice to learn, and the actual continuation is known. `network` is Q_k; None is 0 everywhere.
    """
    if network is None or gamma == 0.0:
        value = np.zeros(len(reward))
    else:
        value = rollout.best_action_values(compile_echo_state(network, workload), experience)
    free = with_a_choice(experience)
    found = np.empty(len(reward))
    ahead = 0.0
    for start in range(len(reward) - 1, -1, -1):
        found[start] = reward[start] + gamma * ahead
        ahead = value[start] if free[start] else found[start]
    return found


def site_targets(
    experience: rollout.SiteExperience, reward: FloatArray, network: QNetwork | None, gamma: float
) -> FloatArray:
    """The target r + gamma max_b Q(s', b) of each job at each start; shape as `reward`.

    s' is the next start that leaves a job waiting, independent of the job of this start. `reward`
    has shape [n, 1 + MOST_OTHERS]; `network` is as in `targets`.
    """
    if network is None or gamma == 0.0:
        return reward
    scores = network.scores(experience.queue[:, None], experience.features)
    best = np.where(experience.job == rollout.NO_JOB, -np.inf, scores).max(axis=1, initial=-np.inf)
    return reward + gamma * np.append(best[1:], 0.0)[: len(reward), None]


#: Schemas of a trained network by name.
SCHEMAS = {schema.name: schema for schema in (*REACTIVE_GRID_SCHEMAS, SITE)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedQSettings:
    """Settings of fitted Q iteration (2011, sections 3.2 and 4).

    The defaults use the paper's 11 inputs, which lack the wait. With known run times that suffices
    for the level of shortest job first. With class medians all jobs of one class and VO have equal
    inputs. Schema "site" requires reward "slowdown"; see SLOWDOWN.
    """

    regressor: Annotated[str, ("feed-forward", "echo-state")] = "echo-state"
    schema: Annotated[str, tuple(SCHEMAS)] = "reactive-grid-2011"
    iterations: Count = 12  #: N of Algorithm 1; experience is collected anew before each
    kept: Count = 3  #: number of last collections to learn from
    gamma: Annotated[float, "[0, 1)"] = 0.9  #: discount of one start
    #: Probability of a random start while collecting; not for `site`.
    epsilon: Annotated[float, "[0, 1]"] = 0.1
    #: Lambda, of responsiveness against fairness in the reward; not for `site`.
    utility_weight: Annotated[float, "[0, 1]"] = 0.5
    #: On the weights while collecting, in parts of their root mean square; `site` only.
    noise: Annotated[float, "[0, inf)"] = 0.3
    #: Jobs left waiting to learn from at each start; `site` only.
    others: Annotated[int, "[0, 16]"] = 8
    exponent: Annotated[float, "(0, 1]"] = 0.25  #: of the reward "slowdown" (`slowdown_rewards`)
    batch: Natural = 0  #: training loads drawn for each iteration; 0 takes all of them
    reward: Annotated[str, tuple(REWARDS)] = "difference"
    hidden: Count = 16  #: sigmoid units of the feed-forward network
    passes: Count = 20  #: over the samples in each fit of the feed-forward network
    decay: Annotated[float, "[0, inf)"] = 1e-4  #: L2 penalty of the feed-forward network
    #: Of the echo state network.
    reservoir: ReservoirSettings = field(default_factory=ReservoirSettings)
    #: Penalty of its readout, per sample and on standardised inputs.
    ridge: Annotated[float, "[0, inf)"] = 1e-4
    seed: int = 1  #: of everything random
    #: Of the validated objective.
    weights: RewardWeights = field(
        default_factory=lambda: RewardWeights(
            time_utility=0.0, responsiveness=0.5, fairness=0.5, tail=0.0
        )
    )

    def __post_init__(self) -> None:
        check_settings(self)
        site = self.schema == SITE.name
        if site and self.regressor == "echo-state":
            raise ConfigurationError(
                "schema site is for fitted-q: choose it, or a reactive-grid schema for echo-state."
            )
        if site != (self.reward in SITE_REWARDS):
            raise ConfigurationError(
                f"reward {self.reward} does not go with schema {self.schema}: reward slowdown "
                "and schema site go together."
            )


#: For mean bounded slowdown on parallel machines, as policy_search.SLOWDOWN is.
SLOWDOWN = FittedQSettings(
    regressor="feed-forward",
    schema="site",
    reward="slowdown",
    iterations=6,
    gamma=0.0,
    hidden=3,
    passes=10,
    batch=16,
    weights=RewardWeights(slowdown=10.0, tail=0.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPatterns:
    """Collects by rollouts: at each start any job that fits may be chosen."""

    settings: FittedQSettings
    regressor: FeedForwardRegressor | EchoStateRegressor

    def collected(
        self, parameters: Sequence[float] | None, loads: Sequence[TrainingLoad], iteration: int
    ) -> list[tuple[rollout.Experience, Workload]]:
        """Experience of every load; that of simple orders without a policy yet."""
        network = self.regressor.driven(parameters)
        epsilon = None if parameters is None else self.settings.epsilon
        found = []
        for number, load in enumerate(loads):
            rng = np.random.default_rng([self.settings.seed, iteration, number])
            experience = rollout.collect_experience(
                load.workload, network, load.settings, epsilon=epsilon, rng=rng
            )
            found.append((experience, load.workload))
        return found

    def samples(
        self,
        collections: Sequence[Sequence[tuple[rollout.Experience, Workload]]],
        parameters: Sequence[float] | None,
    ) -> Samples:
        """Pattern set of Algorithm 1; the memory followed each simulation in its order."""
        network = None if parameters is None else self.regressor.driven(parameters)
        settings, parts = self.settings, []
        for experience, workload in (each for collection in collections for each in collection):
            reward = rewards(experience, settings.reward, settings.utility_weight)
            found = targets(experience, reward, network, workload, settings.gamma)
            free = with_a_choice(experience)
            jobs = grid_job_table(workload)[experience.job]
            parts.append((experience.queue[free], jobs[free], experience.state[free], found[free]))
        return Samples(*(np.concatenate(each) for each in zip(*parts, strict=True)))


#: Weights with noise.
_NOISY = ("queue_weights", "job_weights", "bias", "output", "linear")


def with_noise(network: QNetwork, noise: float, rng: np.random.Generator) -> QNetwork:
    """The network with noise on its weights, a constant small change of its order.

    Noise on the weights, not on single starts (Ruckstiess, Felder, Schmidhuber 2008): under EASY
    one start out of order changes little, and the network does not decide alone which job starts.
    The standard deviation is `noise` times the root mean square of each group of weights.
    """
    changed = {}
    for name in _NOISY:
        weights = getattr(network, name)
        spread = noise * np.sqrt(np.mean(weights**2))
        changed[name] = weights + spread * rng.standard_normal(weights.shape)
    return replace(network, **changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePatterns:
    """Collects from finished simulations, each under a network with its own noise."""

    settings: FittedQSettings
    regressor: FeedForwardRegressor

    def collected(
        self, parameters: Sequence[float] | None, loads: Sequence[TrainingLoad], iteration: int
    ) -> list[rollout.SiteExperience]:
        """Experience of every load; at first under the initial order of policy search."""
        network = policy_search.unsearched_network(policy_search.SLOWDOWN)
        if parameters is not None:
            network = self.regressor.network(parameters)

        def experience(number: int) -> rollout.SiteExperience:
            load = loads[number]
            rng = np.random.default_rng([self.settings.seed, iteration, number])
            explorer = with_noise(network, self.settings.noise, rng)
            start = simulate_network(load.workload, explorer, load.settings).start
            return rollout.site_experience(load.workload, start, load.settings)

        return side_by_side(experience, range(len(loads)))

    def samples(
        self,
        collections: Sequence[Sequence[rollout.SiteExperience]],
        parameters: Sequence[float] | None,
    ) -> Samples:
        """Pattern set: every start that left a job waiting, and alternatives that did not happen.

        The reward of an alternative, another job of the same queue going first, is known as well.
        Without alternatives the network would see bad jobs only in short queues without a better
        job.
        """
        network = None if parameters is None else self.regressor.network(parameters)
        parts = []
        for experience in (each for collection in collections for each in collection):
            reward = slowdown_rewards(experience, self.settings.exponent)
            found = site_targets(experience, reward, network, self.settings.gamma)
            width = 1 + self.settings.others
            row, column = np.nonzero(experience.job[:, :width] != rollout.NO_JOB)
            jobs = experience.features[row, column]
            states = np.empty((len(row), 0))  # no memory
            parts.append((experience.queue[row], jobs, states, found[row, column]))
        return Samples(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _patterns(settings: FittedQSettings) -> GridPatterns | SitePatterns:
    schema = SCHEMAS[settings.schema]
    if settings.regressor == "echo-state":
        reservoir = EchoStateRegressor.drawn(
            schema, settings.reservoir, settings.ridge, settings.seed
        )
        return GridPatterns(settings=settings, regressor=reservoir)
    regressor = FeedForwardRegressor(
        schema=schema, hidden=settings.hidden, passes=settings.passes, decay=settings.decay
    )
    kind = SitePatterns if schema == SITE else GridPatterns
    return kind(settings=settings, regressor=regressor)


def train_fitted_q(
    training: Sequence[TrainingLoad],
    validation: Sequence[TrainingLoad],
    settings: FittedQSettings,
    kept: Checkpoint,
    progress: Progress,
) -> TrainedPolicy:
    """Collect on the training loads, set targets, fit; keep the network that validates best."""
    patterns, simulated = _patterns(settings), 0
    collections: deque[Any] = deque(maxlen=settings.kept)

    def valued(parameters: Sequence[float], loads: Sequence[TrainingLoad]) -> float:
        network = patterns.regressor.network(parameters)
        return mean_objective(network, loads, settings.weights, together=True)

    first = len(kept.steps) + 1 if len(kept.steps) < settings.iterations else math.inf
    for iteration in range(1, settings.iterations + 1):
        before = kept.steps[iteration - 2][0] if iteration > 1 else None
        loads = drawn_loads(training, settings.batch, settings.seed, iteration)
        simulated += 2 * sum(len(load.workload.submit) for load in loads)
        if iteration > first - settings.kept:  # earlier collections are not needed
            collections.append(patterns.collected(before, loads, iteration))
        if iteration >= first:
            samples = patterns.samples(collections, before)
            if len(samples.targets) == 0:
                raise ConfigurationError(
                    "no queue ever builds up in the training loads: there is nothing to choose, "
                    "hence nothing to learn; train on busier logs."
                )
            parameters = patterns.regressor.fit(samples, settings.seed + iteration)
            kept.add([parameters, valued(parameters, loads), valued(parameters, validation)])
        progress(iteration, max(step[2] for step in kept.steps[:iteration]))
    best = max(kept.steps, key=lambda step: step[2])
    return TrainedPolicy(
        network=patterns.regressor.network(best[0]),
        validation_objective=best[2],
        curve=tuple((place + 1, step[1], step[2]) for place, step in enumerate(kept.steps)),
        simulated_jobs=simulated,
    )
