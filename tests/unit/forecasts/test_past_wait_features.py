"""Inputs of the model of waits: nothing of later is in them, and they are what they are called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.forecasts.past_waits.wait_forest import SeenJobs, features_of, history_features
from slurm_rl_plugin.papers.start_times_2023.jobs_file import read_jobs_file
from slurm_rl_plugin.units import DAY, HOUR
from tests.fakes.polled_jobs import polled_jobs, write_polled_jobs


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> SeenJobs:
    path: Path = tmp_path_factory.mktemp("polls") / "jobs.parquet"
    return read_jobs_file(write_polled_jobs(path, polled_jobs(6)))


def test_what_happens_after_a_look_changes_no_input_of_it(jobs: SeenJobs) -> None:
    moment = np.unique(jobs.moment)[3]
    later = jobs.start > moment
    assert later.sum() > 100
    rng = np.random.default_rng(1)
    changed = replace(
        jobs,
        start=np.where(later, moment + rng.uniform(1, 1e6, len(jobs)), jobs.start),
        end=np.where(jobs.end > moment, moment + rng.uniform(2e6, 3e6, len(jobs)), jobs.end),
    )
    seen = jobs.moment <= moment
    before, after = features_of(jobs), features_of(changed)
    assert before.names == after.names
    np.testing.assert_array_equal(before.values[seen], after.values[seen])
    assert not np.array_equal(before.values[~seen], after.values[~seen], equal_nan=True)


def test_what_is_known_at_a_moment_has_no_later_start(jobs: SeenJobs) -> None:
    moment = np.unique(jobs.moment)[3] + 2000.0
    known = jobs.as_known_at(moment)
    assert len(known) == (jobs.moment < moment).sum()
    assert not (known.start > moment).any()
    assert np.isnan(known.start).sum() == (jobs.start[jobs.moment < moment] > moment).sum() > 0
    assert not (known.end > moment).any()


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


def test_one_look_alone_has_no_history_and_no_harm() -> None:
    jobs = few_jobs().select(np.array([0, 1, 2]))
    assert history_features(jobs) == {}
    assert len(features_of(jobs).values) == 3
