"""One sweep of SARSA over a training load: who acts, what is collected, what is learned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.reactive_grid import REACTIVE_GRID, account_places
from slurm_rl_plugin.learning.sarsa_settings import SarsaSettings
from slurm_rl_plugin.learning.training_load import Scaler, TrainingLoad
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.cluster import empty_cluster
from slurm_rl_plugin.simulator.perceptron import descend_through, perceptron_of, values_of
from slurm_rl_plugin.simulator.reactive_grid import GRID, grid_job_table
from slurm_rl_plugin.simulator.recorded_starts import recorded_transitions
from slurm_rl_plugin.simulator.sarsa_rollout import Course, GridInputs, Transitions, sarsa_sweep
from slurm_rl_plugin.units import FloatArray

STATE_INPUTS, JOB_INPUTS = len(REACTIVE_GRID.queue), len(REACTIVE_GRID.jobs)
INPUTS = STATE_INPUTS + JOB_INPUTS


def grid_scaler() -> Scaler:
    """Fixed mean and scale of the 11 inputs.

    Run times from seconds to a day fill a third of their logarithmic input: it is spread out, so
    that the sigmoids can tell them apart.
    """
    state, job = np.full(STATE_INPUTS, 0.5), np.full(JOB_INPUTS, 0.5)
    spread = job.copy()
    spread[REACTIVE_GRID.jobs.index("log_estimate")] = 0.15
    return state, state.copy(), job, spread


def grid_inputs(load: TrainingLoad) -> GridInputs:
    """The inputs of a load's jobs, scaled."""
    queue_mean, queue_scale, job_mean, job_scale = grid_scaler()
    return GridInputs(
        jobs=(grid_job_table(load.workload) - job_mean) / job_scale,
        places=account_places(load.workload.shares),
        queue_mean=queue_mean,
        queue_scale=queue_scale,
        grid=GRID,
    )


def network_of(parameters: FloatArray) -> QNetwork:
    """The frozen network of a SARSA learner's parameters, which are copied."""
    learned = perceptron_of(parameters.copy(), INPUTS)
    queue_mean, queue_scale, job_mean, job_scale = grid_scaler()
    return QNetwork(
        schema=REACTIVE_GRID,
        queue_mean=queue_mean,
        queue_scale=queue_scale,
        job_mean=job_mean,
        job_scale=job_scale,
        queue_weights=learned.weights[:STATE_INPUTS],
        job_weights=learned.weights[STATE_INPUTS:],
        bias=learned.bias,
        output=learned.output,
        linear=np.zeros(JOB_INPUTS),
        output_bias=float(learned.offset[0]),
        activation="sigmoid",
    )


def _course(settings: SarsaSettings, load: TrainingLoad, *, by_deadline: bool) -> Course:
    online = settings.update == "online"
    return Course(
        by_deadline=by_deadline,
        epsilon=0.0 if by_deadline else float(settings.epsilon),
        gamma=float(settings.gamma),
        rate=float(settings.learning_rate) if online else 0.0,
        utility_weight=float(settings.utility_weight),
        difference=settings.reward == "difference",
        cycle=float(load.settings.cycle),
        reserve=int(load.settings.reserve),
    )


def acted_starts(
    parameters: FloatArray,
    load: TrainingLoad,
    settings: SarsaSettings,
    rng: np.random.Generator,
    *,
    by_deadline: bool,
) -> Transitions:
    """The starts of one simulated pass; the online variant learns on the way.

    Args:
        parameters: of the network; changed in place by the online variant.
        load: what is simulated.
        settings: of the learner.
        rng: draws the exploration.
        by_deadline: act by early deadline first instead of by the network.
    """
    return sarsa_sweep(
        load.workload,
        empty_cluster(load.workload, load.settings.capacity, load.settings.half_life),
        grid_inputs(load),
        perceptron_of(parameters, INPUTS),
        _course(settings, load, by_deadline=by_deadline),
        rng.random((len(load.workload.submit), 2)),
    )


def recorded_starts(load: TrainingLoad, settings: SarsaSettings) -> Transitions:
    """The starts that the load's log records (2008, section VII: calibration by a real scheduler).

    Raises:
        ConfigurationError: the log lacks some.
    """
    start = load.prepared.log.start
    if np.isnan(start).any():
        raise ConfigurationError(
            f"pre-training on recorded starts: {int(np.isnan(start).sum())} jobs of a training "
            "log lack theirs; choose edf or none."
        )
    course = _course(settings, load, by_deadline=False)
    return recorded_transitions(
        load.workload, load.settings.capacity, start, grid_inputs(load), course
    )


def learn_afresh(
    parameters: FloatArray,
    initial: FloatArray,
    collected: Sequence[Transitions],
    settings: SarsaSettings,
    rng: np.random.Generator,
) -> FloatArray:
    """Batch re-learning: a new network fitted to SARSA's targets for everything collected.

    Args:
        parameters: of the network that gives the values of the next starts.
        initial: where the new network starts.
        collected: one element a sweep.
        settings: of the learner.
        rng: draws the order of the examples.
    """
    old, fitted = perceptron_of(parameters, INPUTS), initial.copy()
    examples = np.concatenate([each.inputs[:-1] for each in collected])
    targets = np.concatenate(
        [each.reward[:-1] + settings.gamma * values_of(old, each.inputs[1:]) for each in collected]
    )
    for _ in range(settings.epochs):
        order = rng.permutation(len(targets))
        network = perceptron_of(fitted, INPUTS)
        descend_through(network, examples, targets, order, settings.learning_rate)
    return fitted
