"""What one more job changes for a site: its near future with the job and without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    NOW,
    PENDING,
    STARTED,
    Cluster,
    advance,
    next_event,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.compiled_features import fairness, paper_row, time_utility
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import OrderedQueue, decide_scored
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.simulator.sites.routed_sites import RoutedSite
from slurm_rl_plugin.units import FloatArray, IntArray


class Outcome(NamedTuple):
    """Sums over the jobs that started, and over those that still wait as if they started then.

    Attributes:
        time_utility: of eq. 1-3 (2008).
        fairness: of eq. 4 at each start.
    """

    time_utility: float
    fairness: float


@compiled
def _utility_of_start(workload: Workload, job: int, start: float) -> float:
    turnaround = start - workload.submit[job] + workload.run_time[job]
    row = paper_row(workload.interactive[job])
    return time_utility(turnaround, workload.run_time[job], row)


@compiled
def _sums_until(
    workload: Workload,
    cluster: Cluster,
    queue: OrderedQueue,
    until: float,
) -> tuple[float, float]:
    no_rank = np.empty(0, dtype=np.int64)
    useful, fair = 0.0, 0.0
    while True:
        event = next_event(workload, cluster)
        if event > until:
            break
        advance(workload, cluster, event, no_rank)
        before = cluster.counts[STARTED]
        decide_scored(workload, cluster, queue)
        started = cluster.counts[STARTED] - before
        if started > 0:
            fair += started * fairness(workload.shares, current_usage(cluster))
        for place in range(before, before + started):
            useful += _utility_of_start(workload, cluster.started[place], cluster.clock[NOW])
    advance(workload, cluster, until, no_rank)
    waiting = cluster.counts[PENDING]
    fair += waiting * fairness(workload.shares, current_usage(cluster))
    for place in range(waiting):
        useful += _utility_of_start(workload, cluster.pending[place], until)
    return useful, fair


def outcome(site: RoutedSite, jobs: IntArray, submit: FloatArray, until: float) -> Outcome:
    """What a site makes of its queue and of the jobs that come until then; it stays as it is.

    Args:
        site: as it is now.
        jobs: numbers of the offered jobs that come, shape [n].
        submit: when they come, ascending, not before now and not after `until`; shape [n].
        until: seconds, later than now.
    """
    return Outcome(*_sums_until(*site.fork(jobs, submit), until))


def added_job_gains(
    site: RoutedSite,
    added: Sequence[int],
    jobs: IntArray,
    submit: FloatArray,
    horizon: float,
) -> FloatArray:
    """What each of some jobs, coming now, adds to the sums of `outcome`; shape [added, 2].

    A difference reward (Wolpert and Tumer 2002): the job's own time utility and fairness, less
    what it takes from all others at the site, or plus what it gives them by mending the shares.

    Args:
        site: as it is now.
        added: numbers of offered jobs, each tried by itself.
        jobs: numbers of the offered jobs that come anyway, in order, shape [n].
        submit: when they come, seconds, shape [n].
        horizon: seconds that are looked ahead.
    """
    until = site.now + horizon
    coming = submit <= until
    jobs, submit = jobs[coming], submit[coming]
    without = np.array(outcome(site, jobs, submit, until))
    times = np.concatenate([[site.now], submit])
    found = [outcome(site, np.concatenate([[job], jobs]), times, until) for job in added]
    return np.array(found) - without
