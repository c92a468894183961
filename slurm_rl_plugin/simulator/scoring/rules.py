"""Scores of the rules that change while jobs wait, inside the compiled loop."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.policies import waiting_rules
from slurm_rl_plugin.simulator.kernel.cluster import (
    NOW,
    PENDING,
    RUNNING,
    Cluster,
    whole_usage,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_copy
from slurm_rl_plugin.simulator.kernel.compiled_features import (
    paper_row,
    time_utility,
    time_utility_loss_rate,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload, size_of
from slurm_rl_plugin.units import FloatArray, IntArray

_wfp3 = compiled_copy(waiting_rules.wfp3)
_unicep = compiled_copy(waiting_rules.unicep)
_expansion_factor = compiled_copy(waiting_rules.expansion_factor)
_utility_greedy = compiled_copy(
    waiting_rules.utility_greedy,
    paper_row=paper_row,
    time_utility=time_utility,
    time_utility_loss_rate=time_utility_loss_rate,
)
_drf = compiled_copy(waiting_rules.drf)

#: Codes of the rules that `score_pending_by_rule` knows.
_WFP3, _UNICEP, _EXPANSION_FACTOR, _UTILITY_GREEDY, _DRF = range(5)
_CODES = {
    "wfp3": _WFP3,
    "unicep": _UNICEP,
    "expansion-factor": _EXPANSION_FACTOR,
    "utility-greedy": _UTILITY_GREEDY,
    "drf": _DRF,
}


def rule_code(name: str | None) -> int:
    """The code of one of WAITING_RULES in the compiled loop; -1 for None, where no rule scores.

    Raises:
        SimulationError: the loop does not know the rule.
    """
    if name is not None and name not in _CODES:
        raise SimulationError(f"the simulator compiles no rule {name!r}: add it to its scores.")
    return -1 if name is None else _CODES[name]


@compiled
def current_usage(cluster: Cluster) -> FloatArray:
    """Fraction of the (decayed) consumed service of each account; all 0 while there is none."""
    total = whole_usage(cluster)
    if total <= 0.0:
        return np.zeros_like(cluster.account_usage)
    return cluster.account_usage / total


@compiled
def _sizes_in_use(workload: Workload, cluster: Cluster) -> FloatArray:
    """How large the running jobs of each user are together, processors, shape [users]."""
    in_use = np.zeros(len(workload.past.users))
    for place in range(cluster.counts[RUNNING]):
        job = cluster.expected_job[place]
        in_use[workload.past.user[job]] += size_of(workload, job)
    return in_use


@compiled
def score_pending_by_rule(
    workload: Workload, cluster: Cluster, rule: int, scores: FloatArray, jobs: IntArray
) -> None:
    """Score every pending job now.

    Args:
        workload: the jobs.
        cluster: read only.
        rule: a code of `rule_code`.
        scores: filled for the first counts[PENDING] places.
        jobs: filled with the pending job numbers in the order of `scores`.
    """
    in_use = _sizes_in_use(workload, cluster) if rule == _DRF else np.zeros(0)
    now = cluster.clock[NOW]
    capacity = float(cluster.capacity[0])
    for place in range(cluster.counts[PENDING]):
        job = cluster.pending[place]
        wait = now - workload.submit[job]
        estimate = workload.estimate[job]
        size = size_of(workload, job)
        if rule == _WFP3:
            score = _wfp3(wait, estimate, size)
        elif rule == _UNICEP:
            score = _unicep(wait, estimate, size)
        elif rule == _EXPANSION_FACTOR:
            score = _expansion_factor(wait, estimate)
        elif rule == _UTILITY_GREEDY:
            score = _utility_greedy(wait, estimate, size, workload.interactive[job])
        elif rule == _DRF:
            score = _drf(in_use[workload.past.user[job]] / capacity)
        else:
            score = np.nan  # `rule_code` gives no other codes
        scores[place] = score
        jobs[place] = job
