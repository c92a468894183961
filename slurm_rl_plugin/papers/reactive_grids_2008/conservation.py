"""Conservation of work: what no order of a queue can change.

Unfinished work V(t) counts the run times of all jobs in the system, of running ones what is left.
Job j adds p_j to it while it waits W_j, and then less and less while it runs p_j, so that

    integral of V(t) dt = sum_j (p_j W_j + p_j^2 / 2).

A greedy order never idles a machine beside a waiting job, so V(t) is the same under all of them
while all machines are busy: orders move waits between jobs, but hardly the sum of p_j W_j.
"""

from __future__ import annotations

import math

from slurm_rl_plugin.papers.reactive_grids_2008.load import rates
from slurm_rl_plugin.papers.reactive_grids_2008.tables import FIFO, RL, printed_waits
from slurm_rl_plugin.papers.study.claims import Measurement
from slurm_rl_plugin.papers.study.paired_trials import PairedTrial
from slurm_rl_plugin.units import SHORT_JOB_RUN_TIME


def smallest_ratio(trial: PairedTrial) -> tuple[str, Measurement]:
    """The policy with the smallest sum of run time * wait against FIFO's, and that ratio."""
    ratios = {
        name: trial.ratio_of_means("work-weighted wait", name, FIFO)
        for name in trial.measures
        if name != FIFO
    }
    name = min(ratios, key=lambda each: ratios[each].value)
    return name, ratios[name]


def run_time_moments(interactive: float) -> dict[str, tuple[float, float, float]]:
    """Class -> its part of the jobs, mean and standard deviation of its run times, seconds.

    Exponential run times of rate mu, cut at 900 s: batch jobs are 900 s longer than an
    exponential time, interactive ones are what then is missing to the moments of the whole.

    Args:
        interactive: p = 1 - exp(-900 mu).
    """
    mu, _ = rates(interactive)
    cut, mean = SHORT_JOB_RUN_TIME, 1.0 / mu
    batch = (cut + mean, cut**2 + 2 * cut * mean + 2 * mean**2)
    rest = 1.0 - interactive
    short = (
        (mean - rest * batch[0]) / interactive,
        (2 * mean**2 - rest * batch[1]) / interactive,
    )
    return {
        "interactive": (interactive, short[0], math.sqrt(short[1] - short[0] ** 2)),
        "batch": (rest, batch[0], mean),
    }


def implied_ratio(interactive: float, *, most: bool) -> float:
    """RL's mean of p W over FIFO's as the printed means and deviations of Table II imply it.

    Under FIFO a job's wait does not depend on its own run time, hence E[pW] = E[p] E[W] in each
    class. Under another order E[pW] <= E[p] E[W] + std(p) std(W) (Cauchy and Schwarz).

    Args:
        interactive: p of the load.
        most: give that upper bound for RL; otherwise take run time and wait as independent.
    """
    worth = {FIFO: 0.0, RL: 0.0}
    for job_class, (part, mean, deviation) in run_time_moments(interactive).items():
        for policy in worth:
            wait, spread, _ = printed_waits(interactive, policy, job_class)
            bound = deviation * spread if most and policy == RL else 0.0
            worth[policy] += part * (mean * wait + bound)
    return worth[RL] / worth[FIFO]
