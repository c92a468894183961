"""Evidence that a model's gain is gone, and weeks that are played again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain.switchback import OURS, SITE, TurnBlock
from slurm_rl_plugin.papers.switchback.held_in_turns import alike, preferring_short
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.units import DAY, IntArray
from slurm_rl_plugin.what_if.drift.evidence import BOUND, FEWEST, drift_finding
from slurm_rl_plugin.what_if.drift.weekly_costs import WEEK, WeeklyCosts, weekly_costs
from slurm_rl_plugin.what_if.switchback.costs import JobTimes
from slurm_rl_plugin.what_if.switchback.live_cluster import PastUntil
from slurm_rl_plugin.what_if.switchback.replayed_blocks import ReplayedCluster


def weeks(gains: list[float], queue: float = 10.0) -> WeeklyCosts:
    site = np.full(len(gains), queue)
    return WeeklyCosts(
        begin=WEEK * np.arange(len(gains), dtype=np.float64),
        by_site=site,
        by_ours=site * np.exp(gains),
    )


REFERENCE = weeks([-0.9 + 0.02 * place for place in range(20)])


def test_a_lost_gain_is_told_within_weeks() -> None:
    found = drift_finding(REFERENCE, weeks([-0.1] * 12))
    assert found.lost_at is not None
    assert 3 <= found.lost_at <= 8
    assert found.lately == pytest.approx(np.exp(-0.1))
    assert found.promised == pytest.approx(
        np.exp(REFERENCE.by_ours / 10.0 * 0 - 0.7).mean(), rel=0.1
    )


def test_weeks_as_they_were_give_no_evidence_for_years() -> None:
    rng = np.random.default_rng(1)
    told = 0
    for _ in range(200):
        drawn = rng.normal(-0.7, 0.4, 25 + 52)
        found = drift_finding(weeks(list(drawn[:25])), weeks(list(drawn[25:])))
        told += found.lost_at is not None
    assert told / 200 < 0.5  # one warning in two years at most


def test_weeks_without_a_queue_tell_nothing() -> None:
    found = drift_finding(REFERENCE, weeks([0.0] * 30, queue=0.5))
    assert found.lost_at is None
    assert np.isnan(found.lately)
    assert not found.evidence.any()


def test_of_too_few_weeks_nothing_is_said() -> None:
    few = weeks([-0.7] * (FEWEST - 1))
    assert drift_finding(few, weeks([0.5] * 50)).lost_at is None
    assert drift_finding(WeeklyCosts.none(), weeks([0.5] * 50)).evidence.max() < BOUND


def test_replays_of_weeks_tell_which_order_costs_less() -> None:
    days = 14
    same = alike(1, days).replayed(alike(1, days).starts(()))
    same.orders[OURS] = same.orders[SITE]
    found = weekly_costs(same, 14 * DAY, 2)
    assert found.by_site == pytest.approx(found.by_ours)
    short = preferring_short(1, days, 2.0)
    done: list[int] = []
    better = weekly_costs(
        short.replayed(short.starts(())), 14 * DAY, 2, at_once=2, progress=done.append
    )
    assert better.by_ours.sum() < better.by_site.sum()
    assert list(better.begin) == [14 * DAY, 21 * DAY]
    assert done == [2]


def test_a_replay_knows_of_no_run_that_ended_later() -> None:
    prepared = prepare_log(generated_log("egee:jobs=300,seed=3"))
    start = prepared.log.submit + 60.0
    log = replace(prepared, log=replace(prepared.log, start=start))
    past = PastUntil(prepared=log)
    half, end = float(start[150]), float(start[-1]) + DAY
    early, late = past.until(half), past.until(end)
    again = past.until(half)  # back in time: all is gone through anew
    for name in early._fields:
        assert np.array_equal(getattr(early, name), getattr(again, name), equal_nan=True)
    assert early.template_known.sum() < late.template_known.sum()
    job = prepared.workload(None)
    cluster = ReplayedCluster(
        times=JobTimes(jobs=job, start=start, capacity=prepared.capacity),
        orders={SITE: known_templates_first, OURS: known_templates_first},
        settings=SimulationSettings(capacity=prepared.capacity, backfilling="easy"),
        past=past.until,
    )
    SEEN.clear()
    block = TurnBlock(begin=half, end=half + DAY, arm=SITE, pair=0)
    cluster.played(block, SITE)
    assert [int(early.template_known.sum())] == SEEN


#: How many templates were known to each order that was asked for.
SEEN: list[int] = []


def known_templates_first(workload: Workload, jobs: IntArray) -> QueueOrder:
    """First come, first served; notes what is known."""
    del jobs
    SEEN.append(int(workload.past.template_known.sum()))
    return QueueOrder(scores=-workload.submit)
