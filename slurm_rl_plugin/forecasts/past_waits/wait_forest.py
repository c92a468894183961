"""A quantile regression forest on log waits: how long jobs waited that fell into the same leaves.

Meinshausen, "Quantile Regression Forests", JMLR 2006, with the extremely randomized trees of
Geurts, Ernst and Wehenkel, Machine Learning 2006. As ranger does, a leaf keeps a few of its waits
rather than all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from slurm_rl_plugin.forecasts.past_waits.seen_jobs import SeenJobs, codes_of
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.utility.summary import one_user_capped

#: Rows of one template at one moment that are fitted to. A batch of a thousand equal jobs tells
#: little more than a few of it.
MOST_ALIKE = 4
#: A batch of n equal jobs counts as n to this power.
_COUNTS = 0.5
#: A wait that still lasts is taken as so many times what it has been, as waits of a heavy tail are.
_STILL_WAITS = 2.0
_TREES = 60
_LEAST_IN_LEAF = 5
_FEATURES_A_SPLIT = 0.6
#: Waits that each leaf keeps.
_KEPT = 4
#: In place of what is not known; below all that is, so that a split can tell it.
_UNKNOWN = -20.0


class TrainingRows(NamedTuple):
    """Rows to fit to."""

    rows: IntArray  #: places in the jobs, int64[m]
    log_wait: FloatArray  #: log10 of the wait as it is known, float64[m]
    weight: FloatArray  #: how much each counts, float64[m]


def known_log_waits(jobs: SeenJobs, moment: float) -> FloatArray:
    """log10 of each wait as it is taken at a moment, those that still last longer, float64[n]."""
    so_far = jobs.log_wait_by(moment)
    return np.where(jobs.started_by(moment), so_far, so_far + np.log10(_STILL_WAITS))


def training_rows(
    jobs: SeenJobs, moment: float, samples: int, rng: np.random.Generator
) -> list[TrainingRows]:
    """Rows of jobs that were seen before a moment, and what is known of their waits by then.

    Args:
        jobs: any; those seen at the moment or later are left out.
        samples: how often rows are chosen among equal jobs.
    """
    before = np.flatnonzero(jobs.moment < moment)
    seen = replace(jobs, look={}).select(before)
    log_wait, batch = known_log_waits(seen, moment), codes_of(seen.moment, seen.template)
    count = np.bincount(batch)
    first, number = np.cumsum(count) - count, count[batch]
    weight = number**_COUNTS / np.minimum(number, MOST_ALIKE)
    found = []
    for _ in range(samples):
        order = np.lexsort((rng.random(len(before)), batch))
        kept = np.sort(order[np.arange(len(before)) - first[batch[order]] < MOST_ALIKE])
        counts = weight[kept]
        if seen.user is not None:
            counts = one_user_capped(counts, seen.user[kept])
        found.append(TrainingRows(before[kept], log_wait[kept], counts))
    return found


class WaitForest(NamedTuple):
    """A fitted forest."""

    trees: ExtraTreesRegressor  #: of scikit-learn
    kept: tuple[FloatArray, ...]  #: of each tree, log waits by node, float64[nodes, kept]

    def mean(self, features: FloatArray) -> FloatArray:
        """The mean log10 wait of jobs alike, float64[n]."""
        return np.asarray(self.trees.predict(_known(features)), dtype=np.float64)

    def draws(self, features: FloatArray) -> FloatArray:
        """Log10 waits of jobs alike, float64[n, trees x kept]."""
        leaves = self.trees.apply(_known(features))
        return np.hstack([kept[leaves[:, tree]] for tree, kept in enumerate(self.kept)])


def fit_forest(
    features: FloatArray, log_wait: FloatArray, weight: FloatArray, rng: np.random.Generator
) -> WaitForest:
    """Grow a forest.

    Args:
        features: float[n, columns]; nan where not known.
        log_wait: log10 of the waits, float64[n].
        weight: how much each counts, float64[n].
    """
    trees = ExtraTreesRegressor(
        n_estimators=_TREES,
        min_samples_leaf=_LEAST_IN_LEAF,
        max_features=_FEATURES_A_SPLIT,
        random_state=int(rng.integers(2**31)),
    ).fit(_known(features), log_wait, sample_weight=weight)
    leaves = trees.apply(_known(features))
    kept = tuple(
        _waits_kept(leaves[:, place], tree.tree_.node_count, log_wait, weight, rng)
        for place, tree in enumerate(trees.estimators_)
    )
    return WaitForest(trees, kept)


def _waits_kept(
    leaf: IntArray, nodes: int, log_wait: FloatArray, weight: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """For each node some waits of its jobs, each as often as it counts, float64[nodes, kept]."""
    order = np.lexsort((log_wait, leaf))
    reached = np.cumsum(weight[order])
    total = np.bincount(leaf, weight, nodes)
    first = np.cumsum(total) - total
    part = (np.arange(_KEPT) + rng.random((nodes, _KEPT))) / _KEPT
    at = np.searchsorted(reached, first[:, None] + part * total[:, None])
    return np.asarray(log_wait[order][np.minimum(at, len(leaf) - 1)], dtype=np.float64)


def _known(features: FloatArray) -> FloatArray:
    return np.nan_to_num(features, nan=_UNKNOWN, posinf=-_UNKNOWN, neginf=_UNKNOWN)
