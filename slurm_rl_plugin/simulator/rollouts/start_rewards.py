"""What the start of a job is worth: the papers' reward, and the difference that it makes."""

from __future__ import annotations

from slurm_rl_plugin.domain.utility_class import RUN_ROW, SIGMA_ROW
from slurm_rl_plugin.simulator.kernel.cluster import ENDED, NOW, PENDING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.compiled_features import fairness, time_utility
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.scoring.reactive_grid import running_utility
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.units import FloatArray

#: Codes of the rewards; the last two are known only at the next start.
LITERAL, DIFFERENCE, DIFFERENCE_REACHED, COMPLETED, RUNNING = 0, 1, 2, 3, 4


@compiled
def start_reward(
    workload: Workload,
    cluster: Cluster,
    rows: FloatArray,
    job: int,
    utility_weight: float,
    reward: int,
) -> float:
    """Reward of starting a waiting job now, counted before it starts.

    literal (2008, section III.B): lambda * U(job at its completion) + (1 - lambda) * F (eq. 4).
    difference: the same with the job's `interchange_gain` in place of U, for a learner that does
    not see the waits, or counted from the waits reached, for one that does.

    Literally read, a long batch job nearly always reaches a utility near 1, an interactive one
    that had to wait does not, and nothing tells the learner what the others pay for a start: it
    learns to start batch jobs first, and among them, where it learns online, the longest.

    Run times are the real ones, not estimates: a reward is known once the jobs have ended.

    Args:
        workload: the jobs.
        cluster: read only; `job` still waits.
        rows: of each job's class, shape [n, places]; see `time_utility`.
        job: number of the job.
        utility_weight: lambda.
        reward: LITERAL, DIFFERENCE or DIFFERENCE_REACHED.
    """
    if reward == LITERAL:
        value = _utility_if_started(workload, cluster, rows, job)
    else:
        value = interchange_gain(workload, cluster, rows, job, reward == DIFFERENCE_REACHED)
    fair = fairness(workload.shares, current_usage(cluster))
    return utility_weight * value + (1.0 - utility_weight) * fair


@compiled
def reward_at_next_start(
    workload: Workload,
    cluster: Cluster,
    rows: FloatArray,
    ended: int,
    utility_weight: float,
    reward: int,
) -> float:
    """Reward of the last start in the state that it led to: lambda * U + (1 - lambda) * F.

    completed: U is the mean utility of the jobs that ended since that start; 0 where none did.
    running: U is the mean utility that the running jobs are expected to reach.

    Args:
        workload: the jobs.
        cluster: read only, at the next start.
        rows: of each job's class, shape [n, places]; see `time_utility`.
        ended: how many jobs had ended at the last start.
        utility_weight: lambda.
        reward: COMPLETED or RUNNING.
    """
    if reward == RUNNING:
        value = running_utility(workload, cluster)
    else:
        value = 0.0
        for place in range(ended, cluster.counts[ENDED]):
            job = cluster.ended[place]
            run_time = workload.run_time[job]
            turnaround = cluster.start[job] - workload.submit[job] + run_time
            value += time_utility(turnaround, run_time, rows[job])
        value /= max(cluster.counts[ENDED] - ended, 1)
    fair = fairness(workload.shares, current_usage(cluster))
    return utility_weight * value + (1.0 - utility_weight) * fair


@compiled
def _utility_if_started(workload: Workload, cluster: Cluster, rows: FloatArray, job: int) -> float:
    """Time utility of a waiting job that starts now."""
    run_time = workload.run_time[job]
    turnaround = cluster.clock[NOW] - workload.submit[job] + run_time
    return time_utility(turnaround, run_time, rows[job])


@compiled
def _lost(
    workload: Workload, cluster: Cluster, rows: FloatArray, job: int, delay: float, reached: bool
) -> float:
    """Time utility that a waiting job loses by `delay` seconds more."""
    run_time = workload.run_time[job]
    row = rows[job]
    turnaround = row[RUN_ROW] * run_time + row[SIGMA_ROW]
    if reached:
        turnaround = max(turnaround, cluster.clock[NOW] - workload.submit[job] + run_time)
    before = time_utility(turnaround, run_time, row)
    return before - time_utility(turnaround + delay, run_time, row)


@compiled
def interchange_gain(
    workload: Workload, cluster: Cluster, rows: FloatArray, job: int, reached: bool
) -> float:
    """Utility that starting `job` first saves over starting another first, mean over the others.

    A difference reward (Wolpert and Tumer 2002) for the adjacent interchange of two jobs that
    compete for a machine: with `job` first the other one is put off by the run time of `job`;
    with the other first, `job` is put off by that of the other. In [-1, 1]; 0 for a lone job.

    Unless `reached`, what a delay costs is counted from the deadline of either job (eq. 2 and 3),
    whatever it has waited. Counted from the waits reached, an interactive job that has lost its
    utility has nothing more to lose; a learner that does not see the waits cannot tell it from a
    fresh one, and while many such jobs wait, longest job first seems to cost nothing.

    Args:
        workload: the jobs.
        cluster: read only; `job` still waits.
        rows: of each job's class, shape [n, places]; see `time_utility`.
        job: number of the job.
        reached: count from the waits that the jobs have reached.
    """
    pending = cluster.counts[PENDING]
    if pending < 2:
        return 0.0
    run_time = workload.run_time
    gain = 0.0
    for place in range(pending):
        other = cluster.pending[place]
        if other != job:
            gain += _lost(workload, cluster, rows, job, run_time[other], reached)
            gain -= _lost(workload, cluster, rows, other, run_time[job], reached)
    return gain / (pending - 1)
