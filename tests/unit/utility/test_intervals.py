"""The four words for a difference, by its interval; and draws of whole blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slurm_rl_plugin.measure.intervals import (
    BETTER,
    FEWEST_BLOCKS,
    INCONCLUSIVE,
    NO_DIFFERENCE,
    RESAMPLES,
    WORSE,
    Interval,
    drawn_counts,
    of_blocks,
    verdict,
)


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


def test_each_draw_has_as_many_blocks_as_there_are() -> None:
    drawn = drawn_counts(6, np.random.default_rng(0))
    assert drawn.shape == (RESAMPLES, 6)
    assert set(drawn.sum(axis=1)) == {6.0}
