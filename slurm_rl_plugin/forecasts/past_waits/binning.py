"""Inputs in bins before trees see them.

scikit-learn would find the same bins, but with weighted rows it takes longer over that than over
the trees, and it cannot do it for a column without a number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slurm_rl_plugin.units import FloatArray


def bin_edges(values: FloatArray, bins: int) -> list[FloatArray]:
    """Quantiles of what is known of each column, between which values count as equal.

    Args:
        values: float64[n, columns], nan where not known.
        bins: of each column, at most.
    """
    levels = np.linspace(0.0, 1.0, bins)[1:-1]
    known = [column[np.isfinite(column)] for column in values.T]
    return [np.unique(np.quantile(each, levels)) if len(each) else each for each in known]


def binned(values: FloatArray, edges: Sequence[FloatArray]) -> FloatArray:
    """The number of the bin of each value; nan stays, but in a column that is known nowhere."""
    columns = [
        np.where(np.isnan(column) & (len(each) > 0), np.nan, np.searchsorted(each, column))
        for column, each in zip(values.T, edges, strict=True)
    ]
    return np.column_stack(columns)
