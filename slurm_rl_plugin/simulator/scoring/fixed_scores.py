"""Scores that never change, taken at each decision: for static orders that our hook writes."""

from __future__ import annotations

from typing import NamedTuple

from slurm_rl_plugin.simulator.kernel.cluster import PENDING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.units import FloatArray, IntArray


class FixedScores(NamedTuple):
    """The score of every job of a workload.

    Attributes:
        scores: shape [n].
    """

    scores: FloatArray


@compiled_borrowing
def take_fixed_scores(
    cluster: Cluster, fixed: FixedScores, scores: FloatArray, jobs: IntArray
) -> int:
    """Fill `scores` with those of the pending jobs, `jobs` with their numbers; a reserve of 0."""
    for place in range(cluster.counts[PENDING]):
        job = cluster.pending[place]
        scores[place], jobs[place] = fixed.scores[job], job
    return 0
