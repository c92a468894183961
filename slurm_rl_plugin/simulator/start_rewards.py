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
    """Reward of starting a waiting job now, counted before it starts.

    literal (2008, section III.B): lambda * U(job at its completion) + (1 - lambda) * F (eq. 4).
    difference: the same with the job's `interchange_gain` in place of U.

    Literally read, a job of long run time nearly always reaches utility 1 and nothing tells the
    learner what the others pay for it: it learns to start the longest job first.

    Run times are the real ones, not estimates: a reward is known once the jobs have ended.

    Args:
        workload: the jobs.
        cluster: read only; `job` still waits.
        job: number of the job.
        utility_weight: lambda.
        difference: which of the two.
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
    """Utility that starting `job` first saves over starting another first, mean over the others.

    A difference reward (Wolpert and Tumer 2002) for the adjacent interchange of two jobs that
    compete for a machine: with `job` first the other one is put off by the run time of `job`;
    with the other first, `job` is put off by that of the other. In [-1, 1]; 0 for a lone job.

    What a delay costs is counted from the deadline of either job (eq. 2 and 3), whatever it has
    waited. Counted from the waits reached, an interactive job that has lost its utility has
    nothing more to lose: once many of them wait, longest job first costs nothing, and the
    learner stays there.

    Args:
        workload: the jobs.
        cluster: read only; `job` still waits.
        job: number of the job.
    """
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
