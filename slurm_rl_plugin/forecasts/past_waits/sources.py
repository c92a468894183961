"""What foretells a wait from past ones: boosted trees on sets of inputs, a forest, the last job.

They err differently, so that together they are better than each. Trees are fitted to the mean of
log wait, which rows of a few hundred batches tell better than its quantiles; the spread is the
forest's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from slurm_rl_plugin.forecasts.past_waits.features import HISTORY, SHARE, FeatureTable, groups_of
from slurm_rl_plugin.forecasts.past_waits.seen_jobs import SeenJobs
from slurm_rl_plugin.forecasts.past_waits.wait_forest import (
    TrainingRows,
    fit_forest,
    known_log_waits,
    training_rows,
)
from slurm_rl_plugin.units import FloatArray, IntArray

_ALIKE = ("template", "account in partition", "partition", "all")
_BOOSTED: Mapping[str, tuple[str, ...]] = {
    "boosted trees": (),
    "boosted trees without history": (HISTORY,),
    "boosted trees without history and shares": (HISTORY, SHARE),
}
SOURCES = (*_BOOSTED, "forest", "last job alike")
#: Fewest rows that trees are fitted to.
FEWEST_ROWS = 50
#: Fits of each boosted source, each to other rows of the batches; their mean is taken.
FITS = 4
_BOOSTING: Mapping[str, Any] = {
    "max_iter": 80,
    "learning_rate": 0.1,
    "max_leaf_nodes": 15,
    "min_samples_leaf": 20,
    "max_bins": 63,
    "max_features": 0.2,
    "early_stopping": False,
}


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


def last_similar_log_waits(
    jobs: SeenJobs, log_wait: FloatArray, moment: float, fallback: float = np.nan
) -> FloatArray:
    """log10 of the wait of the last job alike, of the jobs seen at a moment, float64[now].

    Args:
        jobs: those seen then, and those before.
        log_wait: of all, as it is known by then, float64[n].
        moment: seconds.
        fallback: where there is none.
    """
    now, before = np.flatnonzero(jobs.moment == moment), np.flatnonzero(jobs.moment < moment)
    last = before[np.lexsort((jobs.submit[before], jobs.moment[before]))]
    found = np.full(len(now), np.nan)
    groups = groups_of(jobs)
    for codes in (groups[name] for name in _ALIKE):
        of_group = np.full(int(codes.max(initial=0)) + 1, np.nan)
        of_group[codes[last]] = log_wait[last]  # the last one stays
        found = np.where(np.isnan(found), of_group[codes[now]], found)
    return np.where(np.isnan(found), fallback, found)


def median_of_partition(
    jobs: SeenJobs, log_wait: FloatArray, moment: float, fallback: float = np.nan
) -> FloatArray:
    """Median log10 wait of all earlier jobs of the partition, of the jobs seen at a moment.

    Args:
        jobs: those seen then, and those before.
        log_wait: of all, as it is known by then, float64[n].
        moment: seconds.
        fallback: of a partition without any, where there is no earlier job at all.
    """
    now, before = jobs.moment == moment, jobs.moment < moment
    overall = float(np.median(log_wait[before])) if before.any() else fallback
    median = {
        each: np.median(log_wait[before & (jobs.partition == each)])
        for each in np.unique(jobs.partition[before])
    }
    return np.array([median.get(each, overall) for each in jobs.partition[now]])


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

    Returns:
        None where too little is known to fit to.
    """
    bare, now = replace(jobs, look={}), np.flatnonzero(jobs.moment == moment)
    trains = training_rows(bare, moment, FITS, rng)
    if len(trains[0].rows) < FEWEST_ROWS:
        return None
    asked = table.values[now]
    boosted = [
        boosted_log_waits(table, trains, asked, without, rng) for without in _BOOSTED.values()
    ]
    train = trains[0]
    forest = fit_forest(table.values[train.rows], train.log_wait, train.weight, rng)
    known = bare.select(jobs.moment <= moment)
    last = last_similar_log_waits(known, known_log_waits(known, moment), moment)
    return SourceForecasts(
        rows=now,
        log_wait=np.stack([*boosted, forest.mean(asked), last]),
        draws=forest.draws(asked),
    )


def boosted_log_waits(
    table: FeatureTable,
    trains: Sequence[TrainingRows],
    asked: FloatArray,
    without: Sequence[str],
    rng: np.random.Generator,
) -> FloatArray:
    """What boosted trees say, log10 of the wait, float64[asked]; the mean of a fit to each sample.

    Args:
        table: inputs of the jobs.
        trains: samples of rows to fit to.
        asked: inputs of the jobs that are asked about, float64[asked, names].
        without: kinds of inputs that are left out.
    """
    columns = table.columns(*without)
    fits = [
        _boosted(table.values[each.rows][:, columns], each, asked[:, columns], rng)
        for each in trains
    ]
    return np.asarray(np.mean(fits, axis=0), dtype=np.float64)


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
