"""A linear score whose weights the whole queue moves, in the compiled loop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bench.networks.whole_queue.inputs import CONTEXT, FEATURES, JOB_INPUTS, QueueInputs, look
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.cluster import PENDING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.scoring.compiled_network import CompiledNetwork, compile_network
from slurm_rl_plugin.simulator.scoring.history import bring_up_to_now
from slurm_rl_plugin.units import FloatArray, IntArray

#: Gates: how many directions in which the queue may move the weights.
GATES = 2
#: Numbers of the linear part, and of all.
LINEAR = 1 + JOB_INPUTS
NUMBERS = LINEAR + GATES * (JOB_INPUTS + CONTEXT + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNetwork:
    """score = scale * s + x . direct + sum over gates of tanh(u . c + bias) (v . x).

    s is the score of a linear network, x are the inputs of the job, c is the context: pools over
    all pending jobs, the load that waits by length and width, the profile of free processors.

    Attributes:
        scale: of s.
        direct: shape [JOB_INPUTS].
        directions: v, shape [JOB_INPUTS, GATES].
        gates: u, shape [CONTEXT, GATES].
        bias: shape [GATES].
    """

    scale: float
    direct: FloatArray
    directions: FloatArray
    gates: FloatArray
    bias: FloatArray

    @classmethod
    def of(cls, numbers: FloatArray) -> QueueNetwork:
        """The network with these numbers, shape [NUMBERS]; [LINEAR] of them are a linear part."""
        numbers = np.concatenate([numbers, np.zeros(NUMBERS - len(numbers))])
        sizes = [1, JOB_INPUTS, JOB_INPUTS * GATES, CONTEXT * GATES]
        scale, direct, directions, gates, bias = np.split(numbers, np.cumsum(sizes))
        return cls(
            scale=float(scale[0]),
            direct=direct,
            directions=directions.reshape(JOB_INPUTS, GATES),
            gates=gates.reshape(CONTEXT, GATES),
            bias=bias,
        )

    @property
    def numbers(self) -> FloatArray:
        """All of them, shape [NUMBERS]."""
        parts = (self.direct, self.directions, self.gates, self.bias)
        return np.concatenate([[self.scale], *(part.ravel() for part in parts)])

    @property
    def linear_part(self) -> QueueNetwork:
        """The same without the queue: no direction moves the weights."""
        return replace(self, directions=np.zeros_like(self.directions))

    def scores(self, linear: FloatArray, jobs: FloatArray, context: FloatArray) -> FloatArray:
        """Scores [m, n] of linear scores [m, n], job inputs [m, n, JOB_INPUTS], contexts [m, C]."""
        moved = np.tanh(context @ self.gates + self.bias) @ self.directions.T
        weights = self.direct + moved
        return np.asarray(self.scale * linear + np.einsum("mnk,mk->mn", jobs, weights))


class CompiledQueueNetwork(NamedTuple):
    """A QueueNetwork over a linear network, for one workload.

    Attributes:
        network: linear; its hidden units tell FEATURES.
        scale: shape [1].
        direct, directions, gates, bias: of the QueueNetwork.
        weights: space, shape [JOB_INPUTS].
    """

    network: CompiledNetwork
    scale: FloatArray
    direct: FloatArray
    directions: FloatArray
    gates: FloatArray
    bias: FloatArray
    weights: FloatArray


def telling_features(network: QNetwork) -> QNetwork:
    """The linear part of a network, with hidden units that tell FEATURES and change nothing."""
    told = np.zeros((len(network.schema.jobs), len(FEATURES)))
    for unit, name in enumerate(FEATURES):
        told[network.schema.jobs.index(name), unit] = 1.0
    return replace(
        network,
        queue_weights=np.zeros((len(network.schema.queue), len(FEATURES))),
        job_weights=told,
        bias=np.zeros(len(FEATURES)),
        output=np.zeros(len(FEATURES)),
    )


def compile_queue_network(
    network: QueueNetwork, linear: QNetwork, workload: Workload
) -> CompiledQueueNetwork:
    """Lay a network out for the loop, over the linear one whose scores it takes."""
    return CompiledQueueNetwork(
        network=compile_network(telling_features(linear), workload),
        scale=np.array([network.scale]),
        direct=network.direct,
        directions=np.ascontiguousarray(network.directions),
        gates=np.ascontiguousarray(network.gates),
        bias=network.bias,
        weights=np.zeros(JOB_INPUTS),
    )


@compiled_borrowing
def _fill_weights(network: CompiledQueueNetwork, context: FloatArray) -> None:
    """The weights of the job inputs in this context."""
    for each in range(JOB_INPUTS):
        network.weights[each] = network.direct[each]
    for gate in range(GATES):
        inner = network.bias[gate]
        for each in range(CONTEXT):
            inner += context[each] * network.gates[each, gate]
        open_by = np.tanh(inner)
        for each in range(JOB_INPUTS):
            network.weights[each] += open_by * network.directions[each, gate]


@compiled_borrowing
def score_whole_queue(
    workload: Workload,
    cluster: Cluster,
    network: CompiledQueueNetwork,
    inputs: QueueInputs,
    scores: FloatArray,
    jobs: IntArray,
) -> None:
    """Score every pending job now; the linear scores are left in `inputs.linear`."""
    bring_up_to_now(workload, cluster, network.network.history)
    look(workload, cluster, network.network, inputs, scores, jobs)
    _fill_weights(network, inputs.context)
    for place in range(cluster.counts[PENDING]):
        inputs.linear[place] = scores[place]
        score = network.scale[0] * scores[place]
        for each in range(JOB_INPUTS):
            score += inputs.jobs[place, each] * network.weights[each]
        scores[place] = score
