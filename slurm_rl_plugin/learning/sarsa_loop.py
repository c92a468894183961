"""SARSA in the compiled loop: one action is one job start (2008, Fig. 1 and section III)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.domain.utility_class import RUN_ROW, SIGMA, SIGMA_ROW
from slurm_rl_plugin.simulator.kernel.class_limit import reserve_in_force
from slurm_rl_plugin.simulator.kernel.cluster import (
    Cluster,
    advance,
    decision_time,
    empty_cluster,
    forget_started,
    next_event,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.compiled_features import fairness, time_utility
from slurm_rl_plugin.simulator.kernel.dispatch import processors_needed
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.scoring.queue_features import GRID, grid_state, running_utility
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.units import FloatArray, IntArray


class Perceptron(NamedTuple):
    """y = output . sigmoid(x W + bias) + offset; changed in place by learning."""

    weights: FloatArray  #: W, shape [inputs, hidden]
    bias: FloatArray  #: shape [hidden]
    output: FloatArray  #: shape [hidden]
    offset: FloatArray  #: shape [1]


def perceptron_of(parameters: FloatArray, inputs: int) -> Perceptron:
    """A perceptron as views of one vector: weights, bias, output, offset.

    `parameters` have shape [(inputs + 2) * hidden + 1].
    """
    hidden = (len(parameters) - 1) // (inputs + 2)
    border = inputs * hidden
    return Perceptron(
        weights=parameters[:border].reshape(inputs, hidden),
        bias=parameters[border : border + hidden],
        output=parameters[border + hidden : border + 2 * hidden],
        offset=parameters[border + 2 * hidden :],
    )


def random_parameters(rng: np.random.Generator, inputs: int, hidden: int) -> FloatArray:
    """Random weights for `perceptron_of`, shape [(inputs + 2) * hidden + 1].

    Hidden units are spread over the scaled inputs; outputs are small, so the untrained network has
    little effect.
    """
    parameters = rng.normal(0.0, 1.0, (inputs + 2) * hidden + 1)
    network = perceptron_of(parameters, inputs)
    network.weights[:] *= 1.5 / np.sqrt(inputs)
    network.output[:] *= 0.3 / np.sqrt(hidden)
    network.offset[:] = 0.0
    return parameters


@compiled
def sigmoid(value: float) -> float:
    """1 / (1 + exp(-value))."""
    return 1.0 / (1.0 + np.exp(-value))


@compiled
def value_of(network: Perceptron, example: FloatArray) -> float:
    """Output for one example, shape [inputs]."""
    total = network.offset[0]
    for unit in range(len(network.bias)):
        inner = network.bias[unit]
        for place in range(len(example)):
            inner += example[place] * network.weights[place, unit]
        total += network.output[unit] * sigmoid(inner)
    return total


@compiled
def values_of(network: Perceptron, examples: FloatArray) -> FloatArray:
    """Outputs for many examples, shape [n, inputs]."""
    return np.array([value_of(network, example) for example in examples])


@compiled
def descend(network: Perceptron, example: FloatArray, target: float, rate: float) -> None:
    """One step of back-propagation down (target - y)^2 / 2 at one example, [inputs], in place."""
    hidden = len(network.bias)
    active = np.empty(hidden)
    error = network.offset[0] - target
    for unit in range(hidden):
        inner = network.bias[unit]
        for place in range(len(example)):
            inner += example[place] * network.weights[place, unit]
        active[unit] = sigmoid(inner)
        error += network.output[unit] * active[unit]
    step = rate * error
    network.offset[0] -= step
    for unit in range(hidden):
        slope = step * network.output[unit] * active[unit] * (1.0 - active[unit])
        network.output[unit] -= step * active[unit]
        network.bias[unit] -= slope
        for place in range(len(example)):
            network.weights[place, unit] -= slope * example[place]


@compiled
def descend_through(
    network: Perceptron, examples: FloatArray, targets: FloatArray, order: IntArray, rate: float
) -> None:
    """One epoch of `descend` over examples, shape [n, inputs], in the given order, shape [n]."""
    for place in order:
        descend(network, examples[place], targets[place], rate)


#: Codes of the rewards; the last two are known only at the next start.
LITERAL, DIFFERENCE, COMPLETED, RUNNING = 0, 1, 2, 3


@compiled
def start_reward(
    cluster: Cluster, rows: FloatArray, job: int, utility_weight: float, reward: int
) -> float:
    """Reward of starting a waiting job now, counted before it starts.

    literal (2008, section III.B): lambda * U(job at its completion) + (1 - lambda) * F (eq. 4).
    difference: the same with the job's `interchange_gain` in place of U.

    With the literal reward a long batch job nearly always reaches a utility near 1, an interactive
    job that had to wait does not, and the learner does not see what a start costs the others: it
    learns to start batch jobs first, and online the longest of them.

    Run times are the real ones: a reward is known once the jobs have ended.

    Args:
        rows: of each job's class, shape [n, places]; see `time_utility`.
        utility_weight: lambda.
        reward: LITERAL or DIFFERENCE.
    """
    if reward == LITERAL:
        run_time = cluster.jobs[job].run_time
        turnaround = cluster.state[0].now - cluster.jobs[job].submit + run_time
        value = time_utility(turnaround, run_time, rows[job])
    else:
        value = interchange_gain(cluster, rows, job)
    fair = fairness(cluster.shares, current_usage(cluster))
    return utility_weight * value + (1.0 - utility_weight) * fair


@compiled
def reward_at_next_start(
    cluster: Cluster, rows: FloatArray, ended: int, utility_weight: float, reward: int
) -> float:
    """Reward of the last start in the state that it led to: lambda * U + (1 - lambda) * F.

    completed: U is the mean utility of the jobs after the first `ended`; 0 for none.
    running: U is the mean utility that the running jobs are expected to reach.
    """
    if reward == RUNNING:
        value = running_utility(cluster)
    else:
        value = 0.0
        for place in range(ended, cluster.state[0].ended):
            job = cluster.ended[place]
            run_time = cluster.jobs[job].run_time
            turnaround = cluster.start[job] - cluster.jobs[job].submit + run_time
            value += time_utility(turnaround, run_time, rows[job])
        value /= max(cluster.state[0].ended - ended, 1)
    fair = fairness(cluster.shares, current_usage(cluster))
    return utility_weight * value + (1.0 - utility_weight) * fair


@compiled
def _lost(cluster: Cluster, rows: FloatArray, job: int, delay: float) -> float:
    """Time utility that a job loses by a start `delay` seconds after its deadline."""
    run_time = cluster.jobs[job].run_time
    row = rows[job]
    turnaround = row[RUN_ROW] * run_time + row[SIGMA_ROW]
    before = time_utility(turnaround, run_time, row)
    return before - time_utility(turnaround + delay, run_time, row)


@compiled
def interchange_gain(cluster: Cluster, rows: FloatArray, job: int) -> float:
    """Utility that starting `job` first saves over starting another first, mean over the others.

    A difference reward (Wolpert and Tumer 2002) for the adjacent interchange of two jobs that
    compete for a machine: with `job` first the other one is put off by the run time of `job`;
    with the other first, `job` is put off by that of the other. In [-1, 1]; 0 for a lone job.

    The cost of a delay counts from the deadline of each job (eq. 2 and 3), whatever its wait: the
    learner does not see the waits, and a job that has lost its utility has nothing more to lose.
    """
    pending = cluster.state[0].pending
    if pending < 2:
        return 0.0
    jobs, gain = cluster.jobs, 0.0
    for place in range(pending):
        other = cluster.pending[place]
        if other != job:
            gain += _lost(cluster, rows, job, jobs[other].run_time)
            gain -= _lost(cluster, rows, other, jobs[job].run_time)
    return gain / (pending - 1)


class SweepSettings(NamedTuple):
    """How one sweep over a load acts, learns and is rewarded."""

    by_deadline: bool  #: act by early deadline first instead of by the network
    epsilon: float  #: probability of a start drawn at random from the jobs that fit
    gamma: float  #: discount for each start
    rate: float  #: learning rate of updates at every start; 0 only collects
    #: Starts of the past that a network trained afresh at every start learns from; 0 moves the
    #: network by the last start alone.
    replayed: int
    utility_weight: float  #: lambda, the weight of time utility against fairness
    reward: int  #: a code of `start_rewards`
    cycle: float  #: seconds between decisions; 0 decides at every event
    reserve: int  #: processors kept free of batch work


class GridInputs(NamedTuple):
    """What the inputs of the network are made of."""

    jobs: FloatArray  #: scaled features of each job, shape [n, 3], or [n, 6] with VO one-hot
    places: IntArray  #: VO place of each account, shape [accounts]
    #: queue_mean, queue_scale: scaler of the state, shape [8].
    queue_mean: FloatArray
    queue_scale: FloatArray
    rows: FloatArray  #: time utility of each job's class, for rewards, shape [n, places]


class Transitions(NamedTuple):
    """The starts of a sweep in their order; row t + 1 is the next state and action of row t."""

    inputs: FloatArray  #: scaled state and action, shape [n, 11], or [n, 14] with VO one-hot
    reward: FloatArray  #: shape [n]


#: Steps of the golden ratio spread places evenly over everything collected so far.
_GOLDEN = 0.6180339887498949


@compiled
def input_count(grid: GridInputs) -> int:
    """Inputs of the network."""
    return len(grid.queue_mean) + grid.jobs.shape[1]


@compiled
def scaled_state(cluster: Cluster, grid: GridInputs) -> FloatArray:
    """The 8 scaled state inputs now."""
    state = np.array(grid_state(cluster, grid.places, GRID))
    return (state - grid.queue_mean) / grid.queue_scale


@compiled
def score_by_perceptron(
    cluster: Cluster, grid: GridInputs, network: Perceptron, state: FloatArray
) -> FloatArray:
    """Q of every pending job, shape [pending]."""
    hidden, first = len(network.bias), len(state)
    from_queue = network.bias.copy()
    for place in range(first):
        for unit in range(hidden):
            from_queue[unit] += state[place] * network.weights[place, unit]
    scores = np.full(cluster.state[0].pending, network.offset[0])
    for place in range(len(scores)):
        row = grid.jobs[cluster.pending[place]]
        for unit in range(hidden):
            inner = from_queue[unit]
            for column in range(len(row)):
                inner += row[column] * network.weights[first + column, unit]
            scores[place] += network.output[unit] * sigmoid(inner)
    return scores


@compiled
def _score_by_deadline(cluster: Cluster) -> FloatArray:
    """Early deadline first: the deadline is that of eq. 1 with the estimated run time."""
    waiting = cluster.pending[: cluster.state[0].pending]
    return -(cluster.jobs.submit[waiting] + cluster.jobs.estimate[waiting] + SIGMA)


@compiled
def _choose(
    cluster: Cluster, scores: FloatArray, epsilon: float, reserve: int, draws: FloatArray
) -> int:
    """The job to start of those that fit, -1 for none; ties by submission."""
    fitting = np.empty(len(scores), dtype=np.int64)
    count, best = 0, -1
    for place in range(len(scores)):
        job = cluster.pending[place]
        if processors_needed(cluster, job, reserve) > cluster.state[0].idle:
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
def _note_start(
    cluster: Cluster,
    grid: GridInputs,
    sweep: SweepSettings,
    state: FloatArray,
    job: int,
    seen: Transitions,
    taken: int,
    ended: int,
) -> None:
    """Write row `taken` of `seen`, without rewards that only the next start knows.

    That of the row before, if any, is of the jobs that have ended after the first `ended`, -1 in
    the first state.
    """
    row, weight = seen.inputs[taken], sweep.utility_weight
    row[: len(state)] = state
    row[len(state) :] = grid.jobs[job]
    if sweep.reward < COMPLETED:
        seen.reward[taken] = start_reward(cluster, grid.rows, job, weight, sweep.reward)
        return
    seen.reward[taken] = 0.0
    if ended >= 0:
        seen.reward[taken - 1] = reward_at_next_start(
            cluster, grid.rows, ended, weight, sweep.reward
        )


@compiled
def _relearn(
    network: Perceptron, fresh: Perceptron, seen: Transitions, last: int, sweep: SweepSettings
) -> None:
    """Train the network again, from `fresh`, on starts spread over the first `last` ones of `seen`.

    The network first gives the values of the next starts, then becomes the new one.
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
    cluster: Cluster,
    grid: GridInputs,
    network: Perceptron,
    sweep: SweepSettings,
    draws: FloatArray,
    past: Transitions,
    fresh: Perceptron,
) -> Transitions:
    """Run a load once: choose, record, start, and with a rate learn at every start.

    A job starts whenever one fits into the idle processors; nothing is reserved for wider jobs.

    Args:
        draws: uniform numbers, shape [n, 2]: whether to explore, and where.
        past: starts collected before, from which a network that replays starts learns too.
        fresh: the initial network where each start trains a new one.
    """
    before, ended = len(past.reward), -1
    inputs = np.empty((before + len(draws), input_count(grid)))
    reward = np.empty(len(inputs))
    seen = Transitions(inputs, reward)
    inputs[:before], reward[:before] = past.inputs, past.reward
    taken = before
    while True:
        event = next_event(cluster)
        if np.isinf(event):
            return Transitions(inputs[before:taken], reward[before:taken])
        advance(cluster, decision_time(event, sweep.cycle))
        reserve = reserve_in_force(cluster, sweep.reserve)
        while cluster.state[0].idle > 0 and cluster.state[0].pending > 0:
            state = scaled_state(cluster, grid)
            if sweep.by_deadline:
                scores = _score_by_deadline(cluster)
            else:
                scores = score_by_perceptron(cluster, grid, network, state)
            drawn = draws[taken - before]
            job = _choose(cluster, scores, sweep.epsilon, reserve, drawn)
            if job < 0:
                break
            _note_start(cluster, grid, sweep, state, job, seen, taken, ended)
            if sweep.rate > 0.0 and sweep.replayed > 0 and taken > 0:
                _relearn(network, fresh, seen, taken - 1, sweep)
            elif sweep.rate > 0.0 and taken > before:
                target = reward[taken - 1] + sweep.gamma * value_of(network, inputs[taken])
                descend(network, inputs[taken - 1], target, sweep.rate)
            start_job(cluster, job)
            forget_started(cluster)
            ended = cluster.state[0].ended
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


