"""The Q-network as plain arrays, for trainers, the compiled simulator and the ONNX file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields

import numpy as np

from slurm_rl_plugin.features.site import SITE, USUAL, FeatureSchema
from slurm_rl_plugin.units import FloatArray

#: Hidden activations; the place in this tuple is the code the compiled loop uses.
ACTIVATIONS = ("relu", "sigmoid")
#: Queue mean, queue scale, job mean, job scale.
Scaler = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class QNetwork:
    """score(q, x) = output . act(Wq' (q-mq)/sq + Wx' (x-mx)/sx + bias) + linear . (x-mx)/sx + b.

    One hidden layer plus a direct linear term; q are queue features, x job features. The scaler
    (m, s) is part of the network, so training and serving cannot differ.
    """

    schema: FeatureSchema  #: of q and x
    queue_mean: FloatArray  #: shape [Fq]
    queue_scale: FloatArray  #: shape [Fq]
    job_mean: FloatArray  #: shape [Fx]
    job_scale: FloatArray  #: shape [Fx]
    queue_weights: FloatArray  #: Wq, shape [Fq, hidden]
    job_weights: FloatArray  #: Wx, shape [Fx, hidden]
    bias: FloatArray  #: shape [hidden]
    output: FloatArray  #: shape [hidden]
    linear: FloatArray  #: shape [Fx]
    output_bias: float = 0.0  #: b
    activation: str = "relu"  #: one of ACTIVATIONS
    #: Of the processors to hold, by scaled queue feature, shape [Fq]; None without that output.
    reserve_weights: FloatArray | None = None
    reserve_bias: float = 0.0  #: processors to hold where all scaled queue features are 0

    @property
    def looks_at_past(self) -> bool:
        """Whether past runs change its scores, so that it needs each job's user."""
        first = len(self.schema.jobs) - len(self.schema.history_jobs)
        return bool(self.job_weights[first:].any() or self.linear[first:].any())

    @property
    def hidden(self) -> int:
        """Number of hidden units, H."""
        return len(self.bias)

    @property
    def digest(self) -> str:
        """A hash of its schema and of every number, 16 digits."""
        found = hashlib.sha256(self.schema.digest.encode())
        for each in fields(self)[1:]:
            value = getattr(self, each.name)
            found.update(f"{each.name} {np.shape(value)} ".encode())
            found.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
        return found.hexdigest()[:16]

    def scores(self, queue: FloatArray, jobs: FloatArray) -> FloatArray:
        """Scores of n jobs, float64[n], from queue[Fq] and jobs[n, Fx].

        Of m queues at once, float64[m, n], from queue[m, 1, Fq] and jobs[m, n, Fx].
        """
        scaled_queue = (queue - self.queue_mean) / self.queue_scale
        scaled_jobs = (jobs - self.job_mean) / self.job_scale
        inner = scaled_queue @ self.queue_weights + scaled_jobs @ self.job_weights + self.bias
        if self.activation == "relu":
            active = np.maximum(inner, 0.0)
        else:
            active = 1.0 / (1.0 + np.exp(-inner))
        return np.asarray(active @ self.output + scaled_jobs @ self.linear + self.output_bias)

    def reserve(self, queue: FloatArray) -> float:
        """Processors to keep free of batch work, neither rounded nor bounded, from queue[Fq]."""
        if self.reserve_weights is None:
            return 0.0
        scaled = (queue - self.queue_mean) / self.queue_scale
        return float(scaled @ self.reserve_weights + self.reserve_bias)


def fixed_scaler(schema: FeatureSchema) -> Scaler:
    """(x - middle) / half width for every input, so that it lies near [-1, 1] (ADR 8).

    Fixed numbers, not a sample's moments: the log of one site must not shift the meaning of a
    feature on another. Features lie near [0, 1] but for those of jobs of `site` (`USUAL`).
    """
    queue, jobs = len(schema.queue), schema.jobs
    usual = USUAL if schema == SITE else {}
    table = np.array([usual.get(name, (0.5, 0.5)) for name in jobs]).reshape(-1, 2)
    return np.full(queue, 0.5), np.full(queue, 0.5), table[:, 0].copy(), table[:, 1].copy()


def parameter_count(schema: FeatureSchema, hidden: int) -> int:
    """Number of parameters for the scores of a network of this size; a reserve's follow them."""
    return (len(schema.queue) + len(schema.jobs) + 2) * hidden + len(schema.jobs)


def network_from_parameters(
    schema: FeatureSchema,
    parameters: FloatArray,
    *,
    hidden: int,
    scaler: Scaler,
    activation: str = "relu",
    hold: bool = False,
) -> QNetwork:
    """The network of `parameters`, shape [parameter_count].

    They are weights in the order queue, jobs, bias, output, linear; with `hold` the weights and
    bias of the reserve follow.
    """
    queue, jobs = len(schema.queue), len(schema.jobs)
    sizes = [queue * hidden, jobs * hidden, hidden, hidden, jobs]
    parts = np.split(np.asarray(parameters, dtype=np.float64), np.cumsum(sizes))
    return QNetwork(
        schema=schema,
        queue_mean=scaler[0],
        queue_scale=scaler[1],
        job_mean=scaler[2],
        job_scale=scaler[3],
        queue_weights=parts[0].reshape(queue, hidden),
        job_weights=parts[1].reshape(jobs, hidden),
        bias=parts[2],
        output=parts[3],
        linear=parts[4],
        activation=activation,
        reserve_weights=parts[5][:queue] if hold else None,
        reserve_bias=float(parts[5][queue]) if hold else 0.0,
    )
