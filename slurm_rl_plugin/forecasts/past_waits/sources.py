"""What foretells a wait from past ones: boosted trees on sets of inputs, a forest, the last job.

They err differently, so that together they are better than each. Trees are fitted to the mean of
log wait, which rows of a few hundred batches tell better than its quantiles; the spread is the
forest's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from slurm_rl_plugin.forecasts.past_waits.binning import bin_edges, binned
from slurm_rl_plugin.forecasts.past_waits.features import HISTORY, SHARE, FeatureTable
from slurm_rl_plugin.forecasts.past_waits.last_similar import last_similar_log_waits
from slurm_rl_plugin.forecasts.past_waits.seen_jobs import SeenJobs
from slurm_rl_plugin.forecasts.past_waits.training_rows import (
    TrainingRows,
    known_log_waits,
    training_rows,
)
from slurm_rl_plugin.forecasts.past_waits.wait_forest import fit_forest
from slurm_rl_plugin.units import FloatArray, IntArray

_BOOSTED: Mapping[str, tuple[str, ...]] = {
    "boosted trees": (),
    "boosted trees without history": (HISTORY,),
    "boosted trees without history and shares": (HISTORY, SHARE),
}
SOURCES = (*_BOOSTED, "forest", "last job alike")
#: Fewest rows that trees are fitted to.
FEWEST_ROWS = 50
#: Fits of each boosted source, each to other rows of the batches; their mean is taken.
_FITS = 4
_BOOSTING: Mapping[str, Any] = {
    "max_iter": 80,
    "learning_rate": 0.1,
    "max_leaf_nodes": 15,
    "min_samples_leaf": 20,
    "max_bins": 63,
    "max_features": 0.2,
    "early_stopping": False,
}


class SourceForecasts(NamedTuple):
    """What the sources say of the jobs seen at a moment.

    Attributes:
        rows: places of the jobs, int64[now].
        log_wait: of each source, log10 of the wait, float64[sources, now].
        draws: log10 waits that jobs alike had, float64[now, draws]; they tell the spread.
    """

    rows: IntArray
    log_wait: FloatArray
    draws: FloatArray


def ask_sources(
    jobs: SeenJobs, table: FeatureTable, moment: float, rng: np.random.Generator
) -> SourceForecasts | None:
    """Fit every source to what is known at a moment, and ask it about the jobs seen then.

    Args:
        jobs: those seen at the moment and before; later ones are left out.
        table: their inputs.
        moment: seconds.
        rng: of all chance.

    Returns:
        None where too little is known to fit to.
    """
    bare, now = replace(jobs, look={}), np.flatnonzero(jobs.moment == moment)
    trains = training_rows(bare, moment, _FITS, rng)
    if len(trains[0].rows) < FEWEST_ROWS:
        return None
    asked = table.values[now]
    boosted = []
    for without in _BOOSTED.values():
        columns = table.columns(*without)
        fits = [
            _boosted(table.values[each.rows][:, columns], each, asked[:, columns], rng)
            for each in trains
        ]
        boosted.append(np.mean(fits, axis=0))
    train = trains[0]
    forest = fit_forest(table.values[train.rows], train.log_wait, train.weight, rng)
    known = bare.select(jobs.moment <= moment)
    last = last_similar_log_waits(known, known_log_waits(known, moment), moment)
    return SourceForecasts(
        rows=now,
        log_wait=np.stack([*boosted, forest.mean(asked), last]),
        draws=forest.draws(asked),
    )


def _boosted(
    fit_to: FloatArray, train: TrainingRows, asked: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """What trees that are boosted on some rows say of others, log10 of the wait."""
    edges = bin_edges(fit_to, _BOOSTING["max_bins"])
    trees = HistGradientBoostingRegressor(**_BOOSTING, random_state=int(rng.integers(2**31)))
    # a fit is too small to be worth two cores, and threads that wait for each other wait busily
    with threadpool_limits(limits=1, user_api="openmp"):
        trees.fit(binned(fit_to, edges), train.log_wait, sample_weight=train.weight)
        return np.asarray(trees.predict(binned(asked, edges)), dtype=np.float64)
