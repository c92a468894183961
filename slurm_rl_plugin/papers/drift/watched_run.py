"""A cluster that runs under a model all the time: what its watch sees, and what is true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.domain.switchback import OURS, SITE
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.forecasts.replays.replayed_site import OrderOf
from slurm_rl_plugin.learning.evaluation.paired import starts_of_order
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.utility.responsiveness import bounded_slowdown
from slurm_rl_plugin.what_if.drift.weekly_costs import WEEK, WeeklyCosts, weekly_costs
from slurm_rl_plugin.what_if.switchback.costs import JobTimes
from slurm_rl_plugin.what_if.switchback.live_cluster import PastUntil
from slurm_rl_plugin.what_if.switchback.replayed_blocks import ReplayedCluster

#: Weeks that one replay counts.
AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRun:
    """Consecutive weeks, shape [n] each.

    Attributes:
        seen: what the watch sees, by replays.
        by_site: bounded slowdown less 1 of the jobs that came in a week, all added up, had the
            site's own order been in force all the time.
        by_ours: the same under the model.
    """

    seen: WeeklyCosts
    by_site: FloatArray
    by_ours: FloatArray

    def __len__(self) -> int:
        return len(self.by_site)

    def as_json(self) -> dict[str, list[float]]:
        """For a file."""
        seen = self.seen
        columns = (seen.begin, seen.by_site, seen.by_ours, self.by_site, self.by_ours)
        return dict(zip(_COLUMNS, (each.tolist() for each in columns), strict=True))

    @classmethod
    def of_json(cls, kept: Mapping[str, Sequence[float]]) -> WatchedRun:
        """Of a file."""
        begin, seen_site, seen_ours, site, ours = (
            np.array(kept[column], dtype=np.float64) for column in _COLUMNS
        )
        seen = WeeklyCosts(begin=begin, by_site=seen_site, by_ours=seen_ours)
        return cls(seen=seen, by_site=site, by_ours=ours)


_COLUMNS = ("begin", "seen_site", "seen_ours", "site", "ours")


def watched_run(log: PreparedLog, network: QNetwork, begin: float, weeks: int) -> WatchedRun:
    """Run a log under first come, first served, and under a model, with EASY backfilling.

    Args:
        log: its jobs.
        network: the model.
        begin: of the first week that counts, seconds.
        weeks: that count.
    """
    workload = log.workload(RequestedLimit())
    settings = SimulationSettings(capacity=log.capacity, backfilling="easy")
    orders = _orders(network)
    everybody = np.arange(len(log.log))
    by, starts = {}, {}
    for arm, order in orders.items():
        starts[arm] = starts_of_order(order(workload, everybody), log, workload, settings)
        by[arm] = _by_week(log, starts[arm], begin, weeks)
    cluster = ReplayedCluster(
        times=JobTimes(jobs=workload, start=starts[OURS], capacity=log.capacity),
        orders=orders,
        settings=settings,
        past=PastUntil(prepared=replace(log, log=replace(log.log, start=starts[OURS]))).until,
    )
    seen = weekly_costs(cluster, begin, weeks, at_once=AT_ONCE)
    return WatchedRun(seen=seen, by_site=by[SITE], by_ours=by[OURS])


def _orders(network: QNetwork) -> dict[str, OrderOf]:
    def first_come(workload: Workload, jobs: IntArray) -> QueueOrder:  # noqa: ARG001
        return QueueOrder(scores=-workload.submit)

    def learned(workload: Workload, jobs: IntArray) -> QueueOrder:  # noqa: ARG001
        return QueueOrder(network=network)

    return {SITE: first_come, OURS: learned}


def _by_week(log: PreparedLog, start: FloatArray, begin: float, weeks: int) -> FloatArray:
    """Bounded slowdown less 1, added up over the jobs that came in each week, shape [weeks]."""
    jobs = log.log
    more = bounded_slowdown(start - jobs.submit, jobs.run_time) - 1.0
    week = np.floor((jobs.submit - begin) / WEEK).astype(np.int64)
    counts = (week >= 0) & (week < weeks)
    return np.bincount(week[counts], more[counts], weeks).astype(np.float64)
