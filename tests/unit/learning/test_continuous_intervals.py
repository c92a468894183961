"""Intervals of a continuous replay by days, of which some have no job."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.learning.evaluation.continuous import ContinuousRun, ratios_to
from slurm_rl_plugin.learning.evaluation.schedule_waits import FIGURES, ScheduleWaits

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
