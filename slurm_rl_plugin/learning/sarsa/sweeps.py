"""One sweep of SARSA over a training load: who acts, what is collected, what is learned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.reactive_grid import account_places
from slurm_rl_plugin.features.schema import FeatureSchema
from slurm_rl_plugin.learning.sarsa.settings import SarsaSettings
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.policies.network import QNetwork, Scaler
from slurm_rl_plugin.simulator.rollouts.recorded_starts import recorded_transitions
from slurm_rl_plugin.simulator.rollouts.sarsa import (
    GridInputs,
    SweepSettings,
    Transitions,
    sarsa_sweep,
)
from slurm_rl_plugin.simulator.rollouts.start_rewards import (
    COMPLETED,
    DIFFERENCE,
    DIFFERENCE_REACHED,
    LITERAL,
    RUNNING,
)
from slurm_rl_plugin.simulator.scoring.perceptron import descend_through, perceptron_of, values_of
from slurm_rl_plugin.simulator.scoring.reactive_grid import grid_code, grid_job_table
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.time_utility import job_rows

#: Rewards by name, as the compiled loop knows them.
_REWARDS = {
    "literal": LITERAL,
    "difference": DIFFERENCE,
    "difference-reached": DIFFERENCE_REACHED,
    "completed": COMPLETED,
    "running": RUNNING,
}


def input_width(schema: FeatureSchema) -> int:
    """How many inputs a network of the schema has."""
    return len(schema.queue) + len(schema.jobs)


def grid_scaler(schema: FeatureSchema) -> Scaler:
    """Fixed mean and scale of the inputs.

    Times from seconds to a day fill a third of their logarithmic inputs: these are spread out, so
    that the sigmoids can tell them apart.
    """
    state, job = np.full(len(schema.queue), 0.5), np.full(len(schema.jobs), 0.5)
    spread = np.array([0.15 if name.startswith("log_") else 0.5 for name in schema.jobs])
    return state, state.copy(), job, spread


def grid_inputs(load: TrainingLoad, schema: FeatureSchema) -> GridInputs:
    """The inputs of a load's jobs, scaled."""
    queue_mean, queue_scale, job_mean, job_scale = grid_scaler(schema)
    known = len(schema.static_jobs)
    return GridInputs(
        jobs=(grid_job_table(load.workload) - job_mean[:known]) / job_scale[:known],
        places=account_places(load.workload.shares),
        queue_mean=queue_mean,
        queue_scale=queue_scale,
        wait_mean=float(job_mean[-1]),
        wait_scale=float(job_scale[-1]),
        grid=grid_code(schema),
        rows=job_rows(load.workload.interactive, load.prepared.utilities),
    )


def network_of(parameters: FloatArray, schema: FeatureSchema) -> QNetwork:
    """The frozen network of a SARSA learner's parameters, which are copied."""
    learned = perceptron_of(parameters.copy(), input_width(schema))
    queue_mean, queue_scale, job_mean, job_scale = grid_scaler(schema)
    state = len(schema.queue)
    return QNetwork(
        schema=schema,
        queue_mean=queue_mean,
        queue_scale=queue_scale,
        job_mean=job_mean,
        job_scale=job_scale,
        queue_weights=learned.weights[:state],
        job_weights=learned.weights[state:],
        bias=learned.bias,
        output=learned.output,
        linear=np.zeros(len(schema.jobs)),
        output_bias=float(learned.offset[0]),
        activation="sigmoid",
    )


def sweep_settings(
    settings: SarsaSettings, load: TrainingLoad, *, by_deadline: bool
) -> SweepSettings:
    """How a sweep over a load acts, and how it learns at every start where it does."""
    online = settings.update == "online"
    return SweepSettings(
        by_deadline=by_deadline,
        epsilon=0.0 if by_deadline else float(settings.epsilon),
        gamma=float(settings.gamma),
        rate=float(settings.learning_rate) if online else 0.0,
        replayed=0,
        utility_weight=float(settings.utility_weight),
        reward=_REWARDS[settings.reward],
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
    width = input_width(settings.inputs)
    network = perceptron_of(parameters, width)
    return sarsa_sweep(
        load.workload,
        load.settings.empty_cluster(load.workload),
        grid_inputs(load, settings.inputs),
        network,
        sweep_settings(settings, load, by_deadline=by_deadline),
        rng.random((len(load.workload.submit), 2)),
        Transitions(np.empty((0, width)), np.empty(0)),
        network,
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
    sweep = sweep_settings(settings, load, by_deadline=False)
    grid = grid_inputs(load, settings.inputs)
    return recorded_transitions(load.workload, load.settings.capacity, start, grid, sweep)


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
    fitted, width = initial.copy(), input_width(settings.inputs)
    old, network = perceptron_of(parameters, width), perceptron_of(fitted, width)
    examples = np.concatenate([each.inputs[:-1] for each in collected])
    targets = np.concatenate(
        [each.reward[:-1] + settings.gamma * values_of(old, each.inputs[1:]) for each in collected]
    )
    for _ in range(settings.epochs):
        order = rng.permutation(len(targets))
        descend_through(network, examples, targets, order, settings.learning_rate)
    return fitted
