"""What another request would bring is said only where it is sure, and where few are killed."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.forecasts.live.advice import KILLED, Variant, advice_for, variants_of
from slurm_rl_plugin.units import DAY, HOUR, FloatArray
from tests.unit.forecasts.live_site import last_days, live_site

RUNS = np.linspace(0.5 * HOUR, 1.0 * HOUR, 1000)


def half_of(limit: float, processors: int = 16, run_times: FloatArray = RUNS) -> list[Variant]:
    found = variants_of(limit, processors, run_times)
    return [each for each in found if "processors" in each.asks]


def test_on_half_of_the_processors_a_job_runs_twice_as_long_into_its_limit() -> None:
    (kept,) = half_of(2.0 * HOUR)
    assert kept.killed == 0.0
    assert "8 processors instead of 16, its run time taken to double" in kept.words
    (nearly,) = half_of(1.996 * HOUR)
    assert 0.0 < nearly.killed <= KILLED
    assert half_of(1.5 * HOUR) == []
    assert half_of(1.0 * HOUR) == []  # all fit as they are, half of them on half
    assert [each.killed for each in half_of(np.nan)] == [0.0]


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
