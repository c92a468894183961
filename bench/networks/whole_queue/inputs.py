"""What a network is told of the whole queue and of the processors to come, in the compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.features.scales import SECONDS_SPAN
from slurm_rl_plugin.simulator.kernel.cluster import IDLE, NOW, PENDING, RUNNING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.compiled_features import log_seconds
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.scoring.compiled_network import CompiledNetwork
from slurm_rl_plugin.simulator.scoring.history import add_history
from slurm_rl_plugin.units import FloatArray, IntArray

#: Features of the `site` schema that a job brings, in this order; the others are below.
FEATURES = (
    "log_processors",
    "log_time_limit",
    "log_expected_run_time",
    "log_slowdown_rate",
    "probability_short",
)
_EXPECTED = FEATURES.index("log_expected_run_time")
#: Places behind FEATURES: its wait, whether it fits now, when enough processors are free for it.
WAITED, FITS, UNTIL_FITS = len(FEATURES), len(FEATURES) + 1, len(FEATURES) + 2
JOB_INPUTS = UNTIL_FITS + 1

#: Seconds from now at which the profile of free processors is taken.
_PROFILE = np.array([0.0, 900.0, 3600.0, 4.0 * 3600.0, 12.0 * 3600.0])
#: Expected run times, seconds, that part the pending load; wider than a part of the machine or not.
_LENGTHS, _WIDE = np.array([900.0, 7200.0]), 0.125
_BOUNDS = np.log10(1.0 + _LENGTHS) / SECONDS_SPAN * 2.0 - 1.0
#: Places in the context: means of the job inputs over the queue, the longest wait, the shortest
#: expected run time, the load by length and width, the profile, how many wait.
LONGEST, SHORTEST, LOAD = JOB_INPUTS, JOB_INPUTS + 1, JOB_INPUTS + 2
PROFILE = LOAD + 2 * (len(_LENGTHS) + 1)
WAITING = PROFILE + len(_PROFILE)
CONTEXT = WAITING + 1


class QueueInputs(NamedTuple):
    """Space for what one look at the queue tells.

    Attributes:
        jobs: inputs of each pending job, near [-1, 1], shape [n, JOB_INPUTS].
        context: of the queue, near [-1, 1], shape [CONTEXT].
        free: processors that are free once this running job has ended too, by requests, [places].
        inner: shape [len(FEATURES)].
        linear: score of each pending job by the linear network, shape [n].
    """

    jobs: FloatArray
    context: FloatArray
    free: IntArray
    inner: FloatArray
    linear: FloatArray


def queue_inputs(jobs: int, capacity: int) -> QueueInputs:
    """Space for so many jobs on so many processors."""
    return QueueInputs(
        jobs=np.zeros((jobs + 1, JOB_INPUTS)),
        context=np.zeros(CONTEXT),
        free=np.zeros(min(jobs, capacity) + 1, dtype=np.int64),
        inner=np.zeros(len(FEATURES)),
        linear=np.zeros(jobs + 1),
    )


@compiled_borrowing
def _fill_profile(workload: Workload, cluster: Cluster, inputs: QueueInputs) -> None:
    """Part of the processors that is free at each time of the profile, by requests."""
    now, capacity = cluster.clock[NOW], float(cluster.capacity[0])
    free, taken = cluster.counts[IDLE], 0
    for place in range(cluster.counts[RUNNING]):
        free += workload.processors[cluster.expected_job[place]]
        inputs.free[place] = free
    free = cluster.counts[IDLE]
    for time in range(len(_PROFILE)):
        while (
            taken < cluster.counts[RUNNING] and cluster.expected_end[taken] <= now + _PROFILE[time]
        ):
            free = inputs.free[taken]
            taken += 1
        inputs.context[PROFILE + time] = 2.0 * free / capacity - 1.0


@compiled_borrowing
def _until_fits(workload: Workload, cluster: Cluster, inputs: QueueInputs, job: int) -> float:
    """Seconds until enough processors are free for a job, by the requests of those that run."""
    needed = workload.processors[job]
    if needed <= cluster.counts[IDLE]:
        return 0.0
    first, last = 0, cluster.counts[RUNNING] - 1
    while first < last:
        middle = (first + last) // 2
        if inputs.free[middle] >= needed:
            last = middle
        else:
            first = middle + 1
    return max(cluster.expected_end[first] - cluster.clock[NOW], 0.0)


@compiled_borrowing
def _add_to_context(workload: Workload, cluster: Cluster, inputs: QueueInputs, place: int) -> None:
    """Let a pending job count in the pools; the load is in machines so far."""
    row, context = inputs.jobs[place], inputs.context
    for each in range(JOB_INPUTS):
        context[each] += row[each]
    context[LONGEST] = max(context[LONGEST], row[WAITED])
    context[SHORTEST] = min(context[SHORTEST], row[_EXPECTED])
    part = workload.processors[cluster.pending[place]] / float(cluster.capacity[0])
    kind = 0
    for bound in range(len(_BOUNDS)):
        kind += row[_EXPECTED] > _BOUNDS[bound]
    context[LOAD + 2 * kind + (part > _WIDE)] += part


@compiled_borrowing
def _fill_job(
    workload: Workload, cluster: Cluster, network: CompiledNetwork, inputs: QueueInputs, place: int
) -> float:
    """Fill the inputs of the pending job at a place; the score that the network gives it."""
    job, row, inner = cluster.pending[place], inputs.jobs[place], inputs.inner
    score = network.static_score[job]
    for each in range(len(inner)):
        inner[each] = network.static_hidden[job, each]
    score += add_history(workload, network.history, job, inner)
    for each in range(len(inner)):
        row[each] = inner[each]
    row[WAITED] = 2.0 * log_seconds(cluster.clock[NOW] - workload.submit[job]) - 1.0
    row[FITS] = 1.0 if workload.processors[job] <= cluster.counts[IDLE] else -1.0
    row[UNTIL_FITS] = 2.0 * log_seconds(_until_fits(workload, cluster, inputs, job)) - 1.0
    return score


@compiled_borrowing
def look(
    workload: Workload,
    cluster: Cluster,
    network: CompiledNetwork,
    inputs: QueueInputs,
    scores: FloatArray,
    jobs: IntArray,
) -> None:
    """Fill `inputs`, and `scores` and `jobs` as `network` alone would.

    Args:
        workload: the jobs.
        cluster: read only; some job is pending.
        network: linear, its hidden units tell FEATURES; its past runs are brought up to now.
        inputs: filled for the pending jobs.
        scores: filled with the linear part.
        jobs: filled with the pending job numbers.
    """
    count, context = cluster.counts[PENDING], inputs.context
    _fill_profile(workload, cluster, inputs)
    for each in range(PROFILE):
        context[each] = 0.0
    context[LONGEST], context[SHORTEST] = -1.0, 1.0
    for place in range(count):
        scores[place] = _fill_job(workload, cluster, network, inputs, place)
        jobs[place] = cluster.pending[place]
        _add_to_context(workload, cluster, inputs, place)
    for each in range(JOB_INPUTS):
        context[each] /= count
    for each in range(LOAD, PROFILE):
        context[each] = np.log10(1.0 + context[each]) - 0.5
    context[WAITING] = 2.0 * np.log10(1.0 * count) / 4.0 - 1.0
