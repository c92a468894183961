"""Run times are drawn as they were foretold, and as long as they have run already."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.features.history.run_prediction import PARTS
from slurm_rl_plugin.forecasts.replays.replayed_site import RunSpreads

QUANTILES = np.array([[60.0, 300.0, 1800.0, 3000.0, 3600.0], [5.0, 5.0, 5.0, 5.0, 5.0]])
LIMIT = np.array([7200.0, 60.0])
MANY = 20_000


def drawn(job: int, ran: float) -> np.ndarray:
    jobs = np.full(MANY, job)
    spreads = RunSpreads.of_quantiles(QUANTILES[jobs], LIMIT[jobs])
    return spreads.drawn(np.full(MANY, ran), (np.arange(MANY) + 0.5) / MANY)


def test_the_foretold_parts_of_the_runs_are_shorter() -> None:
    seconds = drawn(0, 0.0)
    for part, quantile in zip(PARTS, QUANTILES[0], strict=True):
        assert (seconds <= quantile).mean() == pytest.approx(part, abs=1e-3)
    assert seconds.min() >= 1.0
    assert seconds.max() <= LIMIT[0] * 1.001


@pytest.mark.parametrize("ran", [100.0, 1800.0, 3500.0])
def test_a_running_job_is_drawn_among_the_runs_that_got_so_far(ran: float) -> None:
    seconds, all_runs = drawn(0, ran), drawn(0, 0.0)
    assert seconds.min() > ran
    longer = all_runs[all_runs > ran]
    for part in PARTS:
        assert np.quantile(seconds, part) == pytest.approx(np.quantile(longer, part), rel=0.02)


def test_who_has_outlived_all_that_was_foretold_ends_next() -> None:
    assert drawn(0, 9000.0).tolist() == [9001.0] * MANY


def test_runs_of_one_length_are_drawn_so() -> None:
    seconds = drawn(1, 0.0)
    assert (
        seconds[(np.arange(MANY) > 0.1 * MANY) & (np.arange(MANY) < 0.9 * MANY)] - 5.0
    ).max() < (0.01)
    assert seconds.max() <= LIMIT[1] * 1.001
