"""Names of features, run-time estimates, and recent arrivals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain import StartedJobs
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import ClassMedian, RequestedLimit
from slurm_rl_plugin.features.history.run_events import (
    ARRIVAL_MEMORY,
    FADING_TIMES,
    recent_arrivals,
)
from slurm_rl_plugin.features.site import SITE
from tests.reference.loads import arrived_by, random_workload, snapshot_of, table_of
from tests.reference.readable_simulator import Moment


def test_the_site_schema_is_the_released_one():
    # If this fails, features have changed: raise SITE.version, retrain, then write the new digest.
    assert SITE.version == 5
    assert SITE.digest == "880c91c623604e9954de8e8f710e3a8a5f62af043fa2905c56d6dc964dabe32e"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"version": 99},
        {"queue": SITE.queue[::-1]},
        {"queue": SITE.queue[1:]},
        {"dynamic_jobs": SITE.dynamic_jobs[::-1]},
        {"history_jobs": SITE.history_jobs[::-1]},
        {"queue": SITE.queue[:-1], "static_jobs": (SITE.queue[-1], *SITE.static_jobs)},
    ],
    ids=["name", "version", "order", "fewer", "job order", "history order", "moved"],
)
def test_any_change_of_the_schema_changes_the_digest(change):
    assert replace(SITE, **change).digest != SITE.digest


INTERACTIVE = np.array([True, True, False, False, False])
RUN = np.array([10.0, 30.0, 1000.0, 5000.0, 2000.0])


def test_class_median_is_the_median_run_time_of_the_jobs_class():
    estimate = ClassMedian.of(RUN, INTERACTIVE)
    assert (estimate.interactive_median, estimate.batch_median) == (20.0, 2000.0)
    limits = np.full(3, 7.0)
    assert estimate.estimate(limits, np.array([True, False, True])).tolist() == [20, 2000, 20]


@pytest.mark.parametrize("everybody", [True, False])
def test_a_class_without_jobs_takes_the_median_of_all(everybody):
    estimate = ClassMedian.of(RUN, np.full(5, everybody))
    assert estimate.interactive_median == estimate.batch_median == 1000.0


def test_medians_of_no_jobs_are_refused():
    with pytest.raises(ConfigurationError, match="at least one job"):
        ClassMedian.of(np.empty(0), np.empty(0, dtype=bool))


def test_requested_limit_is_the_limit_and_an_hour_where_none_is_known():
    limits = np.array([60.0, np.nan, 0.0, -1.0, np.inf, 7200.0])
    estimate = RequestedLimit().estimate(limits, np.zeros(6, dtype=bool))
    assert estimate.tolist() == [60.0, 3600.0, 3600.0, 3600.0, 3600.0, 7200.0]


LOAD = random_workload(3, jobs=40, parallel=False)
NAN = float("nan")


def moment(now, first=0):
    waiting = [job for job in range(first, 40) if LOAD.submit[job] <= now]
    return Moment(now, waiting, [], [NAN] * 40)


def test_in_steps_as_in_one_go():
    times = np.quantile(LOAD.submit, [0.2, 0.5, 0.7, 1.0])
    memory = None
    for now in times:
        memory = recent_arrivals(snapshot_of(LOAD, moment(now), 4), memory)
        assert memory.shape == (ARRIVAL_MEMORY,)
        assert memory[0] == now
        np.testing.assert_allclose(memory[1:], arrived_by(LOAD, now), rtol=1e-12)
    assert memory[1] < memory[2] < memory[3]  # the longer it is remembered, the more


def test_without_arrivals_the_counts_fade():
    now = LOAD.submit[-1]
    before = recent_arrivals(snapshot_of(LOAD, moment(now), 4))
    later = recent_arrivals(snapshot_of(LOAD, moment(now + 600.0), 4), before)
    np.testing.assert_allclose(later[1:] / before[1:], np.exp(-600.0 / np.array(FADING_TIMES)))


def test_jobs_that_run_or_have_started_count_once():
    now = LOAD.submit[-1]
    waiting = snapshot_of(LOAD, moment(now), 4)
    begun = Moment(now, list(range(20, 40)), list(range(20)), [now] * 20 + [NAN] * 20)
    started = StartedJobs(jobs=table_of(LOAD).select(np.arange(20)), start=np.full(20, now))
    seen = replace(snapshot_of(LOAD, begun, 40), started=started)
    np.testing.assert_allclose(recent_arrivals(seen), recent_arrivals(waiting), rtol=1e-12)


def test_a_clock_set_back_counts_nothing_twice():
    now = LOAD.submit[-1]
    before = recent_arrivals(snapshot_of(LOAD, moment(now), 4))
    after = recent_arrivals(snapshot_of(LOAD, moment(now - 50.0), 4), before)
    assert after[1:] == pytest.approx(before[1:])
