"""The echo state network as plain arrays: a Q-function that remembers what it chose before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.features.schema import FeatureSchema
from slurm_rl_plugin.units import BoolArray, FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoStateNetwork:
    """A fixed random reservoir with a linear readout (Jaeger 2003; 2011, section 3.2).

    With q and x the scaled queue and job features and m the memory,

        state(x) = (1 - leak) m + leak sigmoid(W m + Wq' q + Wx' x + bias)
        score(x) = readout . state(x) + queue_linear . q + job_linear . x + output_bias

    Every pending job is a possible next step from the same memory. Each job that starts is a step:
    the memory becomes its state.

    Attributes:
        schema: what q and x mean.
        queue_mean, queue_scale: shape [Fq].
        job_mean, job_scale: shape [Fx].
        input_weights: Wq above Wx, shape [Fq + Fx, H].
        reservoir_weights: W, from column to row, shape [H, H]; mostly 0.
        bias: shape [H].
        connected: units that the output sees, shape [H].
        readout: shape [H]; 0 where not connected.
        queue_linear: shape [Fq].
        job_linear: shape [Fx].
        output_bias: a number.
        leak: in (0, 1].
    """

    schema: FeatureSchema
    queue_mean: FloatArray
    queue_scale: FloatArray
    job_mean: FloatArray
    job_scale: FloatArray
    input_weights: FloatArray
    reservoir_weights: FloatArray
    bias: FloatArray
    connected: BoolArray
    readout: FloatArray
    queue_linear: FloatArray
    job_linear: FloatArray
    output_bias: float = 0.0
    leak: float = 1.0

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

        Args:
            queue: features, shape [Fq].
            jobs: features, shape [n, Fx].
            memory: shape [H].
        """
        features = len(self.schema.queue)
        scaled_queue = (queue - self.queue_mean) / self.queue_scale
        scaled_jobs = (jobs - self.job_mean) / self.job_scale
        shared = self.reservoir_weights @ memory + scaled_queue @ self.input_weights[:features]
        inner = shared + scaled_jobs @ self.input_weights[features:] + self.bias
        states = (1.0 - self.leak) * memory + self.leak / (1.0 + np.exp(-inner))
        direct = scaled_queue @ self.queue_linear + scaled_jobs @ self.job_linear
        return states @ self.readout + direct + self.output_bias, states
