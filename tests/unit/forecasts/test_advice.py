"""What another request would bring is said only where it is sure, and where few are killed."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.forecasts.live.asked_queue import KILLED, Variant, advice_for, variants_of
from slurm_rl_plugin.units import DAY, HOUR, FloatArray
from tests.unit.forecasts.live_site import last_days, live_site

RUNS = np.linspace(0.5 * HOUR, 1.0 * HOUR, 1000)


def half_of(limit: float, processors: int = 16, run_times: FloatArray = RUNS) -> list[Variant]:
    found = variants_of(limit, processors, run_times)
    return [each for each in found if "processors" in each.asks]


def test_on_half_of_the_processors_a_job_runs_twice_as_long_within_its_limit() -> None:
    (kept,) = half_of(2.0 * HOUR)
    assert (kept.asks, kept.killed) == ({"processors": 8.0}, 0.0)
    assert kept.words == "8 processors instead of 16, its run time taken to double"
    assert [each.killed for each in half_of(np.nan)] == [0.0]


@pytest.mark.parametrize(("limit", "asked"), [(1.5, 2.0), (1.9, 2.0), (1.0, 2.0)])
def test_where_that_is_longer_than_its_limit_it_asks_for_a_longer_one(
    limit: float, asked: float
) -> None:
    (longer,) = half_of(limit * HOUR)
    assert longer.asks == {"processors": 8.0, "time_limit": asked * HOUR}
    assert longer.killed <= KILLED
    assert f" and a limit of {asked:g} h instead of {limit:g} h, its" in longer.words


def test_of_twice_its_limit_at_most_and_not_where_more_than_few_would_be_killed() -> None:
    assert half_of(0.9 * HOUR) == []  # a fifth of them reach it as they are
    (just,) = half_of(0.996 * HOUR)
    assert just.asks["time_limit"] == pytest.approx(2.0 * 0.996 * HOUR)
    assert 0.0 < just.killed <= KILLED


def test_half_of_an_odd_number_is_no_less_than_half() -> None:
    assert [each.asks for each in half_of(4 * HOUR, 3)] == [{"processors": 2.0}]
    assert half_of(4 * HOUR, 1) == []


@pytest.mark.parametrize(("sooner", "said"), [(5.0 * HOUR, True), (0.5 * HOUR, False)])
def test_fewer_processors_are_advised_where_the_job_ends_sooner(sooner: float, said: bool) -> None:
    """It runs up to an hour longer: half an hour at its start is none gained at its end."""
    site = live_site(days=6.0)
    now = float(last_days(site, 1.0, HOUR)[0])
    while len((queue := site.queue(now, now)).pending) == 0:
        now += HOUR
    jobs = queue.pending.jobs
    jobs.processors[0], jobs.time_limit[0] = 8, DAY

    def waits(other: QueueSnapshot) -> FloatArray:
        fewer = other.pending.jobs.processors[0] == 4
        return np.full(20, 6.0 * HOUR - sooner * fewer)

    advice = advice_for(queue, 0, RUNS, np.full(20, 6.0 * HOUR), waits)
    assert [each["asks"] for each in advice] == ([{"processors": 4.0}] if said else [])
