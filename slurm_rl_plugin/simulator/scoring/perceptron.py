"""A perceptron with one hidden layer of sigmoids that learns inside the compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.units import FloatArray, IntArray


class Perceptron(NamedTuple):
    """y = output . sigmoid(x W + bias) + offset; changed in place by learning."""

    weights: FloatArray  #: W, shape [inputs, hidden]
    bias: FloatArray  #: shape [hidden]
    output: FloatArray  #: shape [hidden]
    offset: FloatArray  #: shape [1]


def perceptron_of(parameters: FloatArray, inputs: int) -> Perceptron:
    """The perceptron whose numbers lie in one vector, as views: both change together.

    Args:
        parameters: weights, bias, output, offset; shape [(inputs + 2) * hidden + 1].
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

    Hidden units are spread over the scaled inputs; outputs are small, so that the untrained
    network says little.
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
    values = np.empty(len(examples))
    for place in range(len(examples)):
        values[place] = value_of(network, examples[place])
    return values


@compiled
def descend(network: Perceptron, example: FloatArray, target: float, rate: float) -> None:
    """One step of back-propagation down (target - y)^2 / 2 at one example, in place.

    Args:
        example: shape [inputs].
    """
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
    """One epoch of `descend` over the examples in the given order.

    Args:
        examples: shape [n, inputs].
        targets: shape [n].
        order: of the examples, shape [n].
    """
    for place in order:
        descend(network, examples[place], targets[place], rate)
