"""Forecasts at submission along a schedule of a log, as somebody on site could have made them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.forecasts.replays.queue_now import queue_of
from slurm_rl_plugin.forecasts.replays.replayed_site import OrderOf, ReplayedSite
from slurm_rl_plugin.simulator.schedules.ordered_queue import run_until
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.simulator.workloads.recorded_runs import RecordedPast
from slurm_rl_plugin.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedWaits:
    """What replays foretold of some jobs as they were submitted, and what became of them.

    Attributes:
        jobs: numbers in the log, ascending, shape [m].
        wait: seconds, shape [m].
        drawn: waits of replays, seconds, shape [m, draws].
        planned: wait by the plan of limits, seconds, shape [m].
    """

    jobs: IntArray
    wait: FloatArray
    drawn: FloatArray
    planned: FloatArray


def replayed_waits(
    prepared: PreparedLog,
    start: FloatArray,
    spread: FloatArray,
    order: OrderOf,
    settings: SimulationSettings,
    jobs: IntArray,
    *,
    draws: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> ReplayedWaits:
    """Foretell the waits of some jobs of a log, each with what was known as it was submitted.

    Args:
        prepared: the log.
        start: of all jobs in the schedule that is foretold, seconds, shape [n].
        spread: weights of the predicted quantiles of run times.
        order: of the queue, the same that made the schedule.
        settings: the batch system.
        jobs: numbers, ascending, shape [m].
        draws: replays for each.
        seed: of the draws; those of a job are the same whichever others are foretold.
        progress: called with how many jobs are done.
    """
    scheduled = replace(prepared, log=replace(prepared.log, start=start))
    workload = scheduled.workload(RequestedLimit())
    recorded = RecordedPast(scheduled, spread)
    site = ReplayedSite(
        jobs=workload._replace(past=recorded.past),
        quantiles=recorded.quantiles_now,
        order=order,
        settings=settings,
    )
    cluster = settings.empty_cluster(workload)
    ordered = settings.ordered_queue(workload, order(workload, np.arange(len(start))))
    drawn, planned = np.empty((len(jobs), draws)), np.empty(len(jobs))
    submit = workload.submit[jobs]
    for place, number in enumerate(jobs.tolist()):
        now, awaited = float(submit[place]), jobs[place : place + 1]
        recorded.run(now)
        run_until(workload, cluster, ordered, np.nextafter(now, -np.inf))
        queue = queue_of(workload, cluster, ordered, number, now)
        rng = np.random.default_rng([seed, number])
        planned[place] = site.planned(queue, awaited)[0] - now
        drawn[place] = site.starts(queue, awaited, draws, rng)[0] - now
        if progress is not None:
            progress(place + 1)
    return ReplayedWaits(jobs=jobs, wait=start[jobs] - submit, drawn=drawn, planned=planned)
