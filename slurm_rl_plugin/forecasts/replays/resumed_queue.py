"""A queue as it stands, ready to be played forward on processors or on nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurm_rl_plugin.forecasts.replays.queue_now import QueueNow, met_by
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.node_machine import NodeMachine
from slurm_rl_plugin.simulator.schedules.on_nodes import NodeRun
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.resumed import ProcessorRun
from slurm_rl_plugin.simulator.schedules.resumed_on_nodes import resume_on_nodes
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.units import IntArray


def resumed_queue(
    queue: QueueNow,
    workload: Workload,
    jobs: IntArray,
    order: QueueOrder,
    settings: SimulationSettings,
    machine: NodeMachine | None,
    *,
    keeps_order: bool = False,
) -> ProcessorRun | NodeRun:
    """A run at the instant of a queue, right behind a decision.

    Args:
        queue: who runs and who waits; numbers of known jobs.
        workload: those jobs in order of submission, behind them who comes later.
        jobs: number of each job of the workload among the known ones, shape [n].
        order: of the queue, for the workload.
        settings: the batch system; a machine that holds less than what runs is made as large: some
            may run on what was taken off it since.
        machine: its nodes, for all known jobs; None for a pool of processors.
        keeps_order: see `ProcessorRun.of`.
    """
    present = jobs[: len(queue.running) + len(queue.pending)]
    runs = np.searchsorted(present, queue.running)
    held = int(workload.processors[runs].sum())
    settings = replace(settings, capacity=max(settings.capacity, held))
    run: ProcessorRun | NodeRun
    if machine is None:
        run = ProcessorRun.of(workload, order, settings, keeps_order=keeps_order)
    else:
        nodes = machine.of_jobs(jobs)
        run = NodeRun.of(workload, nodes, order, settings, keeps_order=keeps_order)
    met_by(run, queue)
    if isinstance(run, NodeRun):
        resume_on_nodes(run, queue.now, runs, queue.start, queue.held, queue.looks)
    else:
        run.resume(queue.now, runs, queue.start)
    return run
