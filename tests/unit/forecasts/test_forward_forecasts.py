"""Forecasts moment after moment: what is given at one rests on nothing that happens after it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.forecasts.past_waits.sources import (
    FEWEST_MOMENTS,
    GivenForecasts,
    ask_sources,
    given_at,
)
from slurm_rl_plugin.forecasts.past_waits.wait_forest import SeenJobs, features_of
from slurm_rl_plugin.papers.start_times_2023.jobs_file import read_jobs_file
from tests.fakes.polled_jobs import polled_jobs, write_polled_jobs

SPREAD = 0.2


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> SeenJobs:
    path: Path = tmp_path_factory.mktemp("polls") / "jobs.parquet"
    return read_jobs_file(write_polled_jobs(path, polled_jobs(10, 50, spread=SPREAD)))


def all_given(jobs: SeenJobs, last: int) -> list[GivenForecasts]:
    table, given = features_of(jobs), []
    for place, moment in enumerate(np.unique(jobs.moment)[1 : last + 1]):
        asked = ask_sources(jobs, table, float(moment), np.random.default_rng(place))
        assert asked is not None
        given.append(given_at(jobs, asked, given))
    return given


@pytest.fixture(scope="module")
def given(jobs: SeenJobs) -> list[GivenForecasts]:
    return all_given(jobs, 9)


def test_what_happens_later_changes_no_forecast_that_was_given(
    jobs: SeenJobs, given: list[GivenForecasts]
) -> None:
    last = FEWEST_MOMENTS + 2
    moment = float(np.unique(jobs.moment)[last])
    later, rng = jobs.start > moment, np.random.default_rng(9)
    start = np.where(later, moment + rng.uniform(1.0, 1e6, len(jobs)), jobs.start)
    end = np.where(jobs.end > moment, start + 1e6, jobs.end)
    again = all_given(replace(jobs, start=start, end=end), last)
    assert later.sum() > 50
    for one, other in zip(given, again, strict=False):
        np.testing.assert_array_equal(one.forecasts.seconds, other.forecasts.seconds)
        np.testing.assert_array_equal(one.weights, other.weights)
        assert one.tails == other.tails


def test_bands_are_set_once_a_few_moments_have_been_seen(given: list[GivenForecasts]) -> None:
    set_at = [each.forecasts is not each.plain for each in given]
    assert set_at == [place >= FEWEST_MOMENTS for place in range(len(given))]
