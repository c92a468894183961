"""Who is first by score, compiled, beside numpy's stable sort."""

import numpy as np
import pytest

from slurm_rl_plugin.simulator.kernel.best_first import best_first


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 33, 257, 5000])
@pytest.mark.parametrize("kinds", [2, 40, 10**9])
def test_the_best_come_first_and_equal_ones_as_they_stand(count: int, kinds: int) -> None:
    rng = np.random.default_rng(count + kinds)
    scores = rng.integers(-kinds, kinds, count + 3).astype(np.float64)
    scores[rng.random(count + 3) < 0.1] = -np.inf
    before = scores.copy()
    expected = np.argsort(-scores[:count], kind="stable")
    np.testing.assert_array_equal(best_first(scores, count), expected)
    np.testing.assert_array_equal(scores, before)


@pytest.mark.parametrize("shape", ["sorted", "turned round", "equal"])
def test_queues_that_stand_in_order(shape: str) -> None:
    scores = {
        "sorted": np.arange(1000.0)[::-1],
        "turned round": np.arange(1000.0),
        "equal": np.zeros(1000),
    }[shape].copy()
    expected = np.argsort(-scores, kind="stable")
    np.testing.assert_array_equal(best_first(scores, 1000), expected)
