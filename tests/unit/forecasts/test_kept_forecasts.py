"""Forecasts outlive the process in their file, and those that are looked at stand for all."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.forecasts.forecast import LEVELS, Forecasts, Outcomes, quantiles_of
from slurm_rl_plugin.forecasts.live.forecast_queue import (
    JoinedForecasts,
    join,
    scores_document,
    worth,
)
from slurm_rl_plugin.forecasts.live.forecaster import coverage
from slurm_rl_plugin.forecasts.live.kept_forecasts import GivenRows, KeptForecasts
from slurm_rl_plugin.units import DAY, HOUR, FloatArray


def given(jobs: list[int], moment: float, start: float = np.nan) -> GivenRows:
    count = len(jobs)
    told = Forecasts(np.tile(np.linspace(60.0, 600.0, len(LEVELS)), (count, 1)))
    return GivenRows(
        job=np.array(jobs),
        moment=np.full(count, moment),
        partition=np.full(count, "batch"),
        user=np.full(count, "ann"),
        kind=np.zeros(count, dtype=np.int64),
        interactive=np.zeros(count, dtype=np.bool_),
        shown=np.ones(count, dtype=np.bool_),
        sources=np.tile([2.0, 3.0, np.nan], (count, 1)),
        plain=told,
        forecasts=told,
        start=np.full(count, start),
        gone=np.zeros(count, dtype=np.bool_),
        stands_for=np.ones(count),
    )


@pytest.fixture
def kept(tmp_path: Path) -> KeptForecasts:
    return KeptForecasts(tmp_path / "kept.sqlite")


def test_they_outlive_the_process(kept: KeptForecasts, tmp_path: Path) -> None:
    kept.keep(given([7, 8], 1000.0))
    assert kept.settle({7: 1100.0}, {8}) == 1
    kept.close()
    rows = KeptForecasts(tmp_path / "kept.sqlite").rows(0.0)
    assert rows.job.tolist() == [7, 8]
    assert rows.start.tolist()[0] == 1100.0
    assert rows.gone.tolist() == [False, True]
    np.testing.assert_allclose(rows.forecasts.seconds[0], np.linspace(60, 600, 7), rtol=1e-5)


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    treasure, path = tmp_path / "treasure", tmp_path / "kept.sqlite"
    treasure.touch()
    path.symlink_to(treasure)
    with pytest.raises(ConfigurationError, match="kept_file"):
        KeptForecasts(path)
    assert treasure.read_bytes() == b""


def test_a_start_before_the_forecast_is_of_another_life(kept: KeptForecasts) -> None:
    kept.keep(given([7], 1000.0))
    kept.settle({7: 900.0}, set())
    assert not kept.rows(0.0).known.any()


def test_a_long_queue_hides_none_that_has_come_true(kept: KeptForecasts) -> None:
    kept.keep(given([1, 2], 1000.0, start=1300.0))
    kept.keep(given(list(range(10, 40)), 2000.0))
    rows = kept.rows(0.0, most=5)
    assert rows.known.sum() == 2
    assert len(rows) == 7
    assert (np.diff(rows.moment) >= 0.0).all()


def test_of_a_busy_site_long_waits_have_their_share(kept: KeptForecasts) -> None:
    """The newest that came true would be short waits alone; what still waits is drawn as evenly."""
    rng, now, count, most = np.random.default_rng(1), 30 * DAY, 60_000, 2000
    moment = rng.uniform(0.0, now, count)
    wait = HOUR * rng.lognormal(0.0, 2.5, count)
    start = np.where(moment + wait <= now, moment + wait, np.nan)
    known = np.isfinite(start)
    everybody = given(list(range(1, count + 1)), 0.0)
    kept.keep(replace(everybody, moment=moment, start=start))
    rows = kept.rows(0.0, most=most)
    assert rows.known.sum() == most
    for longer in (10 * HOUR, DAY, 3 * DAY):
        share = float((wait[known] > longer).mean())
        found = float((rows.wait_by(now)[rows.known] > longer).mean())
        assert found == pytest.approx(share, abs=4.0 * np.sqrt(share / most))
    outcomes = Outcomes(
        place=np.log(rows.wait_by(now)),
        known=rows.known,
        weight=rows.counts,
        kind=rows.kind,
        user=rows.user,
    )
    told = quantiles_of(outcomes, outcomes.weight, np.array([0.5, 0.9, 0.95]))
    np.testing.assert_allclose(told, np.log(np.quantile(wait, [0.5, 0.9, 0.95])), atol=0.25)
    scores = scores_document(rows, now)
    assert scores["started"] == pytest.approx((known & (moment >= 2 * DAY)).sum(), rel=0.1)
    assert scores["given"] == pytest.approx((moment >= 2 * DAY).sum(), rel=0.1)


def test_the_same_forecasts_are_drawn_again(kept: KeptForecasts) -> None:
    """Bands must not move because others were drawn, but for what is new."""
    kept.keep(given(list(range(4000)), 1000.0, start=1300.0))
    before = set(kept.rows(0.0, most=400).job.tolist())
    kept.keep(given(list(range(4000, 4400)), 1600.0, start=1700.0))
    after = set(kept.rows(0.0, most=400).job.tolist())
    assert len(before & after) >= 320


def test_what_is_too_old_is_dropped(kept: KeptForecasts) -> None:
    kept.keep(given([1], 1000.0))
    kept.keep(given([2], 2000.0))
    kept.forget(1500.0)
    assert kept.rows(0.0).job.tolist() == [2]


def test_weights_follow_who_was_right(kept: KeptForecasts) -> None:
    """Waits of 1000 s: the second source said so, the first a tenth of it."""
    kept.keep(given(list(range(2000)), 1000.0, start=2000.0))
    weights = worth(kept.rows(0.0), 2000.0)
    assert weights[1] > 0.7
    assert weights.sum() == pytest.approx(1.0)


def _filled_by_one_user(rows_of_eve: int) -> GivenRows:
    """Honest forecasts of 300 jobs, and long waits of one user."""
    rng = np.random.default_rng(1)
    honest = given(list(range(300)), 0.0)
    moment = rng.uniform(0.0, DAY, 300)
    users = np.array([f"user{each}" for each in rng.integers(0, 30, 300)])
    start = moment + 600.0 * rng.lognormal(0.0, 1.0, 300)
    honest = replace(honest, moment=moment, user=users, start=start)
    count = 300 + rows_of_eve
    everybody = given(list(range(count)), DAY / 2.0)
    told = {}
    for name, fill in (("moment", 0.0), ("start", 3.0 * DAY), ("user", "eve")):
        told[name] = np.append(getattr(honest, name), np.full(rows_of_eve, fill))
    # the second source is right of long waits, and far off of the others
    drawn = np.column_stack([rng.normal(2.7, 0.3, 900), rng.normal(5.0, 0.3, 900)])
    sources = np.vstack([drawn[:300], np.tile(drawn[300:], (rows_of_eve // 600, 1))])
    return replace(everybody, **told, sources=np.column_stack([sources, sources[:, 0]]))


def _joined(rows: GivenRows) -> JoinedForecasts:
    """The forecast of one job after some rows."""
    one = given([1], 0.0).plain
    return join(one, None, np.full(1, np.nan), np.zeros(1, np.bool_), rows, 3.0 * DAY)


@pytest.mark.parametrize(
    "figure",
    [
        lambda rows: worth(rows, 3.0 * DAY),
        lambda rows: coverage(rows, 3.0 * DAY),
        lambda rows: _joined(rows).forecasts.seconds,
        lambda rows: _joined(rows).tails.levels,
    ],
)
def test_more_rows_of_one_user_move_no_figure_further(
    figure: Callable[[GivenRows], FloatArray],
) -> None:
    """However many there are, they count as much as all others together."""
    few, many = figure(_filled_by_one_user(600)), figure(_filled_by_one_user(6000))
    np.testing.assert_allclose(few, many, rtol=5e-3)


def test_another_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "kept.sqlite").write_bytes(b"something else entirely, and long enough" * 10)
    with pytest.raises(ConfigurationError, match="kept_file"):
        KeptForecasts(tmp_path / "kept.sqlite")
    assert (tmp_path / "kept.sqlite").read_bytes().startswith(b"something else")


@pytest.mark.parametrize(
    "ask",
    [
        lambda kept: kept.keep(given([8], 2000.0)),
        lambda kept: kept.settle({7: 1100.0}, set()),
        lambda kept: kept.forget(0.0),
        lambda kept: kept.rows(0.0),
        lambda kept: kept.open_jobs(),
        lambda kept: kept.unsettled(0.0),
    ],
)
def test_a_file_that_cannot_be_used_any_more_is_told_in_a_sentence(
    kept: KeptForecasts, tmp_path: Path, ask: Callable[[KeptForecasts], object]
) -> None:
    kept.keep(given([7], 1000.0))
    sqlite3.connect(tmp_path / "kept.sqlite").executescript("drop table given")
    with pytest.raises(ConfigurationError, match=r"kept_file .* cannot be used \(no such table"):
        ask(kept)
    with pytest.raises(ConfigurationError, match="cannot be used"):  # and the lock is free again
        ask(kept)


@pytest.mark.parametrize("value", [b"x", "text", np.full(len(LEVELS), np.nan, "<f4").tobytes()])
@pytest.mark.parametrize("column", ["plain", "forecast", "kind"])
def test_a_damaged_forecast_is_told_in_a_sentence_and_makes_no_band(
    kept: KeptForecasts, tmp_path: Path, column: str, value: object
) -> None:
    kept.keep(given([7], 1000.0, start=1100.0))
    with sqlite3.connect(tmp_path / "kept.sqlite") as file:
        file.execute(f"update given set {column} = ?", (value,))
    with pytest.raises(ConfigurationError, match=r"cannot be used \(a forecast in it is damaged\)"):
        kept.rows(0.0)
    with pytest.raises(ConfigurationError, match="a forecast in it is damaged"):
        kept.started_of("ann", 0.0, 5)
