"""How much each source counts: by what it has been worth so far."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.units import FloatArray

#: Rows in favour of the first weights: so many must speak for others before those count as much.
_IN_FAVOUR_OF_FIRST = 200.0


def weights_by_worth(
    log_wait: FloatArray, truth: FloatArray, counts: FloatArray, prior: FloatArray
) -> FloatArray:
    """Weights, none negative and 1 in all, with which the sources were closest, float64[sources].

    Stacking (Wolpert, "Stacked Generalization", Neural Networks 1992; Breiman, "Stacked
    Regressions", Machine Learning 1996) of what each source foretold without knowing the outcome.

    Args:
        log_wait: what each source foretold, float64[sources, n].
        truth: what came true, float64[n].
        counts: how much each row counts, float64[n].
        prior: weights where nothing speaks for others, float64[sources].
    """
    gap = log_wait - truth
    held = _IN_FAVOUR_OF_FIRST * _disagreement(log_wait) * np.eye(len(prior))
    # with weights that add up to 1, the error of the mean is the mean of the errors
    matrix, target = (gap * counts) @ gap.T + held, held @ prior
    left = np.ones(len(prior), dtype=np.bool_)
    while True:
        found = np.zeros(len(prior))
        found[left] = _least_error(matrix[np.ix_(left, left)], target[left])
        if (found >= 0.0).all():
            return found
        left &= found > found.min()


def _least_error(matrix: FloatArray, target: FloatArray) -> FloatArray:
    """Weights that add up to 1 with the least of w M w - 2 w t."""
    ones = np.ones(len(target))
    solved = np.linalg.solve(matrix, np.column_stack([target, ones]))
    multiple = (1.0 - solved[:, 0].sum()) / solved[:, 1].sum()
    return np.asarray(solved[:, 0] + multiple * solved[:, 1])


def _disagreement(log_wait: FloatArray) -> float:
    """How far apart the sources are, mean square; at least a little."""
    if log_wait.shape[1] == 0:
        return 1.0
    return float(np.mean((log_wait - log_wait.mean(axis=0)) ** 2)) + 1e-6
