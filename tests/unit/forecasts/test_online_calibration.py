"""Bands that follow what came true: too narrow, too wide, of two kinds, with waits that last."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from slurm_rl_plugin.forecasts.forecast import (
    LEVELS,
    Forecasts,
    Outcomes,
    Tails,
    calibrated,
    places_of,
    quantiles_of,
    scores_of,
)

N = 20000
TRUE_SPREAD = 0.5
NORMAL = stats.norm.ppf(LEVELS)


def forecasts_of(spread: float, rng: np.random.Generator) -> tuple[Forecasts, np.ndarray]:
    """Forecasts with some spread, of log waits whose spread is TRUE_SPREAD."""
    middle = rng.normal(4.0, 0.5, N)
    told = Forecasts.of_logs(middle[:, None] + spread * NORMAL)
    return told, middle + TRUE_SPREAD * rng.standard_normal(N)


def outcomes_of(forecasts: Forecasts, log_wait: np.ndarray, kind: np.ndarray) -> Outcomes:
    known = np.ones(len(log_wait), dtype=bool)
    return Outcomes(places_of(forecasts, log_wait), known, np.ones(len(log_wait)), kind)


@pytest.mark.parametrize("spread", [0.15, 0.5, 1.5])
def test_bands_that_are_too_narrow_or_too_wide_come_to_what_they_say(spread: float) -> None:
    rng = np.random.default_rng(0)
    kind = np.zeros(N, dtype=np.int64)
    past = outcomes_of(*forecasts_of(spread, rng), kind)
    told, log_wait = forecasts_of(spread, rng)
    found = scores_of(calibrated(told, kind, past, Tails()), 10.0**log_wait)
    assert found.coverage_90 == pytest.approx(0.9, abs=0.01)
    assert found.coverage_50 == pytest.approx(0.5, abs=0.015)
    assert found.width_90 == pytest.approx(2 * stats.norm.ppf(0.95) * TRUE_SPREAD, rel=0.05)


def test_the_median_stays() -> None:
    rng = np.random.default_rng(1)
    kind = np.zeros(N, dtype=np.int64)
    told, log_wait = forecasts_of(0.2, rng)
    found = calibrated(told, kind, outcomes_of(told, log_wait, kind), Tails())
    assert found.median == pytest.approx(told.median)


def test_each_kind_has_its_own_bands() -> None:
    rng = np.random.default_rng(2)
    kind = rng.integers(0, 2, N)
    told, _ = forecasts_of(0.5, rng)
    spread = np.where(kind == 0, 0.2, 1.5)
    log_wait = np.log10(told.median) + spread * rng.standard_normal(N)
    found = calibrated(told, kind, outcomes_of(told, log_wait, kind), Tails())
    width = np.log10(found.band(0.9)[1] / found.band(0.9)[0])
    true = 2 * stats.norm.ppf(0.95)
    assert width[kind == 0].mean() == pytest.approx(0.2 * true, rel=0.2)
    assert width[kind == 1].mean() == pytest.approx(1.5 * true, rel=0.1)
    seldom = np.where(np.arange(N) < 3, 2, kind)  # a kind that was seen three times
    few = calibrated(told, seldom, outcomes_of(told, log_wait, seldom), Tails())
    borrowed = np.log10(few.band(0.9)[1] / few.band(0.9)[0])[0]
    assert 0.2 * true < borrowed < 1.5 * true


def test_waits_that_still_last_do_not_shorten_the_band() -> None:
    rng = np.random.default_rng(3)
    place = rng.exponential(1.0, N)
    limit = rng.uniform(0.5, 4.0, N)  # how far each has got when one looks
    known = place <= limit
    seen = Outcomes(np.where(known, place, limit), known, np.ones(N), np.zeros(N, dtype=np.int64))
    levels = np.array([0.5, 0.9])
    assert quantiles_of(seen, seen.weight, levels) == pytest.approx(-np.log(1 - levels), rel=0.04)
    alone = quantiles_of(Outcomes(*(each[known] for each in seen[:4])), seen.weight[known], levels)
    assert alone[1] < 0.9 * -np.log(0.1)


def test_tails_follow_what_was_missed() -> None:
    tails = Tails()
    for _ in range(20):
        tails = tails.after(missed_below=0.0, missed_above=0.3)
    assert tails.below > 0.05 > tails.above
    assert tails.above == 0.005  # not further: a band needs an end
    assert Tails().levels == pytest.approx(LEVELS)
    assert tails.levels[-1] > LEVELS[-1]
    assert tails.levels[3] == 0.5
    assert (np.diff(tails.levels) > 0.0).all()


def test_forecasts_stay_where_nothing_is_known() -> None:
    told, log_wait = forecasts_of(0.5, np.random.default_rng(4))
    kind = np.zeros(N, dtype=np.int64)
    nothing = outcomes_of(told, log_wait, kind)._replace(known=np.zeros(N, dtype=bool))
    assert calibrated(told, kind, nothing, Tails()) is told
