"""The echo state network as plain arrays: its reservoir, drawn at random, and its scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.features.site import FeatureSchema
from slurm_rl_plugin.policies.network import Scaler
from slurm_rl_plugin.units import BoolArray, FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservoirSettings:
    """How the fixed, random part of an echo state network is drawn (2011, section 4.1)."""

    size: int = 100  #: units in the reservoir, H
    connectivity: float = 0.10  #: fraction of the H * H connections between units that exist
    readout_connectivity: float = 0.15  #: fraction of the units that the output sees
    #: Largest modulus of an eigenvalue of the reservoir weights; below 1 it forgets where it began.
    spectral_radius: float = 0.9
    input_scale: float = 0.3  #: input weights and biases are uniform in [-input_scale, input_scale]
    leak: float = 0.3  #: in (0, 1]; fraction of a unit's state that is new at each decision


def random_echo_state(
    schema: FeatureSchema,
    settings: ReservoirSettings,
    scaler: Scaler,
    rng: np.random.Generator,
) -> EchoStateNetwork:
    """A network with a random reservoir and a silent output.

    Reservoir weights are uniform in [0, 1] as in the paper, which alone gives a spectral radius
    near 5 and no echo states; they are therefore scaled down to the radius asked for.
    """
    size, inputs = settings.size, len(schema.queue) + len(schema.jobs)
    scale = settings.input_scale
    connected = np.zeros(size, dtype=np.bool_)
    seen = max(round(settings.readout_connectivity * size), 1)
    weights = _reservoir_weights(settings, rng)
    connected[rng.choice(size, size=seen, replace=False)] = True
    return EchoStateNetwork(
        schema=schema,
        queue_mean=scaler[0],
        queue_scale=scaler[1],
        job_mean=scaler[2],
        job_scale=scaler[3],
        input_weights=rng.uniform(-scale, scale, size=(inputs, size)),
        reservoir_weights=weights,
        bias=rng.uniform(-scale, scale, size=size),
        connected=connected,
        readout=np.zeros(size),
        queue_linear=np.zeros(len(schema.queue)),
        job_linear=np.zeros(len(schema.jobs)),
        leak=settings.leak,
    )


def _reservoir_weights(settings: ReservoirSettings, rng: np.random.Generator) -> FloatArray:
    """Sparse weights with exactly the asked for number of connections and spectral radius."""
    size = settings.size
    weights = np.zeros(size * size)
    links = max(round(settings.connectivity * size * size), 1)
    weights[rng.choice(size * size, size=links, replace=False)] = rng.uniform(0, 1, size=links)
    table = weights.reshape(size, size)
    radius = spectral_radius(table)
    # a reservoir without any loop has radius 0 and forgets by itself
    return table * (settings.spectral_radius / radius) if radius > 1e-9 else table


def spectral_radius(weights: FloatArray) -> float:
    """Largest modulus of an eigenvalue, of weights of shape [H, H]."""
    return float(np.abs(np.linalg.eigvals(weights)).max())


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoStateNetwork:
    """A fixed random reservoir with a linear readout (Jaeger 2003; 2011, section 3.2).

    With q and x the scaled queue and job features and m the memory,

        state(x) = (1 - leak) m + leak sigmoid(W m + Wq' q + Wx' x + bias)
        score(x) = readout . state(x) + queue_linear . q + job_linear . x + output_bias

    Every pending job is a possible next step from the same memory. Each job that starts is a step:
    the memory becomes its state.
    """

    schema: FeatureSchema  #: what q and x mean
    queue_mean: FloatArray  #: shape [Fq]
    queue_scale: FloatArray  #: shape [Fq]
    job_mean: FloatArray  #: shape [Fx]
    job_scale: FloatArray  #: shape [Fx]
    input_weights: FloatArray  #: Wq above Wx, shape [Fq + Fx, H]
    reservoir_weights: FloatArray  #: W, from column to row, shape [H, H]; mostly 0
    bias: FloatArray  #: shape [H]
    connected: BoolArray  #: units that the output sees, shape [H]
    readout: FloatArray  #: shape [H]; 0 where not connected
    queue_linear: FloatArray  #: shape [Fq]
    job_linear: FloatArray  #: shape [Fx]
    output_bias: float = 0.0  #: a number
    leak: float = 1.0  #: in (0, 1]

    @property
    def memory_size(self) -> int:
        """Units in the reservoir, H."""
        return len(self.bias)

    def empty_memory(self) -> FloatArray:
        """The memory before the first decision, float64[H]."""
        return np.zeros(self.memory_size)

    def scores(
        self, queue: FloatArray, jobs: FloatArray, memory: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Scores float64[n] of n jobs and the memory float64[n, H] that each would leave.

        From queue[Fq], jobs[n, Fx] and memory[H].
        """
        features = len(self.schema.queue)
        scaled_queue = (queue - self.queue_mean) / self.queue_scale
        scaled_jobs = (jobs - self.job_mean) / self.job_scale
        shared = self.reservoir_weights @ memory + scaled_queue @ self.input_weights[:features]
        inner = shared + scaled_jobs @ self.input_weights[features:] + self.bias
        states = (1.0 - self.leak) * memory + self.leak / (1.0 + np.exp(-inner))
        direct = scaled_queue @ self.queue_linear + scaled_jobs @ self.job_linear
        return states @ self.readout + direct + self.output_bias, states
