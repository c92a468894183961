"""Regressors of a Q-function: a feed-forward network, and the readout of a reservoir."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.features.site import FeatureSchema
from slurm_rl_plugin.policies.echo_state import (
    EchoStateNetwork,
    ReservoirSettings,
    random_echo_state,
)
from slurm_rl_plugin.policies.network import (
    QNetwork,
    fixed_scaler,
    network_from_parameters,
    parameter_count,
)
from slurm_rl_plugin.simulator.scoring.echo_state import without_memory
from slurm_rl_plugin.units import FloatArray


class Samples(NamedTuple):
    """Samples of a Q-function, in any order."""

    queue: FloatArray  #: queue features, shape [samples, Fq]
    jobs: FloatArray  #: features of the started job, shape [samples, Fx]
    states: FloatArray  #: reservoir after that start, shape [samples, H]
    targets: FloatArray  #: shape [samples]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedForwardRegressor:
    """One hidden layer of sigmoid units, fitted from scratch each time (Riedmiller 2005)."""

    schema: FeatureSchema  #: of the inputs
    hidden: int  #: units
    passes: int  #: over the samples
    decay: float  #: L2 penalty on the weights

    def driven(self, parameters: Sequence[float] | None) -> EchoStateNetwork:
        """The network as a reservoir without connections."""
        count = parameter_count(self.schema, self.hidden) + 1
        numbers = [0.0] * count if parameters is None else parameters
        return without_memory(self.network(numbers))

    def network(self, parameters: Sequence[float]) -> QNetwork:
        """The network with these weights and no direct linear term."""
        numbers = np.asarray(parameters, dtype=np.float64)
        network = network_from_parameters(
            self.schema,
            numbers[:-1],
            hidden=self.hidden,
            scaler=fixed_scaler(self.schema),
            activation="sigmoid",
        )
        return replace(network, output_bias=float(numbers[-1]))

    def fit(self, samples: Samples, seed: int) -> list[float]:
        """Weights by Adam on standardised targets."""
        from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - slow, only here
        from sklearn.neural_network import MLPRegressor  # noqa: PLC0415 - slow, only here

        mean = float(samples.targets.mean())
        scale = float(samples.targets.std()) or 1.0
        model = MLPRegressor(
            hidden_layer_sizes=(self.hidden,),
            activation="logistic",
            learning_rate_init=0.01,
            alpha=self.decay,
            max_iter=self.passes,
            n_iter_no_change=self.passes,
            random_state=seed,
        )
        with warnings.catch_warnings():  # the number of passes is fixed
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(_scaled(self.schema, samples), (samples.targets - mean) / scale)
        inner, output = model.coefs_
        linear = np.zeros(len(self.schema.jobs))
        parts = (inner.ravel(), model.intercepts_[0], output[:, 0] * scale, linear)
        bias = float(model.intercepts_[1][0]) * scale + mean
        return [*np.concatenate(parts).tolist(), bias]


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoStateRegressor:
    """The readout of a fixed reservoir and the direct weights by ridge regression (Jaeger 2003)."""

    reservoir: EchoStateNetwork  #: the network with a silent output
    ridge: float  #: penalty on standardised inputs, per sample

    @classmethod
    def drawn(
        cls, schema: FeatureSchema, settings: ReservoirSettings, ridge: float, seed: int
    ) -> EchoStateRegressor:
        """A regressor over a random reservoir of this seed."""
        rng = np.random.default_rng(seed)
        reservoir = random_echo_state(schema, settings, fixed_scaler(schema), rng)
        return cls(reservoir=reservoir, ridge=ridge)

    def driven(self, parameters: Sequence[float] | None) -> EchoStateNetwork:
        """The network of these parameters; the untrained reservoir for None."""
        return self.reservoir if parameters is None else self.network(parameters)

    def network(self, parameters: Sequence[float]) -> EchoStateNetwork:
        """The reservoir with this readout."""
        schema, connected = self.reservoir.schema, self.reservoir.connected
        sizes = [int(connected.sum()), len(schema.queue), len(schema.jobs)]
        parts = np.split(np.asarray(parameters, dtype=np.float64), np.cumsum(sizes))
        readout = np.zeros(len(connected))
        readout[connected] = parts[0]
        return replace(
            self.reservoir,
            readout=readout,
            queue_linear=parts[1],
            job_linear=parts[2],
            output_bias=float(parts[3][0]),
        )

    def fit(self, samples: Samples, seed: int) -> list[float]:
        """Weights by least squares with a penalty, without randomness."""
        from sklearn.linear_model import Ridge  # noqa: PLC0415 - slow, only here

        del seed
        inputs = np.hstack(
            [
                samples.states[:, self.reservoir.connected],
                _scaled(self.reservoir.schema, samples),
            ]
        )
        mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
        scale = np.where(scale > 1e-9, scale, 1.0)
        model = Ridge(alpha=self.ridge * len(inputs))
        model.fit((inputs - mean) / scale, samples.targets)
        weights = model.coef_ / scale
        return [*weights.tolist(), float(model.intercept_ - mean @ weights)]


def _scaled(schema: FeatureSchema, samples: Samples) -> FloatArray:
    queue_mean, queue_scale, job_mean, job_scale = fixed_scaler(schema)
    queue = (samples.queue - queue_mean) / queue_scale
    return np.hstack([queue, (samples.jobs - job_mean) / job_scale])
