"""Each arrival and each end decided on by itself, where several fall on one instant.

The kernel lets all that happens at an instant happen before it decides. The simulator of the study
decides after each event, on which schedules of long logs depend: at one instant the arrivals come
first, in turn, then the ends, by start. What was planned to end at the instant counts as free from
its first event on.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.load_windows import class_known_at_submission
from slurm_rl_plugin.papers.backfilling_predictions_2015.plan import (
    EASY_SJBF,
    LAST_RUNS,
    PLUS_PLUS,
    TRUE,
    TWICE,
    Cell,
    Estimates,
    Plan,
    bring_plan_up_to_now,
    by_last_runs,
    by_requests,
    ends_as_planned,
    ends_in_time,
    head_shadow,
)
from slurm_rl_plugin.papers.study.logs import archived_log
from slurm_rl_plugin.simulator.kernel.cluster import (
    Cluster,
    account_usage_until,
    arrive,
    end_next_job,
    forget_started,
    next_event,
    start_job,
    swap_ends,
)
from slurm_rl_plugin.simulator.kernel.compilation import chosen_by_type, compiled
from slurm_rl_plugin.simulator.kernel.dispatch import anything_fits, best_first
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import OrderedQueue, score_queue
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, finished_schedule
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.utility.time_utility import bounded_slowdown


class BehindHead(NamedTuple):
    """First come, first served up to the head, and the shortest job first behind it.

    Attributes:
        seconds: assumed run time of each job, shape [n]; all equal for first come, first served.
        scores: space for a score of every job.
        jobs: space for their numbers.
    """

    seconds: FloatArray
    scores: FloatArray
    jobs: IntArray


def behind_head(seconds: FloatArray) -> BehindHead:
    """The order for some assumed run times, shape [n]; a plan's estimates may change in place."""
    jobs = len(seconds)
    return BehindHead(seconds, np.empty(jobs), np.empty(jobs, dtype=np.int64))


def starts_under(
    workload: Workload,
    capacity: int,
    queue: BehindHead | OrderedQueue,
    estimates: Estimates,
) -> FloatArray:
    """When each job starts under EASY backfilling, seconds, shape [n].

    Args:
        capacity: processors.
        queue: its order.

    Raises:
        SimulationError: a job wider than the machine, or one that never started.
    """
    cluster = SimulationSettings(capacity=capacity).empty_cluster(workload)
    _run_singly(workload, cluster, queue, estimates)
    return finished_schedule(cluster).start


@compiled
def _run_singly(
    workload: Workload, cluster: Cluster, queue: BehindHead | OrderedQueue, estimates: Estimates
) -> None:
    no_rank = np.empty(0, dtype=np.int64)
    while True:
        time = next_event(workload.jobs, cluster)
        if np.isinf(time):
            return
        account_usage_until(cluster, time)
        cluster.state[0].now = time
        arrival = cluster.state[0].next_arrival
        if arrival < len(workload.jobs) and workload.jobs[arrival].submit <= time:
            arrive(workload.jobs, cluster, no_rank)
        else:
            _end(workload, cluster, _first_ending(workload, cluster, estimates.plan, False))
        place = _first_ending(workload, cluster, estimates.plan, True)
        while place >= 0:
            _end(workload, cluster, place)
            place = _first_ending(workload, cluster, estimates.plan, True)
        if cluster.state[0].idle > 0 and anything_fits(workload.jobs, cluster):
            cluster.state[0].decisions += 1
            bring_plan_up_to_now(workload, cluster, estimates)
            _score(workload, cluster, queue)
            _start(workload, cluster, queue.scores, queue.jobs, estimates.plan)


@compiled
def _first_ending(workload: Workload, cluster: Cluster, plan: Plan, as_planned: bool) -> int:
    """Place in the heap of the job that started first of those that end now; -1 for none."""
    first, running = -1, cluster.state[0].running
    if running == 0 or cluster.running[0].end_time > cluster.state[0].now:
        return first
    for place in range(running):
        job = cluster.running[place].end_job
        if cluster.running[place].end_time > cluster.state[0].now:
            continue
        if as_planned and not ends_as_planned(workload, cluster, plan, job):
            continue
        best = cluster.running[first].end_job if first >= 0 else job
        if (cluster.start[job], job) <= (cluster.start[best], best):
            first = place
    return first


