"""Stretches drawn again: means and quantiles of draws are those of the jobs in them."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.measure.blocks import Blocks
from slurm_rl_plugin.measure.intervals import widened
from slurm_rl_plugin.units import DAY


def blocks_of(days: int, each: int = 20) -> Blocks:
    submit = np.repeat(np.arange(days) * DAY, each) + np.tile(np.arange(each), days)
    return Blocks.over(submit, np.random.default_rng(1))


def test_weeks_where_there_are_five_and_days_else() -> None:
    assert (blocks_of(36).unit, blocks_of(36).count) == ("weeks", 6)
    assert (blocks_of(20).unit, blocks_of(20).count) == ("days", 20)


def test_few_stretches_draw_nothing() -> None:
    few = blocks_of(4)
    assert len(few.drawn) == 0
    assert widened(few.means(np.ones(80), np.arange(80)), 1.0, few.count) is None


def test_means_and_quantiles_are_those_of_the_drawn_jobs() -> None:
    blocks = blocks_of(10)
    waits = np.random.default_rng(2).lognormal(6.0, 2.0, 200)
    jobs = np.arange(0, 200, 3)
    means = blocks.means(waits[jobs], jobs)
    quantiles = blocks.quantiles(waits[jobs], jobs, np.array([0.5, 0.9]))
    whole = np.quantile(waits[jobs], [0.5, 0.9], method="inverted_cdf")
    scale = np.quantile(waits[jobs], [0.5, 0.9]) / whole  # the figure itself lies between two jobs
    for draw in range(0, 1000, 171):
        times = blocks.drawn[draw][blocks.of[jobs]].astype(np.int64)
        drawn = np.repeat(waits[jobs], times)
        assert means[draw] == pytest.approx(drawn.mean())
        wanted = np.quantile(drawn, [0.5, 0.9], method="inverted_cdf")
        assert quantiles[draw] == pytest.approx(wanted * scale, rel=0.006)


def test_a_draw_without_any_job_of_a_group_gives_no_interval() -> None:
    blocks = blocks_of(10)
    jobs = np.arange(20)  # all of one day
    assert widened(blocks.means(np.ones(20), jobs), 1.0, blocks.count) is None
    drawn = blocks.quantiles(np.ones(20), jobs, np.array([0.5]))[:, 0]
    assert widened(drawn, 1.0, blocks.count) is None


@pytest.mark.parametrize(("days", "least"), [(6, 0.85), (12, 0.88), (30, 0.9)])
def test_an_interval_covers_the_mean_about_as_often_as_it_says(days: int, least: float) -> None:
    """Of skewed waits that belong together within a day: of few days it still errs more often."""
    rng, covered = np.random.default_rng(5), 0
    for _ in range(400):
        waits = np.repeat(rng.exponential(100.0, days), 20)
        submit = np.repeat(np.arange(days) * DAY, 20)
        blocks = Blocks.over(submit if days < 35 else submit / 2, rng)
        mean = float(waits.mean())
        found = widened(blocks.means(waits, np.arange(len(waits))), mean, blocks.count)
        assert found is not None
        covered += found[0] <= 100.0 <= found[1]
    assert least <= covered / 400 <= 0.985


def test_a_difference_of_a_second_is_within_its_interval() -> None:
    """Waits that pile up on one value, as passes of a scheduler make them."""
    blocks = blocks_of(20)
    jobs, level = np.arange(400), np.array([0.5])
    before, after = np.full(400, 1000.0), np.full(400, 1001.0)
    drawn = blocks.quantiles(after, jobs, level) - blocks.quantiles(before, jobs, level)
    assert widened(drawn[:, 0], 1.0, blocks.count) == pytest.approx((1.0, 1.0))
