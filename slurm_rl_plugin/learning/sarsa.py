"""SARSA with a small network on the papers' 11 inputs (Perez et al. 2008, sections III and V.A).

`OnLineLearner` learns while it schedules, as the authors' did, from a policy initialised by early
deadline first. The paper trains on all examples at every start, which is quadratic in their number;
here each training takes a fixed number of examples, spread evenly over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.reactive_grid import REACTIVE_GRID, VO_PLACES, account_places
from slurm_rl_plugin.learning import sarsa_loop as loop
from slurm_rl_plugin.learning.checkpoint import Checkpoint
from slurm_rl_plugin.learning.training_load import (
    Count,
    Natural,
    Progress,
    TrainedPolicy,
    TrainingLoad,
    check_settings,
    mean_objective,
)
from slurm_rl_plugin.policies.network import QNetwork, Scaler, network_from_parameters
from slurm_rl_plugin.simulator.scoring.queue_features import grid_job_table
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.reward import RewardWeights
from slurm_rl_plugin.utility.time_utility import job_rows

#: Rewards of the compiled loop by name.
REWARDS = {
    "literal": loop.LITERAL,
    "difference": loop.DIFFERENCE,
    "completed": loop.COMPLETED,
    "running": loop.RUNNING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SarsaSettings:
    """Settings of SARSA (Perez et al. 2008, Fig. 1 and section V.A).

    A sweep is one pass over one of the training loads, which take turns.
    """

    epsilon: Annotated[float, "[0, 1]"] = 0.05  #: probability of a random start during training
    gamma: Annotated[float, "[0, 1)"] = 0.2  #: discount for each start
    learning_rate: Annotated[float, "(0, 1]"] = 0.1  #: step of the back-propagation, eta
    hidden: Count = 20  #: sigmoid units of the network
    sweeps: Count = 20  #: total number of passes, including pre-training
    schema: Annotated[str, (REACTIVE_GRID.name,)] = REACTIVE_GRID.name  #: of the network's inputs
    #: "literal": lambda U + (1 - lambda) F; "difference": with the saving by the choice of the job
    #: instead of U; "completed" and "running": with U of the jobs that end before the next start,
    #: or run at it (see `learning/sarsa_loop.py`).
    reward: Annotated[str, tuple(REWARDS)] = "difference"
    #: Lambda, the weight of time utility against fairness.
    utility_weight: Annotated[float, "[0, 1]"] = 0.5
    #: "edf": the first sweeps act by early deadline first; "recorded": they learn from recorded
    #: starts; "none".
    pretraining: Annotated[str, ("edf", "none", "recorded")] = "edf"
    pretraining_sweeps: Natural = 3
    #: "online": the network changes at every start; "batch": it is trained afresh after every sweep
    #: on all starts so far. (The paper trains afresh at every start, see `OnLineLearner`.)
    update: Annotated[str, ("online", "batch")] = "online"
    epochs: Count = 5  #: of each batch training
    #: "best": the network of the sweep that validates best; "last": that of the last sweep, as in
    #: the paper. (With the literal reward the best network is often the untrained one.)
    keep: Annotated[str, ("best", "last")] = "best"
    seed: int = 1  #: of the initial weights, the exploration and the order of the epochs
    weights: RewardWeights = field(default_factory=RewardWeights)  #: of the validated objective

    def __post_init__(self) -> None:
        check_settings(self)


#: As printed in 2008, section V.A; it learns to start interactive jobs last (see the reward). The
#: utility_weight is that of 2011 (section 4.3): 2008 prints neither it nor epochs nor sweeps.
PAPER = SarsaSettings(
    epsilon=0.3,
    gamma=0.2,
    learning_rate=0.3,
    hidden=20,
    reward="literal",
    utility_weight=0.5,
    pretraining="edf",
    update="batch",
    keep="last",
)


#: Inputs: of the state and of the job.
INPUTS = len(REACTIVE_GRID.queue) + len(REACTIVE_GRID.jobs)


def grid_scaler() -> Scaler:
    """Fixed mean and scale of the inputs.

    Times from seconds to a day fill a third of their logarithmic inputs, so these are spread out
    for the sigmoids.
    """
    state, job = np.full(len(REACTIVE_GRID.queue), 0.5), np.full(len(REACTIVE_GRID.jobs), 0.5)
    spread = np.array([0.15 if name.startswith("log_") else 0.5 for name in REACTIVE_GRID.jobs])
    return state, state.copy(), job, spread


def grid_inputs(load: TrainingLoad, *, one_hot: bool = False) -> loop.GridInputs:
    """The inputs of a load's jobs, scaled; `one_hot` has an input for each VO place."""
    queue_mean, queue_scale, job_mean, job_scale = grid_scaler()
    jobs = (grid_job_table(load.workload) - job_mean) / job_scale
    places = account_places(load.workload.shares)
    if one_hot:
        vo = (np.eye(VO_PLACES)[places[load.workload.account]] - 0.5) / 0.5
        jobs = np.column_stack([jobs[:, :1], vo, jobs[:, 2:]])
    rows = job_rows(load.workload.interactive, load.prepared.utilities)
    return loop.GridInputs(jobs, places, queue_mean, queue_scale, rows)


