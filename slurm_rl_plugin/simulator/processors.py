"""How many idle processors a job needs to start."""

from __future__ import annotations

from slurm_rl_plugin.simulator.cluster import Cluster, Workload
from slurm_rl_plugin.simulator.compilation import compiled


@compiled
def processors_needed(workload: Workload, cluster: Cluster, job: int, reserve: int) -> int:
    """Idle processors at which a job may start: its own, and for a batch job the reserve.

    A batch job so wide that the reserve cannot stay free beside it needs the whole machine.
    """
    processors = workload.processors[job]
    if workload.interactive[job]:
        return processors
    return min(processors + reserve, cluster.capacity[0])
