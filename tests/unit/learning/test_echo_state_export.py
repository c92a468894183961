"""An echo state network scores and remembers under onnxruntime as it does in training."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.onnx_file import echo_state_of, export_echo_state, read_onnx
from slurm_rl_plugin.policies.echo_state import (
    EchoStateNetwork,
    ReservoirSettings,
    random_echo_state,
)
from slurm_rl_plugin.policies.silent_onnxruntime import onnxruntime

QUEUE, JOBS, SIZE = len(SITE.queue), len(SITE.jobs), 40


def single(rng, *shape):
    """Numbers that float32 holds exactly."""
    return np.round(rng.normal(0, 1, shape) * 4096) / 4096


def random_network(seed=1, leak=1.0):
    rng = np.random.default_rng(seed)
    scaler = (
        single(rng, QUEUE),
        np.abs(single(rng, QUEUE)) + 0.5,
        single(rng, JOBS),
        np.abs(single(rng, JOBS)) + 0.5,
    )
    drawn = random_echo_state(SITE, ReservoirSettings(size=SIZE, leak=leak), scaler, rng)
    return replace(
        drawn,
        input_weights=single(rng, QUEUE + JOBS, SIZE),
        reservoir_weights=drawn.reservoir_weights.astype(np.float32).astype(np.float64),
        bias=single(rng, SIZE),
        readout=np.where(drawn.connected, single(rng, SIZE), 0.0),
        queue_linear=single(rng, QUEUE),
        job_linear=single(rng, JOBS),
        output_bias=0.625,
    )


@pytest.mark.parametrize("silent", [False, True])  # of equal jobs the first is remembered
@pytest.mark.parametrize("leak", [1.0, 0.25])
def test_onnxruntime_scores_and_remembers_as_the_network_over_50_decisions(tmp_path, leak, silent):
    network = random_network(2, leak)
    if silent:
        network = replace(network, readout=np.zeros(SIZE), job_linear=np.zeros(JOBS))
    path = tmp_path / "model.onnx"
    export_echo_state(network, path, {})
    back = echo_state_of(read_onnx(path))
    assert (back.leak, back.output_bias) == (leak, 0.625)
    for name in EchoStateNetwork.__dataclass_fields__:
        if isinstance(getattr(network, name), np.ndarray) and name != "connected":
            np.testing.assert_array_equal(getattr(back, name), getattr(network, name), name)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(3)
    here = network.empty_memory()
    there = here.astype(np.float32)
    for jobs in [1, 0, 7, *rng.integers(0, 60, size=47)]:
        queue = rng.uniform(0, 1, QUEUE).astype(np.float32)
        table = rng.uniform(-1, 1, (jobs, JOBS)).astype(np.float32)
        inputs = {"queue": queue, "jobs": table, "memory_in": there}
        score, there = session.run(["score", "memory_out"], inputs)
        scores, states = network.scores(queue, table, here)
        here = states[np.argmax(scores)] if jobs else here
        assert score.dtype == there.dtype == np.float32
        assert score.shape == (jobs,)
        np.testing.assert_allclose(score, scores, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(there, here, rtol=0, atol=1e-5)