def network_of(parameters: FloatArray) -> QNetwork:
    """The frozen network of a SARSA learner's parameters, which are copied."""
    network = network_from_parameters(
        REACTIVE_GRID,
        np.append(parameters[:-1], np.zeros(len(REACTIVE_GRID.jobs))),
        hidden=(len(parameters) - 1) // (INPUTS + 2),
        scaler=grid_scaler(),
        activation="sigmoid",
    )
    return replace(network, output_bias=float(parameters[-1]))


def sweep_settings(
    settings: SarsaSettings,
    load: TrainingLoad,
    *,
    by_deadline: bool = False,
    epsilon: float = 0.0,
    rate: float = 0.0,
    replayed: int = 0,
) -> loop.SweepSettings:
    """Settings of a sweep over a load, which explores and learns as given."""
    return loop.SweepSettings(
        by_deadline=by_deadline,
        epsilon=float(epsilon),
        gamma=float(settings.gamma),
        rate=float(rate),
        replayed=replayed,
        utility_weight=float(settings.utility_weight),
        reward=REWARDS[settings.reward],
        cycle=float(load.settings.cycle),
        reserve=int(load.settings.reserve),
    )


def _swept(
    load: TrainingLoad,
    grid: loop.GridInputs,
    sweep: loop.SweepSettings,
    parameters: FloatArray,
    rng: np.random.Generator,
    past: loop.Transitions,
    fresh: FloatArray,
) -> tuple[loop.Transitions, FloatArray]:
    """The starts of one simulated pass, and the start of each job; learning moves `parameters`.

    Args:
        past: earlier examples to learn from as well.
        fresh: initial parameters of each training at a start.
    """
    width, cluster = past.inputs.shape[1], load.settings.empty_cluster(load.workload)
    network, begin = loop.perceptron_of(parameters, width), loop.perceptron_of(fresh, width)
    draws = rng.random((len(load.workload.submit), 2))
    starts = loop.sarsa_sweep(cluster, grid, network, sweep, draws, past, begin)
    return starts, cluster.start


def acted_starts(
    parameters: FloatArray,
    load: TrainingLoad,
    settings: SarsaSettings,
    rng: np.random.Generator,
    *,
    by_deadline: bool,
) -> loop.Transitions:
    """The starts of one simulated pass; the online variant changes `parameters`.

    `by_deadline` acts by early deadline first, not by the network.
    """
    sweep = sweep_settings(
        *(settings, load),
        by_deadline=by_deadline,
        epsilon=0.0 if by_deadline else settings.epsilon,
        rate=settings.learning_rate if settings.update == "online" else 0.0,
    )
    nothing = loop.Transitions(np.empty((0, INPUTS)), np.empty(0))
    return _swept(load, grid_inputs(load), sweep, parameters, rng, nothing, parameters)[0]


