"""The perceptron's output and its back-propagation, against the plain network and differences."""

import numpy as np

from slurm_rl_plugin.simulator.scoring.perceptron import (
    descend,
    descend_through,
    perceptron_of,
    random_parameters,
    value_of,
    values_of,
)

RNG = np.random.default_rng(4)
PARAMETERS = random_parameters(RNG, 11, 6)
EXAMPLES = RNG.normal(0.0, 1.0, (40, 11))


def test_outputs_are_those_of_the_formula():
    network = perceptron_of(PARAMETERS, 11)
    active = 1.0 / (1.0 + np.exp(-(EXAMPLES @ network.weights + network.bias)))
    expected = active @ network.output + network.offset[0]
    np.testing.assert_allclose(values_of(network, EXAMPLES), expected, rtol=1e-12)
    assert value_of(network, EXAMPLES[3]) == values_of(network, EXAMPLES)[3]


def test_one_step_goes_down_the_gradient():
    moved, rate, step = PARAMETERS.copy(), 1e-3, 1e-6
    descend(perceptron_of(moved, 11), EXAMPLES[0], 0.7, rate)

    def loss(parameters):
        return (0.7 - value_of(perceptron_of(parameters, 11), EXAMPLES[0])) ** 2 / 2

    for place in range(0, len(PARAMETERS), 5):
        nudge = np.zeros(len(PARAMETERS))
        nudge[place] = step
        slope = (loss(PARAMETERS + nudge) - loss(PARAMETERS - nudge)) / (2 * step)
        np.testing.assert_allclose(moved[place] - PARAMETERS[place], -rate * slope, atol=1e-10)


def test_epochs_fit_a_curve():
    targets = np.sin(EXAMPLES[:, 0])
    parameters = PARAMETERS.copy()
    network = perceptron_of(parameters, 11)
    before = np.mean((values_of(network, EXAMPLES) - targets) ** 2)
    for _ in range(300):
        descend_through(network, EXAMPLES, targets, np.arange(40), 0.1)
    assert np.mean((values_of(network, EXAMPLES) - targets) ** 2) < before / 20
