"""What the soak makes of a log and of its samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.swf_writer import write_swf
from slurm_rl_plugin.simulator.generators import generated_log
from tests.faults.soak import ALLOWED, missed_cycles
from tests.faults.soak_load import busiest_day
from tests.faults.soak_slopes import slope_of

SPEED = 96.0


def test_the_day_is_taken_whole_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    write_swf(path, generated_log("mmn:jobs=800,processors=5"), comments=["MaxProcs: 5"])
    jobs = busiest_day(path, SPEED, 50)
    times = [job.submit for job in jobs]
    assert len(jobs) >= 50
    assert times == sorted(times)
    assert 0.0 <= times[0] <= times[-1] <= 86400.0 / SPEED
    assert min(job.seconds for job in jobs) >= 1.0
    with pytest.raises(ValueError, match="take another log"):
        busiest_day(path, SPEED, 10_000)


@pytest.mark.parametrize("growth", [0.0, 40.0])
def test_growth_is_told_from_the_queue_and_its_interval_holds_it(growth: float) -> None:
    rng = np.random.default_rng(5)
    seconds = np.arange(0.0, 1200.0, 2.0)
    queue = 2000.0 * np.exp(-(((seconds - 300.0) / 150.0) ** 2))
    noise = np.convolve(rng.normal(size=len(seconds)), np.ones(5) / 5, mode="same")
    found = slope_of(
        seconds, 100.0 + growth * seconds / 3600.0 + 3.0 * queue / 1000.0 + noise, queue
    )
    assert found.lowest <= growth <= found.highest
    assert found.highest - found.lowest < 5.0
    assert found.largest >= found.mean >= 100.0


def test_missed_cycles_are_gaps_between_good_ones() -> None:
    good = [10.0, 14.0, 18.0, 18.0 + 2.5 * ALLOWED, 24.0 + 2.5 * ALLOWED]
    samples = [(at + 1.0, at) for at in good]
    assert missed_cycles(samples) == 2
    assert missed_cycles([(0.0, 0.0), *samples[:3]]) == 0
    assert missed_cycles([*samples[:3], (18.0 + 1.5 * ALLOWED, 18.0)]) == 1