def recorded_starts(load: TrainingLoad, settings: SarsaSettings) -> loop.Transitions:
    """The starts recorded in a load's log (2008, section VII: calibration by a scheduler)."""
    start = load.prepared.log.start
    if np.isnan(start).any():
        raise ConfigurationError(
            f"pre-training on recorded starts: {int(np.isnan(start).sum())} jobs of a training "
            "log lack theirs; choose edf or none."
        )
    capacity, sweep = load.settings.capacity, sweep_settings(settings, load)
    return loop.recorded_transitions(load.workload, capacity, start, grid_inputs(load), sweep)


def learn_afresh(
    parameters: FloatArray,
    initial: FloatArray,
    collected: Sequence[loop.Transitions],
    settings: SarsaSettings,
    rng: np.random.Generator,
) -> FloatArray:
    """Batch learning: a new network fitted to SARSA's targets for all collected starts."""
    fitted = initial.copy()
    old, network = loop.perceptron_of(parameters, INPUTS), loop.perceptron_of(fitted, INPUTS)
    examples = np.concatenate([each.inputs[:-1] for each in collected])
    targets = np.concatenate(
        [
            each.reward[:-1] + settings.gamma * loop.values_of(old, each.inputs[1:])
            for each in collected
        ]
    )
    for _ in range(settings.epochs):
        order = rng.permutation(len(targets))
        loop.descend_through(network, examples, targets, order, settings.learning_rate)
    return fitted


class SarsaLearner:
    """A network and its experience.

    Attributes:
        parameters: of the network, for `perceptron_of`.
        collected: starts of each sweep so far, for the batch variant.
    """

    def __init__(self, settings: SarsaSettings) -> None:
        self._settings = settings
        self.parameters = self._initial(0)
        self.collected: list[loop.Transitions] = []

    def _generator(self, sweep: int, purpose: int) -> np.random.Generator:
        """A generator for each sweep, so that a resumed training draws the same numbers."""
        return np.random.default_rng([self._settings.seed, sweep, purpose])

    def _initial(self, sweep: int) -> FloatArray:
        return loop.random_parameters(self._generator(sweep, 0), INPUTS, self._settings.hidden)

    def sweep(self, number: int, load: TrainingLoad) -> None:
        """Act and learn on one load; sweeps count from 1."""
        settings = self._settings
        starts = self.starts(number, load)
        if settings.update == "batch":
            self.collected.append(starts)
            self.parameters = learn_afresh(
                self.parameters,
                self._initial(number),
                self.collected,
                settings,
                self._generator(number, 2),
            )

    def starts(self, number: int, load: TrainingLoad) -> loop.Transitions:
        """The starts of a sweep; the online variant learns from them."""
        settings = self._settings
        pretraining = number <= settings.pretraining_sweeps
        if pretraining and settings.pretraining == "recorded":
            starts = recorded_starts(load, settings)
            if settings.update == "online":
                network = loop.perceptron_of(self.parameters, INPUTS)
                loop.learn_in_order(network, starts, settings.gamma, settings.learning_rate)
            return starts
        by_deadline = pretraining and settings.pretraining == "edf"
        rng = self._generator(number, 1)
        return acted_starts(self.parameters, load, settings, rng, by_deadline=by_deadline)

    def take_up(self, number: int, load: TrainingLoad, parameters: list[float]) -> None:
        """Restore the state after a sweep of an earlier run."""
        if self._settings.update == "batch":  # the network before the sweep gives its starts
            self.collected.append(self.starts(number, load))
        self.parameters = np.array(parameters)


