"""What forecasts are held against: the last job alike, the partition's median, plain boosting."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from slurm_rl_plugin.forecasts.forecast import LEVELS, Forecasts
from slurm_rl_plugin.forecasts.past_waits.binning import bin_edges, binned
from slurm_rl_plugin.forecasts.past_waits.features import FeatureTable
from slurm_rl_plugin.forecasts.past_waits.last_similar import median_of_partition
from slurm_rl_plugin.forecasts.past_waits.seen_jobs import SeenJobs
from slurm_rl_plugin.forecasts.past_waits.training_rows import known_log_waits, training_rows
from slurm_rl_plugin.units import FloatArray

LAST, MEDIAN, BOOSTING = (
    "last similar job",
    "median of the partition",
    "gradient boosting without calibration",
)
#: Levels that boosting is fitted to; the others lie straight between.
_FITTED = (0.05, 0.5, 0.95)
_TREES, _BINS = 80, 63


def partition_median(jobs: SeenJobs, moment: float) -> FloatArray:
    """log10 of the median wait of its partition so far, of the jobs of a moment, float64[now]."""
    known = jobs.select(jobs.moment <= moment)
    return median_of_partition(known, known_log_waits(known, moment), moment)


def boosted_quantiles(
    jobs: SeenJobs, table: FeatureTable, moment: float, rng: np.random.Generator
) -> Forecasts:
    """Quantile boosting on the same inputs and rows as ours, taken at its word.

    Args:
        jobs: those of the moment, and all before.
        table: their inputs.
        moment: seconds.
        rng: of all chance.
    """
    (train,), now = training_rows(jobs, moment, 1, rng), jobs.moment == moment
    edges = bin_edges(table.values[train.rows], _BINS)
    fit_to, asked = binned(table.values[train.rows], edges), binned(table.values[now], edges)
    found = []
    for level in _FITTED:
        trees = HistGradientBoostingRegressor(
            loss="quantile",
            quantile=level,
            max_iter=_TREES,
            max_leaf_nodes=15,
            max_bins=_BINS,
            max_features=0.2,
            early_stopping=False,
            random_state=int(rng.integers(2**31)),
        )
        with threadpool_limits(limits=1, user_api="openmp"):
            trees.fit(fit_to, train.log_wait, sample_weight=train.weight)
            found.append(trees.predict(asked))
    ordered = np.sort(np.column_stack(found), axis=1)
    logs = [np.interp(LEVELS, _FITTED, each) for each in ordered]
    return Forecasts.of_logs(np.array(logs))
