"""Intervals: the four words, draws of whole blocks, and ratios over windows that share jobs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.measure.intervals import (
    BETTER,
    FEWEST_BLOCKS,
    INCONCLUSIVE,
    NO_DIFFERENCE,
    RESAMPLES,
    WORSE,
    Blocks,
    Interval,
    drawn_counts,
    of_blocks,
    overlapping_windows,
    ratio_over_windows,
    verdict,
    widened,
)
from slurm_rl_plugin.units import DAY


@pytest.mark.parametrize(
    ("interval", "small", "word"),
    [
        ((-3.0, -1.0), 0.5, BETTER),
        ((1.0, 3.0), 0.5, WORSE),
        ((0.1, 3.0), 0.5, WORSE),  # beyond chance, and it may matter
        ((0.1, 0.4), 0.5, NO_DIFFERENCE),  # beyond chance, and does not matter
        ((-0.4, 0.5), 0.5, NO_DIFFERENCE),
        ((-0.4, 0.6), 0.5, INCONCLUSIVE),
        ((0.0, 0.0), 0.0, NO_DIFFERENCE),
        ((0.0, 2.0), 0.0, INCONCLUSIVE),
        (None, 0.5, INCONCLUSIVE),
        ((1.0, math.nan), 0.5, INCONCLUSIVE),
        ((1.0, math.inf), 0.5, INCONCLUSIVE),
    ],
)
def test_words(interval: Interval, small: float, word: str) -> None:
    assert verdict(interval, small) == word
    turned = {BETTER: WORSE, WORSE: BETTER}.get(word, word)
    assert verdict(interval, small, more_is_better=True) == turned


def test_blocks_are_drawn_whole() -> None:
    """Two jobs a block, one of 0 and one of 2: whatever is drawn has a mean of 1."""
    block = np.array([7, 9, 7, 9, 30, 30, 1, 1, 2, 2])
    values = np.array([0.0, 0.0, 2.0, 2.0, 0.0, 2.0, 0.0, 2.0, 0.0, 2.0])
    drawn = of_blocks(block, lambda jobs: float(values[jobs].mean()))
    assert drawn.tolist() == [1.0] * RESAMPLES


def test_of_four_blocks_nothing_is_drawn() -> None:
    block = np.arange(FEWEST_BLOCKS - 1)
    assert len(of_blocks(block, lambda jobs: float(len(jobs)))) == 0
    assert drawn_counts(FEWEST_BLOCKS - 1, np.random.default_rng(0)).shape == (0, 4)


def rng(seed=1):
    return np.random.default_rng(seed)


SOME = rng(5).lognormal(size=60)


def test_both_means_by_hand():
    ratio = ratio_over_windows(np.array([1.0, 8.0]), np.array([4.0, 2.0]), rng())
    assert ratio.mean == pytest.approx(9 / 6)
    assert ratio.geometric_mean == pytest.approx(1.0)


def test_the_same_seed_draws_the_same_windows_for_every_policy():
    other = rng(6).lognormal(size=60)
    one = ratio_over_windows(other, SOME, rng(), block=3)
    assert one == ratio_over_windows(other, SOME, rng(), block=3)
    thrice = ratio_over_windows(3 * other, SOME, rng(), block=3)
    assert np.array(thrice.ci95) == pytest.approx(3 * np.array(one.ci95))
    assert one.ci95 != ratio_over_windows(other, SOME, rng(2), block=3).ci95


def test_blocks_tell_that_repeated_windows_know_no_more():
    """Each of 30 values seen in 8 windows: single windows make believe there were 240."""
    values = np.repeat(rng(3).lognormal(size=30), 8)
    ones = np.ones(240)

    def width(block):
        low, high = ratio_over_windows(values, ones, rng(), block=block).ci95
        return np.log(high / low)

    alone = ratio_over_windows(values[::8], ones[::8], rng()).ci95
    assert width(1) < 0.5 * np.log(alone[1] / alone[0])
    assert width(16) == pytest.approx(np.log(alone[1] / alone[0]), rel=0.25)


def test_without_five_blocks_there_is_no_interval():
    assert ratio_over_windows(SOME, SOME, rng(), block=13).ci95 is None
    assert ratio_over_windows(SOME[:4], SOME[:4], rng()).ci95 is None
    assert ratio_over_windows(SOME, SOME, rng(), block=12).ci95 == (1.0, 1.0)


@pytest.mark.parametrize(
    ("numerators", "denominators"),
    [(np.zeros(3), np.ones(3)), (np.ones(3), np.array([1.0, np.nan, 1.0]))],
)
def test_what_has_no_ratio_is_refused(numerators, denominators):
    with pytest.raises(ConfigurationError):
        ratio_over_windows(numerators, denominators, rng())


@pytest.mark.parametrize(
    ("firsts", "jobs", "overlapping"),
    [
        ([0, 10, 20], 10, 1),
        ([0, 10, 20], 11, 2),
        ([0, 10, 20], 100, 3),
        ([0, 5, 15, 25, 30, 35], 10, 2),
        ([0, 5, 15, 25, 30, 34], 10, 3),
        ([7], 10, 1),
    ],
)
def test_windows_that_overlap_one_another(firsts, jobs, overlapping):
    assert overlapping_windows(firsts, jobs) == overlapping


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
