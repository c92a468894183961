"""A forecast as quantiles, several as one, and scores against figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.forecasts.forecast import (
    HORIZONS,
    LEVELS,
    Forecasts,
    horizon_of,
    pooled,
    scores_by,
    scores_of,
)
from tests.case_files import rows


def of(*seconds: float) -> Forecasts:
    return Forecasts(np.array([seconds]))


DECADES = of(10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7)


def test_median_and_bands_are_the_quantiles_of_their_levels() -> None:
    assert DECADES.median.tolist() == [1e4]
    assert [end.tolist() for end in DECADES.band(0.5)] == [[1e3], [1e5]]
    assert [end.tolist() for end in DECADES.band(0.9)] == [[10.0], [1e7]]


@rows("questions", "chances", "seconds chance")
def test_chances_run_straight_in_log_wait(seconds: float, chance: float) -> None:
    assert DECADES.chance_within(seconds)[0] == pytest.approx(chance)


def test_a_pool_of_sources_that_differ_holds_what_each_of_them_says() -> None:
    hour, day = of(*[3600.0] * len(LEVELS)), of(*[86400.0] * len(LEVELS))
    even = pooled([hour, day], np.array([1.0, 1.0])).seconds[0]
    assert even[:3] == pytest.approx([3600.0] * 3)
    assert even[4:] == pytest.approx([86400.0] * 3)
    assert pooled([hour, day], np.array([3.0, 0.0])).seconds[0] == pytest.approx(hour.seconds[0])


def test_figures_by_hand() -> None:
    forecasts = Forecasts(np.array([[10.0, 20, 50, 100, 200, 500, 1000]] * 2))
    found = scores_of(forecasts, np.array([199.0, 10001.0]))
    assert found.square_error == pytest.approx((np.log10(1.99) ** 2 + np.log10(100.01) ** 2) / 2)
    assert (found.within_2, found.within_3) == (0.5, 0.5)
    assert (found.coverage_50, found.coverage_90) == (0.5, 0.5)
    assert found.width_90 == pytest.approx(2.0)
    alone = scores_of(of(*[100.0] * len(LEVELS)), np.array([1000.0]))
    assert alone.pinball == pytest.approx(np.mean(LEVELS))  # a decade too short
    alone = scores_of(of(10.0, *[1000.0] * (len(LEVELS) - 1)), np.array([100.0]))
    assert alone.pinball == pytest.approx((LEVELS[0] + sum(1 - np.array(LEVELS[1:]))) / 7)
    assert found.as_json()["jobs"] == 2


def test_scores_by_class_and_horizon() -> None:
    seconds = np.array([60.0, 601.0, 3601.0, 90000.0])
    forecasts = Forecasts(np.repeat(seconds[:, None], len(LEVELS), axis=1))
    assert horizon_of(forecasts).tolist() == [0, 1, 2, 3]
    assert len(HORIZONS) == 4
    by = scores_by(np.array([0, 0, 1, 1]), forecasts, seconds * np.array([1.0, 1.0, 10.0, 10.0]))
    assert by["0"].square_error == 0.0
    assert by["1"].square_error == pytest.approx(1.0)
    assert by["1"].coverage_90 == 0.0