def recorded_transitions(
    workload: Workload, capacity: int, start: FloatArray, grid: GridInputs, sweep: SweepSettings
) -> Transitions:
    """The starts that a log records, as SARSA would have seen them (2008, section VII).

    The log decides when jobs start, whether or not the machine of `capacity` processors has room.

    Args:
        start: recorded start of each job, seconds, shape [n]; at least its submission.
        sweep: the reward; how to act is not used.
    """
    begin = np.maximum(start, workload.submit)
    most = int(workload.processors.sum()) if len(begin) else 1
    cluster = empty_cluster(workload, max(most, 1))  # room for whatever ran side by side
    cluster.state[0].capacity = capacity
    cluster.state[0].idle = capacity
    order = np.lexsort((np.arange(len(begin)), begin))
    return _replay(cluster, grid, sweep, begin, order)


@compiled
def _replay(
    cluster: Cluster, grid: GridInputs, sweep: SweepSettings, begin: FloatArray, order: IntArray
) -> Transitions:
    seen = Transitions(np.empty((len(order), input_count(grid))), np.empty(len(order)))
    ended = -1
    for taken in range(len(order)):
        job = order[taken]
        advance(cluster, begin[job])
        _note_start(cluster, grid, sweep, scaled_state(cluster, grid), job, seen, taken, ended)
        start_job(cluster, job)
        forget_started(cluster)
        ended = cluster.state[0].ended
    return seen
