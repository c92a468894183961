"""When each of 10,000 pending jobs starts, foretold by replays of the queue.

The goal is one answer for the whole queue in 10 s on one core. Four weeks of jobs are drawn for the
nodes of UB-HPC, and then a campaign that comes within half a day, until so many wait; the queue is
replayed on these nodes and, by CPUs alone, on a pool of processors. Replays are drawn until the
time is up; how many that were is the figure.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.forecasts.live.sources import KEPT
from slurm_rl_plugin.forecasts.replays import OrderOf, QueueNow, ReplayedSite, queues_along
from slurm_rl_plugin.learning.evaluation.paired import starts_of_order
from slurm_rl_plugin.services.candidates import candidate_of
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.simulator.workloads.recorded_runs import RecordedPast
from slurm_rl_plugin.units import DAY, IntArray
from tests.bench.speed.nodes_speed import drawn_log, drawn_machine

PENDING, PAST = 10_000, 100_000
GOAL_SECONDS, MOST_DRAWS = 10.0, 64


def campaign(past: int, pending: int) -> JobLog:
    """A past with three quarters of the machine in use, and more jobs than shall wait at once."""
    rng = np.random.default_rng(2)
    log = drawn_log(past + 2 * pending)
    submit = 1.3 * log.submit
    last = submit[past - 1]
    submit[past:] = last + np.sort(rng.uniform(0.0, DAY / 2, len(submit) - past))
    return replace(log, submit=submit, eligible=submit)


def first_come(workload: Workload, _: IntArray) -> QueueOrder:
    """A static order."""
    return QueueOrder(scores=-workload.submit)


def default_model(workload: Workload, _: IntArray) -> QueueOrder:
    """The shipped network, which looks at all jobs anew at each decision."""
    return QueueOrder(network=candidate_of("default").network)


ORDERS: dict[str, OrderOf] = {"fifo": first_come, "default": default_model}


def site_and_queue(
    prepared: PreparedLog, order: OrderOf, backfilling: str, pending: int
) -> tuple[ReplayedSite, QueueNow]:
    """The site as it stands when so many jobs wait, after a past of first come, first served."""
    settings = SimulationSettings(
        capacity=prepared.capacity, backfilling=backfilling, half_life=7 * DAY
    )
    workload = prepared.workload(RequestedLimit())
    simple = replace(settings, backfilling="easy")
    fifo = first_come(workload, np.arange(0))
    start = starts_of_order(fifo, prepared, workload, simple)
    waiting = np.arange(1, len(start) + 1) - np.searchsorted(np.sort(start), workload.submit)
    job = int(np.argmax(waiting >= pending)) if (waiting >= pending).any() else len(start) - 1
    machine = None if prepared.machine is None else node_machine(prepared.log, prepared.machine)
    past = RecordedPast(replace(prepared, log=replace(prepared.log, start=start)), quantiles=True)
    now = float(workload.submit[job])
    past.run(now)
    queue = queues_along(workload, machine, fifo, simple)(job, now)
    site = ReplayedSite(
        jobs=workload._replace(past=past.past),
        quantiles=past.quantiles_now,
        order=order,
        settings=settings,
        machine=machine,
        kept=KEPT,
    )
    return site, queue


def renewed(site: ReplayedSite, queue: QueueNow, seconds: float) -> dict[str, float]:
    """All forecasts once, of as many replays as fit; after a first one that compiles."""
    site.starts(queue, queue.pending, 1, np.random.default_rng(1))
    begin, longest = time.process_time(), 0.0

    def goes_on(made: int) -> bool:
        nonlocal longest
        taken = time.process_time() - begin
        longest = max(longest, taken / made)
        return taken + longest < seconds

    drawn = site.starts(queue, queue.pending, MOST_DRAWS, np.random.default_rng(1), goes_on)
    return {
        "pending": float(len(queue.pending)),
        "running": float(len(queue.running)),
        "replays": float(drawn.shape[1]),
        "seconds": time.process_time() - begin,
        "last start, days": float((np.median(drawn, axis=1).max() - queue.now) / DAY),
    }


def replays() -> Iterator[tuple[str, dict[str, float]]]:
    """Machine, backfilling and order, and what `renewed` tells of them, in processor time."""
    log, capacity = campaign(PAST, PENDING), int(drawn_machine().capacity[0])
    for where, backfilling in (("processors", "easy"), ("nodes", "easy"), ("nodes", "slurm")):
        machine = drawn_machine() if where == "nodes" else None
        prepared = prepare_log(log, machine=machine, capacity=capacity)
        for name, order in ORDERS.items():
            site, queue = site_and_queue(prepared, order, backfilling, PENDING)
            yield f"{where}, {backfilling}, {name}", renewed(site, queue, GOAL_SECONDS)
