"""Sources of forecasts: forest, boosted trees, the last job alike; and what each is worth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.forecasts.forecast import weights_by_worth
from slurm_rl_plugin.forecasts.past_waits.sources import (
    SOURCES,
    ask_sources,
    last_similar_log_waits,
    median_of_partition,
)
from slurm_rl_plugin.forecasts.past_waits.wait_forest import (
    MOST_ALIKE,
    SeenJobs,
    features_of,
    fit_forest,
    known_log_waits,
    training_rows,
)
from slurm_rl_plugin.papers.start_times_2023.jobs_file import read_jobs_file
from tests.fakes.polled_jobs import polled_jobs, write_polled_jobs


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> SeenJobs:
    path: Path = tmp_path_factory.mktemp("polls") / "jobs.parquet"
    return read_jobs_file(write_polled_jobs(path, polled_jobs(8, 80)))


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


def test_sources_give_a_wait_each_and_know_nothing_of_later(jobs: SeenJobs) -> None:
    moment = float(np.unique(jobs.moment)[5])
    found = ask_sources(jobs, features_of(jobs), moment, np.random.default_rng(0))
    assert found is not None
    assert found.log_wait.shape == (len(SOURCES), 80)
    later = jobs.start > moment
    changed = replace(
        jobs,
        start=np.where(later, jobs.start + 1e6, jobs.start),
        end=np.where(later, jobs.end + 1e6, jobs.end),
    )
    again = ask_sources(changed, features_of(changed), moment, np.random.default_rng(0))
    assert again is not None
    np.testing.assert_array_equal(found.log_wait, again.log_wait)
    np.testing.assert_array_equal(found.draws, again.draws)


def test_accounting_alone_is_enough(jobs: SeenJobs) -> None:
    bare = replace(jobs, look={}, priority=np.full(len(jobs), np.nan))
    moment = float(np.unique(jobs.moment)[5])
    found = ask_sources(bare, features_of(bare), moment, np.random.default_rng(0))
    assert found is not None
    truth = np.log10(jobs.wait[found.rows])
    spread = truth.std()
    assert np.sqrt(np.mean((found.log_wait[0] - truth) ** 2)) < spread


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
