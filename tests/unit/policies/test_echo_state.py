"""The reservoir is drawn as the paper says, forgets where it started, and steps from one memory."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.policies.echo_state import (
    ReservoirSettings,
    random_echo_state,
    spectral_radius,
)

QUEUE, JOBS = len(SITE.queue), len(SITE.jobs)
SCALER = (np.full(QUEUE, 0.5), np.full(QUEUE, 0.5), np.full(JOBS, 0.5), np.full(JOBS, 0.5))


def network(seed=1, **settings):
    return random_echo_state(
        SITE, ReservoirSettings(**settings), SCALER, np.random.default_rng(seed)
    )


def with_output(reservoir, seed=2):
    rng = np.random.default_rng(seed)
    return replace(
        reservoir,
        readout=np.where(reservoir.connected, rng.normal(0, 1, reservoir.memory_size), 0.0),
        queue_linear=rng.normal(0, 1, QUEUE),
        job_linear=rng.normal(0, 1, JOBS),
        output_bias=0.5,
    )


@pytest.mark.parametrize("radius", [0.5, 0.9, 0.99])
def test_the_spectral_radius_is_the_one_asked_for(radius):
    weights = network(spectral_radius=radius).reservoir_weights
    assert np.abs(np.linalg.eigvals(weights)).max() == pytest.approx(radius, rel=1e-9)
    assert weights.min() == 0.0


def test_a_tenth_of_the_connections_and_15_of_100_units_are_drawn():
    drawn = network()
    assert np.count_nonzero(drawn.reservoir_weights) == 1000
    assert np.count_nonzero(drawn.connected) == 15
    assert not drawn.readout.any()


def test_scores_are_those_of_the_written_formula():
    drawn = with_output(network(leak=0.3))
    rng = np.random.default_rng(5)
    queue, jobs, memory = rng.random(QUEUE), rng.random((3, JOBS)), rng.random(100)
    scores, states = drawn.scores(queue, jobs, memory)
    q, x = (queue - 0.5) / 0.5, (jobs[1] - 0.5) / 0.5
    inner = drawn.reservoir_weights @ memory + drawn.bias
    inner = inner + np.concatenate([q, x]) @ drawn.input_weights
    state = 0.7 * memory + 0.3 / (1 + np.exp(-inner))
    score = drawn.readout @ state + drawn.queue_linear @ q + drawn.job_linear @ x + 0.5
    np.testing.assert_allclose(states[1], state, rtol=1e-12)
    assert scores[1] == pytest.approx(score, rel=1e-12)


def test_a_reservoir_without_a_loop_is_kept_as_it_is():
    assert spectral_radius(network(size=1, connectivity=1.0).reservoir_weights) <= 0.9 + 1e-12
    lone = network(size=2, connectivity=0.25)
    assert np.count_nonzero(lone.reservoir_weights) == 1
