"""What past waits teach: inputs, sources, and bands set by forecasts that came true."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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
    weights_by_worth,
)
from slurm_rl_plugin.forecasts.past_waits.sources import (
    FEWEST_MOMENTS,
    SOURCES,
    GivenForecasts,
    ask_sources,
    given_at,
    last_similar_log_waits,
    median_of_partition,
)
from slurm_rl_plugin.forecasts.past_waits.wait_forest import (
    MOST_ALIKE,
    SeenJobs,
    features_of,
    fit_forest,
    history_features,
    known_log_waits,
    training_rows,
)
from slurm_rl_plugin.papers.start_times_2023.jobs_file import read_jobs_file
from slurm_rl_plugin.units import DAY, HOUR
from tests.fakes.polled_jobs import polled_jobs, write_polled_jobs


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> SeenJobs:
    path: Path = tmp_path_factory.mktemp("polls") / "jobs.parquet"
    return read_jobs_file(write_polled_jobs(path, polled_jobs(10, 50, spread=0.2)))


def few_jobs() -> SeenJobs:
    """Three jobs of one account seen at day 0, one at day 1; one started in between, one later."""
    moment = np.array([0.0, 0.0, 0.0, DAY])
    ones = np.ones(4)
    return SeenJobs(
        moment=moment,
        submit=moment - HOUR,
        eligible=np.array([-HOUR, -HOUR, np.nan, DAY]),
        limit=HOUR * ones,
        cpus=ones,
        memory=ones,
        gpus=0 * ones,
        nodes=ones,
        priority=np.array([1.0, 3.0, 2.0, 1.0]),
        account=np.array([7, 7, 7, 7]),
        partition=np.array([1, 1, 2, 1]),
        start=np.array([100.0, DAY - 99.0, 2 * DAY, np.nan]),
        end=np.array([460.0, 3 * DAY, 3 * DAY, np.nan]),
    )


def test_history_by_hand() -> None:
    found = history_features(few_jobs())
    assert np.isnan(found["account: mean log wait"][:3]).all()
    waits = np.log10([100.0, DAY - 99.0, DAY])  # the third has waited a day by then
    assert found["account: mean log wait"][3] == pytest.approx(waits.mean())
    assert found["template: mean log wait"][3] == pytest.approx(waits[:2].mean())
    assert found["account: part that still waits"][3] == pytest.approx(1 / 3)
    assert found["account: starts of the last day"][3] == pytest.approx(np.log10(3.0))
    assert found["account: log time since a start"][3] == pytest.approx(2.0)
    assert found["account: mean log part of the limit used"][3] == pytest.approx(-1.0)


def test_request_queue_and_look_by_hand() -> None:
    table = features_of(few_jobs())
    column = {name: table.values[:, place] for place, name in enumerate(table.names)}
    assert column["held"].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert column["account: place"][:3] == pytest.approx(np.log10([3.0, 1.0, 2.0]))
    assert column["template: waiting"] == pytest.approx(np.log10([2.0, 2.0, 1.0, 1.0]), abs=1e-6)
    look = {
        "q_p_core_hours_above": np.array([90.0, 0, 0, 0]),
        "r_p_cores_above": np.array([10.0, 0, 0, np.inf]),
    }
    table = features_of(replace(few_jobs(), look=look))
    found = table.values[:, table.names.index("hours above over running, p_")]
    assert found[:2].tolist() == [1.0, 0.0]
    assert np.isfinite(table.values[:, table.names.index("r_p_cores_above")]).all()


def test_a_heavy_row_is_drawn_more_often() -> None:
    rng = np.random.default_rng(1)
    waits = np.repeat([1.0, 9.0], 100)
    features = rng.random((200, 1))
    weight = np.where(waits == 9.0, 9.0, 1.0)
    draws = fit_forest(features, waits, weight, rng).draws(features)
    assert (draws == 9.0).mean() == pytest.approx(0.9, abs=0.03)


def test_a_batch_gives_a_few_rows_and_a_wait_that_lasts_is_taken_as_twice_as_long(
    jobs: SeenJobs,
) -> None:
    batch = jobs.select(np.flatnonzero(jobs.moment == jobs.moment[0])[[0] * 100])
    moment = float(batch.moment[0]) + 400.0
    train, other = training_rows(batch, moment, 2, np.random.default_rng(0))
    assert set(train.rows) != set(other.rows)
    assert len(train.rows) == MOST_ALIKE
    assert train.weight.sum() == pytest.approx(10.0)
    waiting = replace(batch, start=np.full(100, moment + 1.0))
    assert known_log_waits(waiting, moment) == pytest.approx(np.log10(800.0))
    ended = replace(batch, start=batch.moment + 30.0)
    assert known_log_waits(ended, moment) == pytest.approx(np.log10(30.0))
    told_at_once = replace(waiting, told=waiting.moment)
    assert known_log_waits(told_at_once, moment) == pytest.approx(np.log10(401.0))


def test_one_user_has_at_most_half_of_what_a_model_is_fitted_to(jobs: SeenJobs) -> None:
    many = jobs.select(np.zeros(2000, dtype=np.int64))
    many = replace(many, cpus=np.arange(2000.0), user=np.where(np.arange(2000) < 1600, 7, 8))
    (train,) = training_rows(many, np.inf, 1, np.random.default_rng(0))
    of_one = train.weight[train.rows < 1600].sum()
    assert of_one == pytest.approx(train.weight.sum() / 2.0) == pytest.approx(400.0)


def test_the_last_job_alike_is_the_most_like_of_the_latest(jobs: SeenJobs) -> None:
    moment = float(np.unique(jobs.moment)[5])
    known = jobs.select(jobs.moment <= moment)
    log_wait = known_log_waits(known, moment)
    found = last_similar_log_waits(known, log_wait, moment)
    now, before = np.flatnonzero(known.moment == moment), known.moment < moment
    exact = 0
    for place, row in enumerate(now):
        alike = np.flatnonzero(before & (known.template == known.template[row]))
        if len(alike):
            last = alike[np.lexsort((known.submit[alike], known.moment[alike]))[-1]]
            assert found[place] == log_wait[last]
            exact += 1
    assert exact > 10
    assert np.isfinite(found).all()
    median = median_of_partition(known, log_wait, moment)
    here = before & (known.partition == known.partition[now[0]])
    assert median[0] == np.median(log_wait[here])


def test_weights_go_to_the_source_that_was_closest() -> None:
    rng = np.random.default_rng(2)
    truth = rng.normal(4.0, 0.7, 5000)
    good, poor = truth + 0.1 * rng.standard_normal(5000), truth + rng.standard_normal(5000)
    even = np.array([0.5, 0.5])
    found = weights_by_worth(np.stack([good, poor]), truth, np.ones(5000), even)
    assert found.sum() == pytest.approx(1.0)
    assert found[0] > 0.9
    alike = np.stack([truth + 0.5 * rng.standard_normal(5000) for _ in even])
    assert weights_by_worth(alike, truth, np.ones(5000), even) == pytest.approx(even, abs=0.05)


def test_no_weight_is_negative_and_without_a_past_the_first_ones_stay() -> None:
    rng = np.random.default_rng(3)
    truth = rng.normal(4.0, 0.7, 5000)
    noise = 0.3 * rng.standard_normal(5000)
    # the best sum would take the second away from the first
    sources = np.stack([truth + noise, truth + 3.0 * noise])
    assert weights_by_worth(sources, truth, np.ones(5000), np.array([0.5, 0.5])).tolist() == [1, 0]
    first = np.array([0.3, 0.7])
    assert weights_by_worth(np.zeros((2, 0)), np.zeros(0), np.zeros(0), first) == pytest.approx(
        first
    )


def all_given(jobs: SeenJobs, last: int) -> list[GivenForecasts]:
    table, given = features_of(jobs), []
    for place, moment in enumerate(np.unique(jobs.moment)[1 : last + 1]):
        asked = ask_sources(jobs, table, float(moment), np.random.default_rng(place))
        given.append(given_at(jobs, asked, given))
    return given


def test_what_happens_later_changes_no_forecast_that_was_given(jobs: SeenJobs) -> None:
    last = FEWEST_MOMENTS + 2
    moment = float(np.unique(jobs.moment)[last])
    later, rng = jobs.start > moment, np.random.default_rng(9)
    start = np.where(later, moment + rng.uniform(1.0, 1e6, len(jobs)), jobs.start)
    end = np.where(jobs.end > moment, start + 1e6, jobs.end)
    assert later.sum() > 50
    given, again = (all_given(each, last) for each in (jobs, replace(jobs, start=start, end=end)))
    assert given[0].sources.shape == (len(SOURCES), 50)
    for one, other in zip(given, again, strict=True):
        np.testing.assert_array_equal(one.forecasts.seconds, other.forecasts.seconds)
        np.testing.assert_array_equal(one.weights, other.weights)
        assert one.tails == other.tails


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