@compiled
def _end(workload: Workload, cluster: Cluster, place: int) -> None:
    """End the job at a place of the heap whose end is as early as that of the root."""
    swap_ends(cluster.running, 0, place)
    end_next_job(workload.jobs, cluster)


def _score_behind_head(workload: Workload, cluster: Cluster, queue: BehindHead) -> None:
    idle = cluster.state[0].idle
    for place in range(cluster.state[0].pending):
        job = cluster.pending[place]
        queue.jobs[place], queue.scores[place] = job, -queue.seconds[job]
        if idle >= 0:  # no head yet: these jobs keep the order of submission
            queue.scores[place] = np.inf
            idle -= workload.jobs[job].processors


@chosen_by_type("queue", {BehindHead: _score_behind_head})
def _score(workload: Workload, cluster: Cluster, queue: BehindHead | OrderedQueue) -> None:
    """Fill `queue.scores` and `queue.jobs` as they are now."""
    score_queue(workload, cluster, queue)


@compiled
def _start(
    workload: Workload, cluster: Cluster, scores: FloatArray, jobs: IntArray, plan: Plan
) -> None:
    """Start jobs by score up to the first that does not fit, and behind it as the plan allows."""
    head, looked, shadow, spare, started = -1, False, 0.0, 0, False
    for place in best_first(scores, cluster.state[0].pending):  # equal scores by submission
        job, wide = jobs[place], workload.jobs[jobs[place]].processors
        if wide > cluster.state[0].idle:
            head = job if head < 0 else head
            continue
        if head >= 0 and not looked:
            shadow, spare = head_shadow(workload, cluster, plan, head)
            looked = True
        if head >= 0 and not ends_in_time(workload, cluster, plan, job, head, shadow):
            if wide > spare:
                continue
            spare -= wide
        start_job(workload.jobs, cluster, job)
        started = True
    if started:
        forget_started(cluster)


class BenchmarkLog(NamedTuple):
    """Jobs that ran and asked for a time, ended at it; and the checksum of their file."""

    prepared: PreparedLog
    checksum: str

    @property
    def workload(self) -> Workload:
        """The jobs as their requests have them."""
        return self.prepared.workload(RequestedLimit())


class Flows(NamedTuple):
    """Figures of a schedule: mean bounded slowdown, longest flow and longest wait in seconds."""

    slowdown: float
    longest_flow: float
    longest_wait: float


def read_benchmark_log(folder: Path, name: str, most: int | None) -> BenchmarkLog:
    """A log of the Parallel Workloads Archive.

    Args:
        most: jobs to take; None for all.
    """
    path = archived_log(folder, name)
    log, report = read_log(path)
    asked = np.flatnonzero(np.isfinite(log.time_limit))[:most]
    if len(asked) == 0:
        raise ConfigurationError(
            f"{path} has no job that ran and asked for a time: copy the log again."
        )
    prepared = prepare_log(log.select(asked), kill_at_limit=True)
    return BenchmarkLog(class_known_at_submission(prepared), report.checksum)


def starts_of(cell: Cell, log: BenchmarkLog) -> FloatArray:
    """When each job starts in a cell, seconds, shape [n]."""
    workload = log.workload
    if cell.predictor == TWICE:
        workload = workload.having(estimate=2.0 * workload.estimate)
    if cell.predictor == TRUE:
        workload = workload.having(estimate=workload.run_time)
    estimates, assumed = by_requests(workload), workload.estimate
    if cell.predictor == LAST_RUNS:
        estimates = by_last_runs(workload, cell.correction)
        assumed = estimates.plan.seconds
    if cell.scheduler not in (PLUS_PLUS, EASY_SJBF):
        assumed = np.zeros_like(assumed)
    return starts_under(workload, log.prepared.capacity, behind_head(assumed), estimates)


def flows_of(log: BenchmarkLog, start: FloatArray) -> Flows:
    """The figures of a schedule, over all jobs."""
    jobs = log.prepared.log
    wait = start - jobs.submit
    return Flows(
        slowdown=float(bounded_slowdown(wait, jobs.run_time).mean()),
        longest_flow=float((wait + jobs.run_time).max()),
        longest_wait=float(wait.max()),
    )