def train_sarsa(
    training: Sequence[TrainingLoad],
    validation: Sequence[TrainingLoad],
    settings: SarsaSettings,
    kept: Checkpoint,
    progress: Progress,
) -> TrainedPolicy:
    """Learn a Q-network by SARSA and keep the best or the last, which then acts greedily.

    The training loads take turns. The curve has an entry for the untrained network and one for each
    sweep, with the objectives of the greedy network.
    """
    learner = SarsaLearner(settings)
    steps = [_step(learner, training, validation, settings)]
    best = steps[0]
    for number in range(1, settings.sweeps + 1):
        load = training[(number - 1) % len(training)]
        if number <= len(kept.steps):
            step = kept.steps[number - 1]
            learner.take_up(number, load, step["parameters"])
        else:
            learner.sweep(number, load)
            step = _step(learner, training, validation, settings)
            kept.add(step)
        steps.append(step)
        if settings.keep == "last" or step["validation"] > best["validation"]:
            best = step
        progress(number, best["validation"])
    jobs = [len(load.workload.submit) for load in training]
    return TrainedPolicy(
        network=network_of(np.array(best["parameters"])),
        validation_objective=best["validation"],
        curve=tuple(
            (number, step["training"], step["validation"]) for number, step in enumerate(steps)
        ),
        simulated_jobs=sum(jobs[number % len(jobs)] for number in range(settings.sweeps)),
    )


def _step(
    learner: SarsaLearner,
    training: Sequence[TrainingLoad],
    validation: Sequence[TrainingLoad],
    settings: SarsaSettings,
) -> dict[str, Any]:
    """A sweep in the checkpoint: the network and its objectives when greedy."""
    network = network_of(learner.parameters)
    return {
        "parameters": learner.parameters.tolist(),
        "training": mean_objective(network, training, settings.weights),
        "validation": mean_objective(network, validation, settings.weights),
    }


#: Sweeps of the learner over the starts of early deadline first ("a few", section III.C).
_SWEEPS = 3


class OnLineLearner:
    """A network that learns at every start.

    Attributes:
        parameters: of the network, for `perceptron_of`.
    """

    def __init__(
        self, calibration: TrainingLoad, settings: SarsaSettings, *, replayed: int, one_hot: bool
    ) -> None:
        """Initialise the policy by early deadline first.

        Args:
            calibration: the load for early deadline first.
            one_hot: whether each virtual organisation is an input of its own.
        """
        self._settings, self._replayed, self._one_hot = settings, replayed, one_hot
        width = INPUTS + (VO_PLACES - 1) * one_hot
        rng = np.random.default_rng(settings.seed)
        self._fresh = loop.random_parameters(rng, width, settings.hidden)
        self.parameters = self._fresh.copy()
        nothing = loop.Transitions(np.empty((0, width)), np.empty(0))
        past = self._past = self._swept(calibration, rng, nothing, by_deadline=True)[0]
        network = loop.perceptron_of(self.parameters, width)
        for _ in range(_SWEEPS):
            ahead = loop.values_of(network, past.inputs[1:])
            targets = past.reward[:-1] + settings.gamma * ahead
            order = rng.permutation(len(targets))
            loop.descend_through(network, past.inputs[:-1], targets, order, settings.learning_rate)

    def run(self, load: TrainingLoad, *, learning: bool) -> FloatArray:
        """Start of each job of a load, seconds, shape [n]; acts greedily without `learning`."""
        rng = np.random.default_rng([self._settings.seed, 1])
        return self._swept(load, rng, self._past, learning=learning)[1]

    def _swept(
        self,
        load: TrainingLoad,
        rng: np.random.Generator,
        past: loop.Transitions,
        *,
        by_deadline: bool = False,
        learning: bool = False,
    ) -> tuple[loop.Transitions, FloatArray]:
        sweep = sweep_settings(
            *(self._settings, load),
            by_deadline=by_deadline,
            epsilon=self._settings.epsilon if learning else 0.0,
            rate=self._settings.learning_rate if learning else 0.0,
            replayed=self._replayed,
        )
        grid = grid_inputs(load, one_hot=self._one_hot)
        return _swept(load, grid, sweep, self.parameters, rng, past, self._fresh)
