"""Clusters drawn of the weeks of a log, and when a gain counts as lost."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.papers.drift.log_weeks import IN_FRONT, LogWeeks
from slurm_rl_plugin.papers.drift.losses import (
    LOST_OVER,
    WatchRecord,
    gain,
    gains_lately,
    lost_at,
    warnings_in,
)
from slurm_rl_plugin.papers.drift.watched_run import WatchedRun
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.what_if.drift.weekly_costs import WEEK, WeeklyCosts


def log_of(weeks: float) -> PreparedLog:
    made = generated_log("mmn:jobs=3000,processors=20,seed=3")
    made.submit[:] *= weeks * WEEK / float(made.submit[-1])
    return prepare_log(made, capacity=20)


def run_of(gains: list[float]) -> WatchedRun:
    """Weeks of such gains, which the watch sees as they are."""
    site = np.full(len(gains), 100.0)
    ours: FloatArray = site * np.exp(gains)
    begin = WEEK * np.arange(len(gains), dtype=np.float64)
    seen = WeeklyCosts(begin=begin, by_site=site, by_ours=ours)
    return WatchedRun(seen=seen, by_site=site, by_ours=ours)


REFERENCE = run_of([-0.9 + 0.02 * place for place in range(20)])
WEEKS = LogWeeks.of(log_of(60.0))


def test_a_week_is_drawn_of_those_near_it() -> None:
    own = np.arange(WEEKS.count)
    drawn = np.array([WEEKS.changing(seed) for seed in range(200)])
    assert set(np.unique(drawn - own)) == {-2, -1, 0, 1, 2}
    assert drawn.min() == 0
    assert drawn.max() == WEEKS.count - 1
    inner = (drawn - own)[:, 2:-2]
    assert np.bincount(inner.ravel() + 2) / inner.size == pytest.approx(0.2, abs=0.02)
    assert (WEEKS.changing(7) == WEEKS.changing(7)).all()
    assert (WEEKS.changing(7) != WEEKS.changing(8)).any()


def test_where_nothing_changes_each_week_is_one_of_the_reference() -> None:
    drawn = WEEKS.alike(1, 5000)
    assert set(np.unique(drawn)) == set(range(WEEKS.first, 0))
    assert float(WEEKS.log.log.submit[0]) <= WEEKS.week(WEEKS.first) - (IN_FRONT - 1) * WEEK


def test_jobs_of_a_week_come_at_their_time_of_the_week() -> None:
    weeks = np.array([3, 3, 0, -2])
    cluster = WEEKS.cluster(weeks)
    submit = cluster.log.submit
    assert (np.diff(submit) >= 0.0).all()
    place = np.floor((submit - WEEKS.begin) / WEEK).astype(np.int64)
    real = WEEKS.log.log
    for at, week in enumerate([*range(-IN_FRONT, 0), *weeks.tolist()], start=-IN_FRONT):
        jobs, drawn = WEEKS.jobs[week], place == at
        moved = submit[drawn] - real.submit[jobs]
        assert moved == pytest.approx((at - week) * WEEK)
        assert (cluster.log.run_time[drawn] == real.run_time[jobs]).all()
    assert (cluster.log.eligible == submit).all()


def test_of_a_short_log_nothing_is_drawn() -> None:
    with pytest.raises(ConfigurationError, match="more than 4 are needed"):
        LogWeeks.of(log_of(9.0))


def test_half_of_a_gain_is_lost_when_the_last_weeks_say_so() -> None:
    run = run_of([-0.7] * 40 + [0.0] * 40)
    assert gain(run_of([-0.7] * 9)) == pytest.approx(-0.7)
    assert np.isnan(gains_lately(run, LOST_OVER)[: LOST_OVER - 1]).all()
    assert lost_at(run, -0.7) == 40 + 10  # of the last 26 weeks 11 cost twice as much
    assert lost_at(run_of([-0.7] * 80), -0.7) is None
    assert lost_at(run_of([0.0] * 10), -0.7) is None
    assert lost_at(run, 0.1) is None  # nothing had been gained
    assert lost_at(run, -0.7, 8) == 40 + 3


def test_a_watch_begins_anew_after_its_warning() -> None:
    found = warnings_in(REFERENCE.seen, run_of([0.0] * 20).seen)
    assert len(found) >= 2
    assert found == [found[0] + each * (found[0] + 1) for each in range(len(found))]
    record = WatchRecord.of(REFERENCE, run_of([-0.72] * 10 + [0.0] * 40))
    assert record.warned is not None
    assert record.warned <= 18
    assert record.in_time
    assert not record.warned_by(9)
    assert record.a_year == pytest.approx(len(record.warnings) / 50 * 52.18, rel=0.001)


def test_a_run_is_the_same_from_its_file() -> None:
    again = WatchedRun.of_json(REFERENCE.as_json())
    assert (again.by_ours == REFERENCE.by_ours).all()
    assert (again.seen.begin == REFERENCE.seen.begin).all()
