"""The Q-network as plain arrays: what trainers search, the simulator compiles and ONNX holds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace

import numpy as np

from slurm_rl_plugin.features.history.run_prediction import RunTimePrediction
from slurm_rl_plugin.features.schema import FeatureSchema
from slurm_rl_plugin.features.site import (
    RESOURCE_FEATURES,
    SCARCE_SHARE,
    SITE,
    SITE_OF_PROCESSORS,
)
from slurm_rl_plugin.policies.protection import Protection
from slurm_rl_plugin.units import FloatArray

#: Hidden activations; the place in this tuple is the code the compiled loop uses.
ACTIVATIONS = ("relu", "sigmoid")
#: Job features of a machine's resources.
_OF_RESOURCES = (*RESOURCE_FEATURES, SCARCE_SHARE)
#: Queue mean, queue scale, job mean, job scale.
Scaler = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class QNetwork:
    """score(q, x) = output . act(Wq' (q-mq)/sq + Wx' (x-mx)/sx + bias) + linear . (x-mx)/sx + b.

    One hidden layer beside a direct linear term; q are queue features, x job features. The scaler
    (m, s) is part of the network, so training and serving cannot differ.

    Attributes:
        schema: what q and x mean.
        queue_mean, queue_scale: shape [Fq].
        job_mean, job_scale: shape [Fx].
        queue_weights: Wq, shape [Fq, hidden].
        job_weights: Wx, shape [Fx, hidden].
        bias: shape [hidden].
        output: shape [hidden].
        linear: shape [Fx].
        output_bias: b.
        activation: one of ACTIVATIONS.
        reserve_weights: of the processors to hold, by scaled queue feature, shape [Fq]; None for a
            network without that output.
        reserve_bias: processors to hold where all scaled queue features are 0.
        prediction: of run times, which the schema's history features are made of; None for a
            network to which they are all 0.
        protection: of jobs that were overtaken; None for none.
    """

    schema: FeatureSchema
    queue_mean: FloatArray
    queue_scale: FloatArray
    job_mean: FloatArray
    job_scale: FloatArray
    queue_weights: FloatArray
    job_weights: FloatArray
    bias: FloatArray
    output: FloatArray
    linear: FloatArray
    output_bias: float = 0.0
    activation: str = "relu"
    reserve_weights: FloatArray | None = None
    reserve_bias: float = 0.0
    prediction: RunTimePrediction | None = None
    protection: Protection | None = None

    @property
    def hidden(self) -> int:
        """Number of hidden units, H."""
        return len(self.bias)

    @property
    def digest(self) -> str:
        """Tells this network from others, 16 digits: a hash of its schema and of every number."""
        told = hashlib.sha256(self.schema.digest.encode())
        for each in fields(self)[1:]:
            value = getattr(self, each.name)
            if each.name == "protection" and value is None:
                continue  # a network of before there was any is told by the same digits
            if isinstance(value, RunTimePrediction):
                told.update(b"" if value.spread is None else value.spread.tobytes())
                value = value.weights
            told.update(f"{each.name} {np.shape(value)} ".encode())
            told.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
        return told.hexdigest()[:16]

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
    """(x - .5) / .5 for every input: features are made to lie near [0, 1] on any site (ADR 8).

    Fixed numbers instead of a sample's moments: what one site's log shows must not shift what a
    feature means on another. Of a job's resources it is x / .5: nothing of what is not there.
    """
    queue, jobs = len(schema.queue), len(schema.jobs)
    mean = np.where(np.isin(schema.jobs, _OF_RESOURCES), 0.0, 0.5)
    return np.full(queue, 0.5), np.full(queue, 0.5), mean, np.full(jobs, 0.5)


def with_resources(network: QNetwork) -> QNetwork:
    """The network of the `site` schema that scores as one of processors alone; others as they are.

    What the schema says of resources weighs nothing in it.
    """
    return _of_schema(network, SITE) if network.schema == SITE_OF_PROCESSORS else network


def without_resources(network: QNetwork) -> QNetwork:
    """The network of processors alone that scores as this one; itself where resources weigh."""
    if network.schema != SITE:
        return network
    queue = ~np.isin(SITE.queue, SITE_OF_PROCESSORS.queue)
    jobs = ~np.isin(SITE.jobs, SITE_OF_PROCESSORS.jobs)
    weighs = network.queue_weights[queue].any() or network.linear[jobs].any()
    if weighs or network.job_weights[jobs].any():
        return network
    if network.reserve_weights is not None and network.reserve_weights[queue].any():
        return network
    return _of_schema(network, SITE_OF_PROCESSORS)


def on_processors_alone(network: QNetwork) -> QNetwork:
    """The network that scores as this one where the jobs tell of processors alone.

    That is one of processors alone, unless its queue features or its scaler tell of resources.
    """
    if network.schema != SITE or network.job_mean[np.isin(SITE.jobs, _OF_RESOURCES)].any():
        return network
    silent = replace(network, job_weights=network.job_weights.copy(), linear=network.linear.copy())
    silent.job_weights[np.isin(SITE.jobs, _OF_RESOURCES)] = 0.0
    silent.linear[np.isin(SITE.jobs, _OF_RESOURCES)] = 0.0
    return without_resources(silent)


def _of_schema(network: QNetwork, schema: FeatureSchema) -> QNetwork:
    """The same weights for the features of a schema; 0 for those that it had none for."""
    fixed = fixed_scaler(schema)

    def of(names: tuple[str, ...], values: FloatArray, wanted: tuple[str, ...]) -> FloatArray:
        told = dict(zip(names, values, strict=True))
        return np.array([told.get(name, np.zeros(values.shape[1:])) for name in wanted])

    def queue(values: FloatArray) -> FloatArray:
        return of(network.schema.queue, values, schema.queue)

    def jobs(values: FloatArray) -> FloatArray:
        return of(network.schema.jobs, values, schema.jobs)

    seen_queue = np.isin(schema.queue, network.schema.queue)
    seen_jobs = np.isin(schema.jobs, network.schema.jobs)
    reserve = network.reserve_weights
    return replace(
        network,
        schema=schema,
        queue_mean=np.where(seen_queue, queue(network.queue_mean), fixed[0]),
        queue_scale=np.where(seen_queue, queue(network.queue_scale), fixed[1]),
        job_mean=np.where(seen_jobs, jobs(network.job_mean), fixed[2]),
        job_scale=np.where(seen_jobs, jobs(network.job_scale), fixed[3]),
        queue_weights=queue(network.queue_weights),
        job_weights=jobs(network.job_weights),
        linear=jobs(network.linear),
        reserve_weights=None if reserve is None else queue(reserve),
    )


def parameter_count(schema: FeatureSchema, hidden: int) -> int:
    """How many numbers the scores of a network of this size have; a reserve's come behind them."""
    return (len(schema.queue) + len(schema.jobs) + 2) * hidden + len(schema.jobs)


def network_from_parameters(
    schema: FeatureSchema,
    parameters: FloatArray,
    *,
    hidden: int,
    scaler: Scaler,
    activation: str = "relu",
    hold: bool = False,
    prediction: RunTimePrediction | None = None,
) -> QNetwork:
    """The network whose free numbers are `parameters`, shape [parameter_count].

    Args:
        schema: what the inputs mean.
        parameters: weights in the order queue, jobs, bias, output, linear; with `hold` the
            reserve's weights and bias behind them.
        hidden: hidden units.
        scaler: queue mean, queue scale, job mean, job scale.
        activation: one of ACTIVATIONS.
        hold: whether the network says how many processors to keep free of batch work.
        prediction: of run times, for the history features.
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
        prediction=prediction,
    )
