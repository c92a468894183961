"""Who runs and who waits at one instant."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import NEXT_ARRIVAL, PENDING, RUNNING, Cluster
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import OrderedQueue
from slurm_rl_plugin.simulator.scoring.protection import ProtectedQueue, UnprotectedQueue
from slurm_rl_plugin.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNow:
    """A queue at one instant; jobs are numbers among those that are known.

    Attributes:
        now: seconds.
        running: jobs that run, in the order of their starts, shape [r].
        start: when each of them started, seconds, shape [r].
        pending: jobs that wait, ascending, shape [p].
        usage: what each account was charged until now, decayed, shape [accounts].
        protection: who was overtaken until now; for all known jobs.
    """

    now: float
    running: IntArray
    start: FloatArray
    pending: IntArray
    usage: FloatArray
    protection: ProtectedQueue | UnprotectedQueue = field(default_factory=UnprotectedQueue)


def queue_of(
    workload: Workload, cluster: Cluster, queue: OrderedQueue, job: int, submit: float
) -> QueueNow:
    """The queue that a job of a simulation meets as it is submitted, itself the last of it.

    Who came in the same second, but before it, waits as it does.

    Args:
        workload: all jobs.
        cluster: as it stands right before.
        queue: the same.
        job: its number.
        submit: seconds.
    """
    running = cluster.expected_job[: cluster.counts[RUNNING]]
    running = running[np.lexsort((running, cluster.start[running]))]
    pending = np.sort(cluster.pending[: cluster.counts[PENDING]])
    return QueueNow(
        now=submit,
        running=running,
        start=cluster.start[running],
        pending=np.append(pending, np.arange(cluster.counts[NEXT_ARRIVAL], job + 1)),
        usage=cluster.account_usage.copy(),
        protection=queue.protection.counted(workload, cluster),
    )
