"""Faded counts of interactive submissions: what a burst leaves behind."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain import StartedJobs
from slurm_rl_plugin.features.history.run_events import (
    ARRIVAL_MEMORY,
    FADING_TIMES,
    recent_arrivals,
)
from tests.reference.loads import arrived_by, random_workload, snapshot_of, table_of
from tests.reference.readable_simulator import Moment

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
