"""Hours that groups waited in replays and in blocks of an experiment, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain.job_groups import WIDTHS
from slurm_rl_plugin.domain.switchback import OURS, SITE, TurnBlock
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.evaluation.group_waits import groupings_of, groupings_of_workload
from slurm_rl_plugin.learning.evaluation.paired import schedule_of
from slurm_rl_plugin.measure.intervals import BETTER, INCONCLUSIVE, NO_DIFFERENCE, WORSE
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import egee_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import DAY, HOUR, FloatArray
from slurm_rl_plugin.what_if.group_hours import HoursWaited, hours_in_blocks, hours_in_replays
from slurm_rl_plugin.what_if.switchback.block_costs import JobTimes
from tests.reference.loads import workload_of
from tests.unit.what_if.test_switchback_blocks import declared

PROCESSORS = 16


@pytest.fixture(scope="module")
def prepared() -> PreparedLog:
    jobs = egee_log(np.random.default_rng(1), jobs=4000, processors=PROCESSORS, load=0.9)
    return prepare_log(jobs, capacity=PROCESSORS)


def in_replays(prepared: PreparedLog, before: FloatArray, after: FloatArray) -> HoursWaited:
    settings = SimulationSettings(capacity=prepared.capacity)
    both = [schedule_of(prepared, prepared.log.submit + each, settings) for each in (before, after)]
    counted = slice(0, len(prepared.log))
    return hours_in_replays(prepared, both[0], both[1], counted, np.random.default_rng(2))


def test_who_waits_longer_in_replays_loses(prepared: PreparedLog) -> None:
    rng = np.random.default_rng(3)
    before = rng.exponential(3 * HOUR, len(prepared.log))
    account = groupings_of(prepared)["account"]
    after = np.where(account.place == 0, 2.0, 0.5) * before
    hours = in_replays(prepared, before, after)
    by_account = {row.group: row for row in hours.grouped("account")}
    loser = by_account.pop(account.names[0])
    assert hours.each
    assert hours.has_intervals
    assert loser.word == WORSE
    assert loser.ratio == pytest.approx(2.0)
    assert loser.longest_after == pytest.approx(2.0 * loser.longest_before)
    assert {row.word for row in by_account.values()} == {BETTER}
    assert [row.group for row in hours.judged(WORSE) if row.by == "account"] == [account.names[0]]
    assert hours.everybody.before == pytest.approx(before.mean() / HOUR)
    assert hours.everybody.jobs == len(prepared.log)
    jobs = [row.jobs for row in hours.grouped("account")]
    assert jobs == sorted(jobs, reverse=True)


def test_the_same_waits_are_no_difference(prepared: PreparedLog) -> None:
    waits = np.full(len(prepared.log), HOUR)
    hours = in_replays(prepared, waits, waits)
    assert {row.word for row in hours.groups} == {NO_DIFFERENCE}
    assert hours.judged(WORSE) == []


def test_groups_of_a_workload_are_those_of_its_log(prepared: PreparedLog) -> None:
    jobs = prepared.workload(None)
    found = groupings_of_workload(jobs, prepared.capacity, prepared.accounts)
    of_log = groupings_of(prepared)
    assert (found["account"].place == jobs.account).all()  # in the names of its shares
    for by in ("class", "width"):
        assert found[by].names == of_log[by].names
        assert (found[by].place == of_log[by].place).all(), by
    asked = np.tile([0.1, 0.0], (len(jobs.submit), 1))
    asked[0] = 0.1, 0.2
    names = ("cpus", "memory")
    found = groupings_of_workload(replace(jobs, asked=asked), 16, prepared.accounts, names)
    assert found["resource"].place[:2].tolist() == [1, 0]


def test_hours_belong_to_the_order_that_was_in_force() -> None:
    """Two days of a block each: jobs wait across the border, 23 h of each block are counted."""
    blocks = (
        TurnBlock(begin=0.0, end=DAY, arm=SITE, pair=0),
        TurnBlock(begin=DAY, end=2 * DAY, arm=OURS, pair=0),
    )
    jobs = workload_of(
        np.full(20, 20 * HOUR),
        np.full(20, HOUR),
        processors=np.repeat([1, 8], 10),
        account=np.arange(20) % 2,
        shares=[0.5, 0.5],
    )
    times = JobTimes(
        jobs=jobs,
        start=np.array([23 * HOUR] * 10 + [30 * HOUR] * 9 + [np.nan]),
        capacity=16,
    )
    rng = np.random.default_rng(1)
    with pytest.raises(ConfigurationError, match="no pair"):
        hours_in_blocks(declared(blocks), times, None, ("a", "b"), rng, now=DAY)
    hours = hours_in_blocks(declared(blocks), times, None, ("a", "b"), rng, now=2 * DAY)
    rows = {row.group: row for row in hours.grouped("width")}
    narrow, wide = rows[WIDTHS[0]], rows[WIDTHS[3]]
    assert not hours.each
    assert (narrow.jobs, wide.jobs, hours.everybody.jobs) == (10, 10, 20)
    assert narrow.before == pytest.approx(10 * 3 / 23)
    assert narrow.after == 0.0
    assert wide.before == pytest.approx(10 * 4 / 23)
    # nine wait from the end of the wash-out at 25 h until 30 h, one does to the end
    assert wide.after == pytest.approx((9 * 5 + 23) / 23)
    assert (wide.longest_before, wide.longest_after) == (4.0, 28.0)
    assert not hours.has_intervals
    assert {row.word for row in hours.groups} == {INCONCLUSIVE}  # two days have no interval
