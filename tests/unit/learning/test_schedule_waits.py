"""Figures of one schedule, and days without jobs in intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.learning.evaluation.continuous import ContinuousRun, ratios_to
from slurm_rl_plugin.learning.evaluation.schedule_waits import (
    FIGURES,
    RATIOS,
    ScheduleWaits,
    median_ratios,
    waits_of,
)
from slurm_rl_plugin.utility.summary import ScheduledJobs


def schedule(waits: list[float], processors: list[int]) -> ScheduledJobs:
    """Jobs of 100 s, but for the last one of 1000 s; one each day."""
    jobs = len(waits)
    submit = 86400.0 * np.arange(jobs)
    return ScheduledJobs(
        submit=submit,
        start=submit + np.array(waits),
        run_time=np.array([100.0] * (jobs - 1) + [1000.0]),
        processors=np.array(processors),
        account=np.zeros(jobs, dtype=np.int64),
        interactive=np.zeros(jobs, dtype=np.bool_),
        shares=np.ones(1),
        capacity=16,
    )


def test_each_figure_is_of_the_counted_jobs() -> None:
    jobs = schedule([9999.0, 0.0, 100.0, 500.0, 1000.0], [1, 1, 1, 8, 1])
    found = waits_of(jobs, slice(1, 5))
    assert found.mean_wait == 400.0
    assert found.longest_wait == 1000.0
    assert found.wide_wait == 500.0  # of the one job that is wide
    assert found.p999_wait == pytest.approx(998.5)
    assert found.bounded_slowdown == (1.0 + 2.0 + 6.0 + 2.0) / 4
    assert found.short_within_120s == 2 / 3  # the job of 1000 s is not short
    assert found.fairness == 1.0
    chosen = np.array([False, True, True, True, True])
    assert waits_of(jobs, chosen) == found


def test_ratios_are_medians_of_pairs_and_none_where_nobody_waits() -> None:
    one = waits_of(schedule([0.0, 100.0, 400.0], [1, 1, 1]), slice(0, 3))
    twice = replace(one, mean_wait=2 * one.mean_wait)
    four = replace(one, mean_wait=4 * one.mean_wait)
    found = median_ratios([twice, one, four], [one, one, one])
    assert found == {**dict.fromkeys(RATIOS, 1.0), "mean_wait": 2.0}
    nobody = replace(one, mean_wait=0.0)
    assert median_ratios([one], [nobody])["mean_wait"] is None


WAITS = ScheduleWaits(**dict.fromkeys(FIGURES, 2.0))


def runs_with(sums: list[float], jobs: list[int]) -> list[ContinuousRun]:
    """Two runs with these sums of slowdowns, and so many jobs, on each day."""
    return [ContinuousRun(waits=WAITS, slowdowns=np.array([sums, jobs]))] * 2


def interval(jobs: list[int]) -> list[float] | None:
    mine, other = (runs_with([each * slowdown for each in jobs], jobs) for slowdown in (2.0, 4.0))
    ci95 = ratios_to({"mine": mine}, other, seed=1, together=1)["mine"]["ci95"]
    assert ci95 is None or isinstance(ci95, list)
    return ci95


@pytest.mark.parametrize("jobs", [[5, 0, 5, 5, 5, 0, 5], [5, 5, 5, 5, 5, 0, 0, 0, 0]])
def test_days_without_jobs_tell_nothing(jobs: list[int]) -> None:
    assert interval(jobs) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("jobs", [[5], [5, 5, 5, 5], [5, 0, 5, 0, 5, 5]])
def test_four_days_with_jobs_give_no_interval(jobs: list[int]) -> None:
    assert interval(jobs) is None
