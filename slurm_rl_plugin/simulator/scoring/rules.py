"""Scores of the rules that change while jobs wait, inside the compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.policies import waiting_rules
from slurm_rl_plugin.simulator.kernel.cluster import Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing, compiled_copy
from slurm_rl_plugin.simulator.kernel.compiled_features import (
    paper_row,
    time_utility,
    time_utility_loss_rate,
)
from slurm_rl_plugin.units import FloatArray, IntArray


class FixedScores(NamedTuple):
    """The score of every job of a workload."""

    scores: FloatArray  #: shape [n]


class RuleScores(NamedTuple):
    """One of WAITING_RULES."""

    rule: int  #: of RULE_CODES


@compiled_borrowing
def take_fixed_scores(
    cluster: Cluster, fixed: FixedScores, scores: FloatArray, jobs: IntArray
) -> int:
    """Fill `scores` with those of the pending jobs, `jobs` with their numbers; a reserve of 0."""
    for place in range(cluster.state[0].pending):
        job = cluster.pending[place]
        scores[place], jobs[place] = fixed.scores[job], job
    return 0


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

#: WAITING_RULES that the loop compiles.
_WFP3, _UNICEP, _EXPANSION_FACTOR, _UTILITY_GREEDY, _DRF = range(5)
RULE_CODES = {
    "wfp3": _WFP3,
    "unicep": _UNICEP,
    "expansion-factor": _EXPANSION_FACTOR,
    "utility-greedy": _UTILITY_GREEDY,
    "drf": _DRF,
}


@compiled
def current_usage(cluster: Cluster) -> FloatArray:
    """Fraction of the (decayed) consumed service of each account; all 0 while there is none."""
    usage = cluster.accounts.usage.copy()
    total = usage.sum()
    return usage / total if total > 0.0 else np.zeros(len(usage))


@compiled
def _sizes_in_use(cluster: Cluster) -> FloatArray:
    in_use = np.zeros(len(cluster.past.users))
    for place in range(cluster.state[0].running):
        job = cluster.running[place].expected_job
        in_use[cluster.past.user[job]] += cluster.jobs[job].weighed
    return in_use


@compiled
def score_pending_by_rule(cluster: Cluster, rule: int, scores: FloatArray, jobs: IntArray) -> None:
    """Score every pending job now by a rule of RULE_CODES; arguments as of `score_pending`."""
    in_use = _sizes_in_use(cluster) if rule == _DRF else np.zeros(0)
    now = cluster.state[0].now
    capacity = float(cluster.state[0].capacity)
    for place in range(cluster.state[0].pending):
        job = cluster.pending[place]
        wait = now - cluster.jobs[job].submit
        estimate = cluster.jobs[job].estimate
        size = cluster.jobs[job].weighed
        if rule == _WFP3:
            score = _wfp3(wait, estimate, size)
        elif rule == _UNICEP:
            score = _unicep(wait, estimate, size)
        elif rule == _EXPANSION_FACTOR:
            score = _expansion_factor(wait, estimate)
        elif rule == _UTILITY_GREEDY:
            score = _utility_greedy(wait, estimate, size, cluster.jobs[job].interactive)
        else:
            score = _drf(in_use[cluster.past.user[job]] / capacity)
        scores[place] = score
        jobs[place] = job
