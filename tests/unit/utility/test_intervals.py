"""The four words for a difference, by its interval."""

from __future__ import annotations

import math

import pytest

from slurm_rl_plugin.utility.intervals import (
    BETTER,
    INCONCLUSIVE,
    NO_DIFFERENCE,
    WORSE,
    Interval,
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
