"""Forecasts at submission along a schedule of a log, as somebody on site could have made them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.forecasts.replays.queue_now import QueueNow, queue_of, queue_on_nodes
from slurm_rl_plugin.forecasts.replays.replayed_site import OrderOf, ReplayedSite
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.machine_now import NodeMachine
from slurm_rl_plugin.simulator.schedules.on_nodes import NodeRun
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.resumed import ProcessorRun
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.simulator.workloads.recorded_runs import RecordedPast
from slurm_rl_plugin.units import FloatArray, IntArray

#: The part of the time since now for which a replay keeps an order; see `ReplayedSite`.
_KEPT = 0.02


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
        prepared: the log; on nodes where it names a machine.
        start: of all jobs in the schedule that is foretold, seconds, shape [n].
        order: of the queue, the same that made the schedule.
        jobs: numbers, ascending, shape [m].
        draws: replays for each.
        seed: of the draws; those of a job are the same whichever others are foretold.
        progress: called with how many jobs are done.
    """
    scheduled = replace(prepared, log=replace(prepared.log, start=start))
    workload = scheduled.workload(RequestedLimit())
    recorded = RecordedPast(scheduled, quantiles=True)
    machine = None if prepared.machine is None else node_machine(prepared.log, prepared.machine)
    site = ReplayedSite(
        jobs=workload._replace(past=recorded.past),
        quantiles=recorded.quantiles_now,
        order=order,
        settings=settings,
        machine=machine,
        kept=_KEPT,
    )
    met_by = queues_along(workload, machine, order(workload, np.arange(len(start))), settings)
    drawn, planned = np.empty((len(jobs), draws)), np.empty(len(jobs))
    submit = workload.submit[jobs]
    for place, number in enumerate(jobs.tolist()):
        now, awaited = float(submit[place]), jobs[place : place + 1]
        recorded.run(now)
        queue = met_by(number, now)
        rng = np.random.default_rng([seed, number])
        planned[place] = site.planned(queue, awaited)[0] - now
        drawn[place] = site.starts(queue, awaited, draws, rng)[0] - now
        if progress is not None:
            progress(place + 1)
    return ReplayedWaits(jobs=jobs, wait=start[jobs] - submit, drawn=drawn, planned=planned)


def queues_along(
    workload: Workload, machine: NodeMachine | None, order: QueueOrder, settings: SimulationSettings
) -> Callable[[int, float], QueueNow]:
    """What tells the queue that a job meets as it is submitted, of jobs in order of submission."""
    if machine is not None:
        run = NodeRun.of(workload, machine, order, settings)

        def on_nodes(job: int, now: float) -> QueueNow:
            run.run_until(float(np.nextafter(now, -np.inf)))
            return queue_on_nodes(run, job, now)

        return on_nodes
    pool = ProcessorRun.of(workload, order, settings)

    def on_processors(job: int, now: float) -> QueueNow:
        pool.run_until(float(np.nextafter(now, -np.inf)))
        return queue_of(workload, pool.cluster, pool.queue, job, now)

    return on_processors
