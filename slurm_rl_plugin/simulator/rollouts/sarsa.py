"""SARSA in the compiled loop: one action is one job start (2008, Fig. 1 and section III)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.domain.utility_class import SIGMA
from slurm_rl_plugin.simulator.kernel.class_limit import reserve_in_force
from slurm_rl_plugin.simulator.kernel.cluster import (
    ENDED,
    IDLE,
    NOW,
    PENDING,
    Cluster,
    advance,
    decision_time,
    forget_started,
    next_event,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.compiled_features import log_seconds
from slurm_rl_plugin.simulator.kernel.dispatch import processors_needed
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.rollouts.start_rewards import (
    COMPLETED,
    reward_at_next_start,
    start_reward,
)
from slurm_rl_plugin.simulator.scoring.perceptron import Perceptron, descend, sigmoid, value_of
from slurm_rl_plugin.simulator.scoring.reactive_grid import GRID_WAIT, grid_state
from slurm_rl_plugin.units import FloatArray, IntArray


class SweepSettings(NamedTuple):
    """How one sweep over a load acts, learns and is rewarded.

    Attributes:
        by_deadline: act by early deadline first instead of by the network.
        epsilon: probability of a start drawn at random from the jobs that fit.
        gamma: discount for each start.
        rate: learning rate of updates at every start; 0 only collects.
        replayed: starts of the past that a network trained afresh at every start learns from; 0
            moves the network by the last start alone.
        utility_weight: lambda, the weight of time utility against fairness.
        reward: a code of `start_rewards`.
        cycle: seconds between decisions; 0 decides at every event.
        reserve: processors kept free of batch work.
    """

    by_deadline: bool
    epsilon: float
    gamma: float
    rate: float
    replayed: int
    utility_weight: float
    reward: int
    cycle: float
    reserve: int


class GridInputs(NamedTuple):
    """What the inputs of the network are made of.

    Attributes:
        jobs: scaled static features of each job, shape [n, 3].
        places: VO place of each account, shape [accounts].
        queue_mean, queue_scale: scaler of the state, shape [8].
        wait_mean, wait_scale: scaler of the wait.
        grid: GRID, GRID_2011, or GRID_WAIT for the wait as a 12th input.
        rows: time utility of each job's class, for rewards, shape [n, places].
    """

    jobs: FloatArray
    places: IntArray
    queue_mean: FloatArray
    queue_scale: FloatArray
    wait_mean: float
    wait_scale: float
    grid: int
    rows: FloatArray


class Transitions(NamedTuple):
    """The starts of a sweep in their order; row t + 1 is the next state and action of row t.

    Attributes:
        inputs: scaled state and action, shape [n, 11], or [n, 12] with the wait.
        reward: shape [n].
    """

    inputs: FloatArray
    reward: FloatArray


#: Steps of the golden ratio spread places evenly over everything collected so far.
_GOLDEN = 0.6180339887498949


@compiled
def input_count(grid: GridInputs) -> int:
    """Inputs of the network: 11, or 12 with the wait."""
    return len(grid.queue_mean) + grid.jobs.shape[1] + (grid.grid == GRID_WAIT)


@compiled
def scaled_state(workload: Workload, cluster: Cluster, grid: GridInputs) -> FloatArray:
    """The 8 scaled state inputs now."""
    state = np.empty(len(grid.queue_mean))
    features = grid_state(workload, cluster, grid.places, grid.grid)
    for place in range(len(features)):
        state[place] = (features[place] - grid.queue_mean[place]) / grid.queue_scale[place]
    return state


@compiled
def _take_job(
    workload: Workload, cluster: Cluster, grid: GridInputs, job: int, row: FloatArray
) -> None:
    """Write the scaled inputs of a waiting job into `row`, shape [3], or [4] with the wait."""
    known = grid.jobs.shape[1]
    row[:known] = grid.jobs[job]
    if grid.grid == GRID_WAIT:
        waited = log_seconds(cluster.clock[NOW] - workload.submit[job])
        row[known] = (waited - grid.wait_mean) / grid.wait_scale


@compiled
def score_by_perceptron(
    workload: Workload,
    cluster: Cluster,
    grid: GridInputs,
    network: Perceptron,
    state: FloatArray,
) -> FloatArray:
    """Q of every pending job, shape [pending]."""
    hidden, first = len(network.bias), len(state)
    from_queue = network.bias.copy()
    for place in range(first):
        for unit in range(hidden):
            from_queue[unit] += state[place] * network.weights[place, unit]
    scores = np.full(cluster.counts[PENDING], network.offset[0])
    row = np.empty(len(network.weights) - first)
    for place in range(len(scores)):
        _take_job(workload, cluster, grid, cluster.pending[place], row)
        for unit in range(hidden):
            inner = from_queue[unit]
            for column in range(len(row)):
                inner += row[column] * network.weights[first + column, unit]
            scores[place] += network.output[unit] * sigmoid(inner)
    return scores


@compiled
def _score_by_deadline(workload: Workload, cluster: Cluster) -> FloatArray:
    """Early deadline first: the deadline is that of eq. 1 with the estimated run time."""
    waiting = cluster.pending[: cluster.counts[PENDING]]
    return -(workload.submit[waiting] + workload.estimate[waiting] + SIGMA)


@compiled
def _choose(
    workload: Workload,
    cluster: Cluster,
    scores: FloatArray,
    epsilon: float,
    reserve: int,
    draws: FloatArray,
) -> int:
    """The job to start of those that fit, or -1; ties go to the job submitted first."""
    fitting = np.empty(len(scores), dtype=np.int64)
    count, best = 0, -1
    for place in range(len(scores)):
        job = cluster.pending[place]
        if processors_needed(workload, cluster, job, reserve) > cluster.counts[IDLE]:
            continue
        fitting[count] = job
        count += 1
        if best < 0 or scores[place] > scores[best]:
            best = place
    if best < 0:
        return -1
    if draws[0] < epsilon:
        return fitting[int(draws[1] * count)]
    return cluster.pending[best]


@compiled
def note_start(
    workload: Workload,
    cluster: Cluster,
    grid: GridInputs,
    sweep: SweepSettings,
    state: FloatArray,
    job: int,
    row: FloatArray,
) -> float:
    """Write state and action into `row`, shape [inputs], and give the reward of the start.

    It is 0 where the next start tells the reward.
    """
    row[: len(state)] = state
    _take_job(workload, cluster, grid, job, row[len(state) :])
    if sweep.reward >= COMPLETED:
        return 0.0
    return start_reward(workload, cluster, grid.rows, job, sweep.utility_weight, sweep.reward)


@compiled
def _relearn(
    network: Perceptron, fresh: Perceptron, seen: Transitions, last: int, sweep: SweepSettings
) -> None:
    """Train the network afresh on starts spread over the first `last` ones; it changes in place.

    Args:
        network: gives the values of the next starts, then becomes the new one.
        fresh: where the new one begins.
        seen: all starts; row t + 1 is the next state and action of row t.
        last: number of the start whose successor is the last one known.
        sweep: how to learn.
    """
    old = Perceptron(
        network.weights.copy(), network.bias.copy(), network.output.copy(), network.offset.copy()
    )
    network.weights[:] = fresh.weights
    network.bias[:] = fresh.bias
    network.output[:] = fresh.output
    network.offset[:] = fresh.offset
    for number in range(sweep.replayed):
        place = int((last * sweep.replayed + number) * _GOLDEN % 1.0 * (last + 1))
        target = seen.reward[place] + sweep.gamma * value_of(old, seen.inputs[place + 1])
        descend(network, seen.inputs[place], target, sweep.rate)


@compiled
def sarsa_sweep(
    workload: Workload,
    cluster: Cluster,
    grid: GridInputs,
    network: Perceptron,
    sweep: SweepSettings,
    draws: FloatArray,
    past: Transitions,
    fresh: Perceptron,
) -> Transitions:
    """Run a load once: choose, note, start, and with a rate learn at every start.

    A job starts whenever one fits into the idle processors; nothing is reserved for wider jobs.

    Args:
        workload: the jobs.
        cluster: empty; changed in place.
        grid: inputs of the network.
        network: changed in place with a rate.
        sweep: how to act and learn.
        draws: uniform numbers, shape [n, 2]: whether to explore, and where.
        past: starts collected before, which are learned from as well where starts are replayed.
        fresh: where a network that is trained afresh begins.
    """
    no_rank = np.empty(0, dtype=np.int64)
    before, ended = len(past.reward), 0
    inputs = np.empty((before + len(draws), input_count(grid)))
    reward = np.empty(len(inputs))
    inputs[:before], reward[:before] = past.inputs, past.reward
    taken = before
    while True:
        event = next_event(workload, cluster)
        if np.isinf(event):
            return Transitions(inputs[before:taken], reward[before:taken])
        advance(workload, cluster, decision_time(event, sweep.cycle), no_rank)
        reserve = reserve_in_force(workload, cluster, sweep.reserve)
        while cluster.counts[IDLE] > 0 and cluster.counts[PENDING] > 0:
            state = scaled_state(workload, cluster, grid)
            if sweep.by_deadline:
                scores = _score_by_deadline(workload, cluster)
            else:
                scores = score_by_perceptron(workload, cluster, grid, network, state)
            drawn = draws[taken - before]
            job = _choose(workload, cluster, scores, sweep.epsilon, reserve, drawn)
            if job < 0:
                break
            row = inputs[taken]
            reward[taken] = note_start(workload, cluster, grid, sweep, state, job, row)
            if sweep.reward >= COMPLETED and taken > before:
                reward[taken - 1] = reward_at_next_start(
                    workload, cluster, grid.rows, ended, sweep.utility_weight, sweep.reward
                )
            if sweep.rate > 0.0 and sweep.replayed > 0 and taken > 0:
                _relearn(network, fresh, Transitions(inputs, reward), taken - 1, sweep)
            elif sweep.rate > 0.0 and taken > before:
                target = reward[taken - 1] + sweep.gamma * value_of(network, row)
                descend(network, inputs[taken - 1], target, sweep.rate)
            start_job(workload, cluster, job)
            forget_started(cluster)
            ended = cluster.counts[ENDED]
            taken += 1


@compiled
def learn_in_order(
    network: Perceptron, transitions: Transitions, gamma: float, rate: float
) -> None:
    """SARSA's update at each of the given starts in turn (2008, Fig. 1); the network changes."""
    inputs, reward = transitions.inputs, transitions.reward
    for place in range(1, len(reward)):
        target = reward[place - 1] + gamma * value_of(network, inputs[place])
        descend(network, inputs[place - 1], target, rate)
