"""Stretches drawn again: means and quantiles of draws are those of the jobs in them."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.units import DAY
from slurm_rl_plugin.what_if.blocks import Blocks, interval


def blocks_of(days: int, each: int = 20) -> Blocks:
    submit = np.repeat(np.arange(days) * DAY, each) + np.tile(np.arange(each), days)
    return Blocks.over(submit, np.random.default_rng(1))


def test_weeks_where_there_are_five_and_days_else() -> None:
    assert (blocks_of(36).unit, blocks_of(36).count) == ("weeks", 6)
    assert (blocks_of(20).unit, blocks_of(20).count) == ("days", 20)


def test_half_days_where_there_are_not_five_days() -> None:
    assert (blocks_of(4).unit, blocks_of(4).count) == ("half days", 4)  # nobody comes at night


def test_few_stretches_draw_nothing() -> None:
    few = blocks_of(2)
    assert len(few.drawn) == 0
    assert interval(few.means(np.ones(40), np.arange(40))) is None


def test_means_and_quantiles_are_those_of_the_drawn_jobs() -> None:
    blocks = blocks_of(10)
    waits = np.random.default_rng(2).lognormal(6.0, 2.0, 200)
    jobs = np.arange(0, 200, 3)
    means = blocks.means(waits[jobs], jobs)
    quantiles = blocks.quantiles(waits[jobs], jobs, np.array([0.5, 0.9]))
    for draw in range(0, 1000, 171):
        times = blocks.drawn[draw][blocks.of[jobs]].astype(np.int64)
        drawn = np.repeat(waits[jobs], times)
        assert means[draw] == pytest.approx(drawn.mean())
        wanted = np.quantile(drawn, [0.5, 0.9], method="inverted_cdf")
        assert quantiles[draw] == pytest.approx(wanted, rel=0.024)


def test_a_draw_without_any_job_of_a_group_gives_no_interval() -> None:
    blocks = blocks_of(10)
    jobs = np.arange(20)  # all of one day
    assert interval(blocks.means(np.ones(20), jobs)) is None
    assert interval(blocks.quantiles(np.ones(20), jobs, np.array([0.5]))[:, 0]) is None


def test_an_interval_covers_the_mean_as_often_as_it_says() -> None:
    """Of waits that belong together within a day, the truth lies within in about 95 of 100."""
    rng, covered, days = np.random.default_rng(5), 0, 40
    for _ in range(200):
        waits = np.repeat(rng.exponential(100.0, days), 20)
        submit = np.repeat(np.arange(days) * DAY, 20) / 2  # 20 days: drawn by days, two at a time
        blocks = Blocks.over(submit, rng)
        found = interval(blocks.means(waits, np.arange(len(waits))))
        assert found is not None
        covered += found[0] <= 100.0 <= found[1]
    assert 170 <= covered <= 198
