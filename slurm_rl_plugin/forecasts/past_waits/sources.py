"""What foretells a wait from past ones: boosted trees on two sets of inputs, a forest, a last job.

They err differently, so that together they are better than each. Trees are fitted to the mean of
log wait, which rows of a few hundred batches tell better than its quantiles; the spread is the
forest's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from slurm_rl_plugin.forecasts.past_waits.binning import bin_edges, binned
from slurm_rl_plugin.forecasts.past_waits.features import FeatureTable
from slurm_rl_plugin.forecasts.past_waits.last_similar import last_similar_log_waits
from slurm_rl_plugin.forecasts.past_waits.seen_jobs import SeenJobs
from slurm_rl_plugin.forecasts.past_waits.training_rows import (
    TrainingRows,
    known_log_waits,
    training_rows,
)
from slurm_rl_plugin.forecasts.past_waits.wait_forest import fit_forest
from slurm_rl_plugin.units import FloatArray, IntArray

SOURCES = ("boosted trees", "boosted trees without history", "forest", "last job alike")
#: Fewest rows that trees are fitted to.
FEWEST_ROWS = 50
_BOOSTING: Mapping[str, Any] = {
    "max_iter": 80,
    "learning_rate": 0.1,
    "max_leaf_nodes": 15,
    "min_samples_leaf": 20,
    "max_bins": 63,
    "early_stopping": False,
}
#: Part of the inputs that each split of the first looks at, and of the second.
_FEATURES_A_SPLIT = (0.2, 1.0)


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
    train = training_rows(jobs, moment, rng)
    if len(train.rows) < FEWEST_ROWS:
        return None
    now = np.flatnonzero(jobs.moment == moment)
    everything = np.ones(len(table.names), dtype=np.bool_)
    boosted = [
        _boosted(table.values[:, columns], train, now, part, rng)
        for columns, part in zip((everything, ~table.of_the_past), _FEATURES_A_SPLIT, strict=True)
    ]
    forest = fit_forest(table.values[train.rows], train.log_wait, train.weight, rng)
    known = jobs.select(jobs.moment <= moment)
    last = last_similar_log_waits(known, known_log_waits(known, moment), moment)
    return SourceForecasts(
        rows=now,
        log_wait=np.stack([*boosted, forest.mean(table.values[now]), last]),
        draws=forest.draws(table.values[now]),
    )


def _boosted(
    values: FloatArray, train: TrainingRows, now: IntArray, part: float, rng: np.random.Generator
) -> FloatArray:
    """What boosted trees say of the rows of now."""
    edges = bin_edges(values[train.rows], _BOOSTING["max_bins"])
    trees = HistGradientBoostingRegressor(
        **_BOOSTING, max_features=part, random_state=int(rng.integers(2**31))
    )
    trees.fit(binned(values[train.rows], edges), train.log_wait, sample_weight=train.weight)
    return np.asarray(trees.predict(binned(values[now], edges)), dtype=np.float64)
