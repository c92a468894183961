"""What each feature does to one job's score: the score without it is the score with the median."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import Memory, QueueSnapshot
from slurm_rl_plugin.policies.q_network import QNetworkPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureEffect:
    """How much one feature of one job moves its score.

    Attributes:
        name: as in the schema.
        value: of the job, as the graph is told it.
        median: of all pending jobs.
        effect: the job's score less the score that it would have with the median. Effects do not
            sum to the score: features act together.
    """

    name: str
    value: float
    median: float
    effect: float


def feature_effects(
    policy: QNetworkPolicy, snapshot: QueueSnapshot, memory: Memory | None, place: int
) -> list[FeatureEffect]:
    """The effect of each feature on the score of the job at `place`, the largest first.

    The graph is asked about the whole queue once for each feature, so this holds for any graph.

    Raises:
        PolicyError: onnxruntime fails.
    """
    jobs = policy.job_features(snapshot, memory)
    median = np.median(jobs, axis=0)
    scores = policy.scores_of(snapshot, memory, _tables(jobs, median, place))
    own = float(next(scores)[place])
    effects = [
        FeatureEffect(
            name=name,
            value=float(jobs[place, column]),
            median=float(median[column]),
            effect=own - float(without[place]),
        )
        for column, (name, without) in enumerate(zip(policy.schema.jobs, scores, strict=True))
    ]
    return sorted(effects, key=lambda each: -abs(each.effect))


def _tables(
    jobs: NDArray[np.float32], median: NDArray[np.float32], place: int
) -> Iterator[NDArray[np.float32]]:
    """The features as they are, then with one of the job's replaced after the other."""
    yield jobs
    for column in range(jobs.shape[1]):
        changed = jobs.copy()
        changed[place, column] = median[column]
        yield changed
