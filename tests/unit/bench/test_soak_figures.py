"""What the soak makes of a log and of its samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.units import FloatArray
from tests.bench.soak.campaign import ALLOWED, growth_between, judged_rounds, missed_cycles, options

SPEED = 96.0


#: Seconds of a round, and when the first one begins.
ROUND, BEGAN = 600.0, 7000.0


def _load(seconds: FloatArray) -> FloatArray:
    """What a resource takes by the phase of a round, the same in each; far more than any growth."""
    return 50.0 * np.sin(2.0 * np.pi * seconds / ROUND) ** 2


def _samples(an_hour: float, noise: float, seed: int) -> list[tuple[float, float]]:
    """Of a resource that grows from the start on, with a warm-up in the first round."""
    rng = np.random.default_rng(seed)
    since = np.arange(0.0, 7.0 * ROUND, 2.0)
    step = np.repeat(rng.normal(size=7), len(since) // 7) * noise  # the same through a round
    values = 1000.0 + _load(since) + an_hour * since / 3600.0 + step - 500.0 * (since < ROUND)
    return list(zip((BEGAN + since).tolist(), values.tolist(), strict=True))


@pytest.mark.parametrize("an_hour", [0.0, 4.0, -3.0])
def test_growth_is_told_from_the_load_and_from_the_first_round(an_hour: float) -> None:
    begins = judged_rounds(BEGAN, 7, ROUND)
    assert begins == [BEGAN + number * ROUND for number in range(1, 7)]
    assert judged_rounds(BEGAN, 7, ROUND, warm_up=3.0 * ROUND) == begins[2:]
    found = growth_between(_samples(an_hour, 0.0, 1), begins, ROUND, np.mean)
    assert found.differences == pytest.approx([an_hour] * 5)
    assert found.lowest == pytest.approx(an_hour)
    assert found.highest == pytest.approx(an_hour)
    assert found.largest >= found.mean > 1000.0


def test_the_interval_holds_the_growth_as_often_as_it_says() -> None:
    begins = [BEGAN + number * ROUND for number in range(6)]
    held, seeds = 0, 500
    for seed in range(seeds):  # what a round leaves is there in the next
        steps = np.random.default_rng(seed).normal(4.0, 2.0, len(begins)) * ROUND / 3600.0
        samples = list(zip(begins, np.cumsum(steps).tolist(), strict=True))
        found = growth_between(samples, begins, ROUND, np.mean)
        held += found.lowest <= 4.0 <= found.highest
    assert 0.92 < held / seeds < 0.98


def test_too_few_rounds_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="3 are needed"):
        growth_between(_samples(0.0, 0.0, 1), [BEGAN, BEGAN + ROUND], ROUND, np.mean)
    with pytest.raises(SystemExit):
        options(["--rounds", "3", "--output", str(tmp_path)])
    assert "--rounds 4 or more" in capsys.readouterr().err


def test_missed_cycles_are_gaps_between_good_ones() -> None:
    good = [10.0, 14.0, 18.0, 18.0 + 2.5 * ALLOWED, 24.0 + 2.5 * ALLOWED]
    samples = [(at + 1.0, at) for at in good]
    assert missed_cycles(samples) == 2
    assert missed_cycles([(0.0, 0.0), *samples[:3]]) == 0
    assert missed_cycles([*samples[:3], (18.0 + 1.5 * ALLOWED, 18.0)]) == 1
