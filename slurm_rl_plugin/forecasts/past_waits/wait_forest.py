"""A quantile regression forest on log waits: how long jobs waited that fell into the same leaves.

Meinshausen, "Quantile Regression Forests", JMLR 2006, with the extremely randomized trees of
Geurts, Ernst and Wehenkel, Machine Learning 2006. As ranger does, a leaf keeps a few of its waits
rather than all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from slurm_rl_plugin.units import FloatArray, IntArray

_TREES = 60
_LEAST_IN_LEAF = 5
_FEATURES_A_SPLIT = 0.6
#: Waits that each leaf keeps.
_KEPT = 4
#: In place of what is not known; below all that is, so that a split can tell it.
_UNKNOWN = -20.0


class WaitForest(NamedTuple):
    """A fitted forest.

    Attributes:
        trees: of scikit-learn.
        kept: of each tree, log waits by node, float64[nodes, kept].
    """

    trees: ExtraTreesRegressor
    kept: tuple[FloatArray, ...]

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
        rng: of the trees, and of what a leaf keeps.
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
