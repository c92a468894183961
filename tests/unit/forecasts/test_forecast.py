"""A forecast as quantiles: bands, chances between the quantiles and beyond them, several as one."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.forecasts.forecast import LEVELS, Forecasts, band_places, pooled


def of(*seconds: float) -> Forecasts:
    return Forecasts(np.array([seconds]))


DECADES = of(10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7)


def test_median_and_bands_are_the_quantiles_of_their_levels() -> None:
    assert DECADES.median.tolist() == [1e4]
    assert [end.tolist() for end in DECADES.band(0.5)] == [[1e3], [1e5]]
    assert [end.tolist() for end in DECADES.band(0.9)] == [[10.0], [1e7]]
    with pytest.raises(ValueError, match=r"a band of 0.7 has no levels"):
        band_places(0.7)


@pytest.mark.parametrize(
    ("seconds", "chance"),
    [
        *zip((10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7), LEVELS, strict=True),
        (10**3.5, 0.375),  # halfway in log wait
        (10**0.5, 0.025),  # half a decade below the 5 %, at the slope from 5 to 10 %
        (1.0, 0.0),
        (0.0, 0.0),
        (1e9, 1.0),
    ],
)
def test_chances_run_straight_in_log_wait(seconds: float, chance: float) -> None:
    assert DECADES.chance_within(seconds)[0] == pytest.approx(chance)


def test_a_wait_that_is_certain_has_no_width() -> None:
    certain = of(*[60.0] * len(LEVELS))
    assert certain.chance_within(59.0)[0] == 0.0
    assert certain.chance_within(61.0)[0] == 1.0


def test_draws_give_their_quantiles() -> None:
    draws = np.random.default_rng(0).lognormal(8.0, 1.0, (2, 40000))
    found = Forecasts.of_draws(draws)
    assert found.median == pytest.approx(np.exp(8.0), rel=0.05)
    assert found.chance_within(np.exp(9.0)) == pytest.approx(0.841, abs=0.02)


def test_quantiles_that_cross_or_are_too_few_are_refused_or_put_in_order() -> None:
    with pytest.raises(ValueError, match="must be finite numbers that rise"):
        of(2.0, 1.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    with pytest.raises(ValueError, match=r"\[jobs, 7\]"):
        Forecasts(np.ones((3, 2)))
    logs = np.array([[2.0, 1.0, 3.0, 4.0, 5.0, 6.0, 7.0]])
    assert Forecasts.of_logs(logs).logs.tolist() == [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]]


def test_a_pool_of_sources_that_differ_holds_what_each_of_them_says() -> None:
    hour, day = of(*[3600.0] * len(LEVELS)), of(*[86400.0] * len(LEVELS))
    even = pooled([hour, day], np.array([1.0, 1.0])).seconds[0]
    assert even[:3] == pytest.approx([3600.0] * 3)
    assert even[4:] == pytest.approx([86400.0] * 3)
    assert pooled([hour, day], np.array([3.0, 0.0])).seconds[0] == pytest.approx(hour.seconds[0])
