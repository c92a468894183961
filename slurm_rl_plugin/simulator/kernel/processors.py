"""How many idle processors a job needs to start."""

from __future__ import annotations

from slurm_rl_plugin.simulator.kernel.cluster import LIMITED, RUNNING_INTERACTIVE, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload


@compiled_borrowing
def processors_needed(workload: Workload, cluster: Cluster, job: int, reserve: int) -> int:
    """Idle processors at which a job may start: its own, and for a batch job the reserve.

    Where processors are kept free, a batch job so wide that the reserve cannot stay free beside it
    needs the whole machine. Where the batch class is limited to the capacity less the reserve,
    interactive jobs run within the reserve: only what they leave of it must be idle, and a job
    wider than the limit needs more than there is.
    """
    processors = workload.processors[job]
    if workload.interactive[job]:
        return processors
    if cluster.limit[LIMITED] > 0.0:
        return processors + max(reserve - cluster.counts[RUNNING_INTERACTIVE], 0)
    return min(processors + reserve, cluster.capacity[0])


@compiled_borrowing
def processors_planned(workload: Workload, cluster: Cluster, job: int, reserve: int) -> int:
    """Idle processors at which backfilling plans the start of a job that does not fit now.

    A batch system plans a place on its nodes whatever the limit of the class then is.
    """
    if cluster.limit[LIMITED] > 0.0:
        return workload.processors[job]
    return processors_needed(workload, cluster, job, reserve)
