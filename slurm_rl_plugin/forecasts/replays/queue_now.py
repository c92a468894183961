"""Who runs and who waits at one instant."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    Cluster,
    account_usage_until,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.machine_now import NodeMachine
from slurm_rl_plugin.simulator.schedules.on_nodes import NodeRun
from slurm_rl_plugin.simulator.schedules.ordered_queue import OrderedQueue, QueueOrder
from slurm_rl_plugin.simulator.schedules.resumed import HeldNodes, ProcessorRun, resume_on_nodes
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.network import CompiledNetwork
from slurm_rl_plugin.simulator.scoring.site_priority import FairShare
from slurm_rl_plugin.units import FloatArray, IntArray


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
    """A run at the instant of a queue, right behind a decision; see `run_before`."""
    run, runs = run_before(queue, workload, jobs, order, settings, machine, keeps_order=keeps_order)
    if isinstance(run, NodeRun):
        resume_on_nodes(run, queue.now, runs, queue.start, queue.held, queue.looks)
    else:
        run.resume(queue.now, runs, queue.start)
    return run


def run_before(
    queue: QueueNow,
    workload: Workload,
    jobs: IntArray,
    order: QueueOrder,
    settings: SimulationSettings,
    machine: NodeMachine | None,
    *,
    keeps_order: bool = False,
) -> tuple[ProcessorRun | NodeRun, IntArray]:
    """A run that has not begun, and the places of the running jobs in its workload.

    Args:
        queue: who runs and who waits; numbers of known jobs.
        workload: those jobs in order of submission, behind them who comes later.
        jobs: number of each job of the workload among the known ones, shape [n].
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
        run = NodeRun.of(workload, machine.of_jobs(jobs), order, settings, keeps_order=keeps_order)
    met_by(run, queue)
    return run, runs


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNow:
    """A queue at one instant; jobs are numbers among those that are known."""

    now: float  #: seconds
    running: IntArray  #: jobs that run, in the order of their starts, shape [r]
    start: FloatArray  #: when each of them started, seconds, shape [r]
    pending: IntArray  #: jobs that wait, ascending, shape [p]
    usage: FloatArray  #: what each account was charged until now, decayed, shape [accounts]
    #: The same of each association of the site's tree, as its own priority counts usage; None where
    #: nothing is known.
    fair: FairShare | None = None
    #: The longest wait known lately, and when, seconds (`CompiledNetwork.longest`); None where
    #: nothing is known.
    longest: FloatArray | None = None
    #: Which nodes the running jobs hold; None where that is known of none.
    held: HeldNodes | None = None
    #: When slurmctld looked at its queue, as `SlurmPasses.last`; None where not known.
    looks: FloatArray | None = None


def queue_of(
    workload: Workload, cluster: Cluster, queue: OrderedQueue, job: int, submit: float
) -> QueueNow:
    """The queue that a job of a simulation meets as it is submitted, itself the last of it.

    Who came in the same second, but before it, waits as it does.

    Args:
        cluster: as it stands right before.
    """
    running = cluster.running.expected_job[: cluster.state[0].running]
    # of jobs that are expected to end together it keeps who was started first
    running = running[np.argsort(cluster.start[running], kind="stable")]
    pending = np.sort(cluster.pending[: cluster.state[0].pending])
    return QueueNow(
        now=submit,
        running=running,
        start=cluster.start[running],
        pending=np.append(pending, np.arange(cluster.state[0].next_arrival, job + 1)),
        usage=_usage_at(cluster, submit),
        fair=queue.effects.site.counted(workload, cluster, submit),
        longest=_longest_of(queue),
    )


def queue_on_nodes(run: NodeRun, job: int, submit: float) -> QueueNow:
    """The same of a simulation on nodes, with the nodes that the running jobs hold."""
    met = queue_of(run.workload, run.cluster, run.queue, job, submit)
    places = [run.place_of(number) for number in met.running.tolist()]
    held = HeldNodes(
        first=np.cumsum([0, *map(len, places)]),
        node=np.array([node for place in places for node in place], dtype=np.int64),
        cpus=np.array([cpus for place in places for cpus in place.values()]),
    )
    looks = None if run.passes is None else run.passes.last.copy()
    return replace(met, held=held, looks=looks)


def met_by(run: ProcessorRun | NodeRun, queue: QueueNow) -> None:
    """Give a run that has not begun what was charged and waited before it.

    Args:
        run: changed in place.
    """
    run.cluster.accounts.usage[: len(queue.usage)] = queue.usage
    if queue.fair is not None:
        run.queue.effects.site.fair.resume(queue.fair)
    network = run.queue.network
    if isinstance(network, CompiledNetwork):
        network.history.since[0] = queue.now
    known = _longest_of(run.queue)
    if queue.longest is not None and known is not None:
        run.queue.network.longest[:] = queue.longest


def _longest_of(queue: OrderedQueue) -> FloatArray | None:
    """The longest wait that the network of a queue knows; None where none looks at it."""
    network = queue.network
    if isinstance(network, CompiledNetwork) and len(network.longest):
        return network.longest.copy()
    return None


def _usage_at(cluster: Cluster, time: float) -> FloatArray:
    """What each account has been charged by then, decayed; the cluster is left as it is."""
    columns = ("usage_time", "accounts")
    seen = cluster._replace(**{name: getattr(cluster, name).copy() for name in columns})
    account_usage_until(seen, time)
    usage: FloatArray = seen.accounts.usage
    return usage
