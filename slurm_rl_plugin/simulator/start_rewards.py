"""What the start of a job is worth: the papers' reward, and the difference that it makes."""

from __future__ import annotations

from slurm_rl_plugin.simulator.cluster import NOW, PENDING, Cluster, Workload
from slurm_rl_plugin.simulator.compilation import compiled
from slurm_rl_plugin.simulator.rule_scoring import current_usage
from slurm_rl_plugin.simulator.shared_functions import fairness, time_utility
from slurm_rl_plugin.utility.time_utility import SIGMA


@compiled
def start_reward(
    workload: Workload, cluster: Cluster, job: int, utility_weight: float, difference: bool
) -> float:
    """Reward of starting a pending job now, before it is started.

    literal (2008, section III.B): lambda * U(job at its completion) + (1 - lambda) * F(eq. 4).
    difference: the same with U less the utility that the other waiting jobs lose because this one
    takes its processor-seconds; each is taken to start later by that work over the capacity.
    Run times are the real ones: a reward is known once the jobs have ended.

    Args:
        workload: the jobs.
        cluster: read only; `job` still waits.
        job: number of the job.
        utility_weight: lambda.
        difference: whether the loss of the others is subtracted.
    """
    if difference:
        value = interchange_gain(workload, cluster, job)
    else:
        value = _utility_if_started(workload, cluster, job)
    fair = fairness(workload.shares, current_usage(cluster))
    return utility_weight * value + (1.0 - utility_weight) * fair


@compiled
def _utility_if_started(workload: Workload, cluster: Cluster, job: int) -> float:
    """Time utility of a waiting job that starts now."""
    run_time = workload.run_time[job]
    turnaround = cluster.clock[NOW] - workload.submit[job] + run_time
    return time_utility(turnaround, run_time, workload.interactive[job])


@compiled
def _kept(workload: Workload, job: int, delay: float) -> float:
    """Time utility that a job at its deadline keeps when it is put off by `delay` seconds."""
    run_time = workload.run_time[job]
    return time_utility(run_time + SIGMA + delay, run_time, workload.interactive[job])


@compiled
def interchange_gain(workload: Workload, cluster: Cluster, job: int) -> float:
    """Utility that this order keeps more than the other one, mean over the other waiting jobs."""
    pending = cluster.counts[PENDING]
    if pending < 2:
        return 0.0
    run_time = workload.run_time
    gain = 0.0
    for place in range(pending):
        other = cluster.pending[place]
        if other != job:
            gain += _kept(workload, other, run_time[job]) - _kept(workload, job, run_time[other])
    return gain / (pending - 1)
