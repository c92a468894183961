"""Sources that forecast a wait from past waits, and joined forecasts, one moment after the other.

The sources are boosted trees on sets of inputs, a forest and the last job. They err differently, so
that together they are better than each. Trees are fitted to the mean of log wait, which rows of a
few hundred batches determine better than its quantiles; the spread is the forest's. At each moment
the sources are fitted anew, joined by weights that follow how close each was in earlier forecasts,
and the bands are set by how those did: nothing that happens later counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from slurm_rl_plugin.forecasts.forecast import (
    LEVELS,
    Forecasts,
    Outcomes,
    Tails,
    calibrated,
    horizon_of,
    places_of,
    weights_by_worth,
)
from slurm_rl_plugin.forecasts.past_waits.wait_forest import (
    HISTORY,
    SHARE,
    FeatureTable,
    SeenJobs,
    TrainingRows,
    codes_of,
    fit_forest,
    groups_of,
    known_log_waits,
    training_rows,
)
from slurm_rl_plugin.units import DAY, FloatArray, IntArray

_ALIKE = ("template", "account in partition", "partition", "all")
_BOOSTED: Mapping[str, tuple[str, ...]] = {
    "boosted trees": (),
    "boosted trees without history": (HISTORY,),
    "boosted trees without history and shares": (HISTORY, SHARE),
}
SOURCES = (*_BOOSTED, "forest", "last similar job")
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
#: Age at which an outcome counts half when bands are set, seconds.
_HALF_LIFE = 14.0 * DAY
#: Moments with forecasts before bands are set.
FEWEST_MOMENTS = 5
#: Prior weights of the sources: the last similar job is a weak one.
_PRIOR = np.array([0.24, 0.24, 0.24, 0.24, 0.04])


def bin_edges(values: FloatArray, bins: int) -> list[FloatArray]:
    """Quantiles of what is known of each column, between which values count as equal.

    Values are float64[n, columns], nan where not known; `bins` of each column at most.
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


def last_similar_log_waits(jobs: SeenJobs, log_wait: FloatArray, moment: float) -> FloatArray:
    """log10 of the wait of the last similar job, of the jobs seen at a moment, float64[now].

    Of jobs seen then and before, with their log waits as known by then, float64[n].
    """
    now, before = np.flatnonzero(jobs.moment == moment), np.flatnonzero(jobs.moment < moment)
    last = before[np.lexsort((jobs.submit[before], jobs.moment[before]))]
    found = np.full(len(now), np.nan)
    groups = groups_of(jobs)
    for codes in (groups[name] for name in _ALIKE):
        of_group = np.full(int(codes.max(initial=0)) + 1, np.nan)
        of_group[codes[last]] = log_wait[last]  # the last one stays
        found = np.where(np.isnan(found), of_group[codes[now]], found)
    return found


def median_of_partition(jobs: SeenJobs, log_wait: FloatArray, moment: float) -> FloatArray:
    """Median log10 wait of all earlier jobs of the partition, of the jobs seen at a moment.

    It takes what `last_similar_log_waits` takes.
    """
    now, before = jobs.moment == moment, jobs.moment < moment
    overall = float(np.median(log_wait[before])) if before.any() else np.nan
    median = {
        each: np.median(log_wait[before & (jobs.partition == each)])
        for each in np.unique(jobs.partition[before])
    }
    return np.array([median.get(each, overall) for each in jobs.partition[now]])


class SourceForecasts(NamedTuple):
    """What the sources say of the jobs seen at a moment."""

    rows: IntArray  #: places of the jobs, int64[now]
    log_wait: FloatArray  #: of each source, log10 of the wait, float64[sources, now]
    draws: FloatArray  #: log10 waits of similar jobs, which give the spread, float64[now, draws]


def ask_sources(
    jobs: SeenJobs, table: FeatureTable, moment: float, rng: np.random.Generator
) -> SourceForecasts | None:
    """Fit every source to what is known at a moment, and ask it; None where that is too little."""
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
        rows=now, log_wait=np.stack([*boosted, forest.mean(asked), last]), draws=forest.draws(asked)
    )


def boosted_log_waits(
    table: FeatureTable,
    trains: Sequence[TrainingRows],
    asked: FloatArray,
    without: Sequence[str],
    rng: np.random.Generator,
) -> FloatArray:
    """What boosted trees say, log10 of the wait, float64[asked]; the mean of one fit a sample."""
    columns, fits = table.columns(*without), []
    for each in trains:
        fit_to = table.values[each.rows][:, columns]
        edges = bin_edges(fit_to, _BOOSTING["max_bins"])
        trees = HistGradientBoostingRegressor(**_BOOSTING, random_state=int(rng.integers(2**31)))
        # a fit is too small for two cores, and threads that wait for each other spin
        with threadpool_limits(limits=1, user_api="openmp"):
            trees.fit(binned(fit_to, edges), each.log_wait, sample_weight=each.weight)
            fits.append(trees.predict(binned(asked[:, columns], edges)))
    return np.asarray(np.mean(fits, axis=0), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenForecasts:
    """Forecasts that were given at a moment, kept to be scored."""

    moment: float  #: seconds
    rows: IntArray  #: places of their jobs, int64[n]
    sources: FloatArray  #: what each source said, log10 of the wait, float64[sources, n]
    weights: FloatArray  #: of the sources, float64[sources]
    plain: Forecasts  #: the forecasts before their bands were set
    forecasts: Forecasts  #: as they were given
    tails: Tails  #: shares that the bands leave out


def given_at(
    jobs: SeenJobs, asked: SourceForecasts, given: Sequence[GivenForecasts]
) -> GivenForecasts:
    """The forecasts to give at a moment, of what the sources say and what earlier ones came to."""
    moment, jobs = float(jobs.moment[asked.rows[0]]), replace(jobs, look={})
    weights, tails = _weights(jobs, moment, given), _tails(jobs, moment, given)
    # the spread of the draws about another middle
    quantiles = np.quantile(asked.draws, LEVELS, axis=1).T
    middle = quantiles[:, [len(LEVELS) // 2]]
    plain = Forecasts.of_logs((weights @ asked.log_wait)[:, None] + quantiles - middle)
    forecasts = plain
    if len(given) >= FEWEST_MOMENTS:
        kinds = _kinds(jobs.select(asked.rows), plain)
        forecasts = calibrated(plain, kinds, _outcomes(jobs, moment, given), tails)
    return GivenForecasts(
        moment=moment,
        rows=asked.rows,
        sources=asked.log_wait,
        weights=weights,
        plain=plain,
        forecasts=forecasts,
        tails=tails,
    )


def _weights(jobs: SeenJobs, moment: float, given: Sequence[GivenForecasts]) -> FloatArray:
    """Of the sources, by how close each was at earlier moments."""
    if not given:
        return _PRIOR
    rows = np.concatenate([each.rows for each in given])
    said = np.hstack([each.sources for each in given])
    part = jobs.select(rows)
    return weights_by_worth(said, known_log_waits(part, moment), _counts(part), _PRIOR)


def _kinds(jobs: SeenJobs, forecasts: Forecasts) -> IntArray:
    """Class and horizon as one number: whether it asks for GPUs, and how far the forecast looks."""
    return 2 * horizon_of(forecasts) + (jobs.gpus > 0)


def _outcomes(jobs: SeenJobs, moment: float, given: Sequence[GivenForecasts]) -> Outcomes:
    """What the earlier forecasts have come to by a moment."""
    plain = Forecasts(np.vstack([each.plain.seconds for each in given]))
    part = jobs.select(np.concatenate([each.rows for each in given]))
    return Outcomes(
        place=places_of(plain, part.log_wait_by(moment)),
        known=part.started_by(moment),
        weight=_counts(part) * 0.5 ** ((moment - part.moment) / _HALF_LIFE),
        kind=_kinds(part, plain),
    )


def _tails(jobs: SeenJobs, moment: float, given: Sequence[GivenForecasts]) -> Tails:
    """The shares for the next bands, moved by what each earlier moment's bands missed."""
    tails = Tails()
    for each in given:
        part = jobs.select(each.rows)
        so_far, (low, high) = 10.0 ** part.log_wait_by(moment), each.forecasts.band(0.9)
        beyond = ((so_far < low) & part.started_by(moment), so_far > high)
        tails = tails.after(*(float(np.average(one, weights=_counts(part))) for one in beyond))
    return tails


def _counts(jobs: SeenJobs) -> FloatArray:
    """How much each row counts: a batch of n equal jobs as the root of n."""
    batch = codes_of(jobs.moment, jobs.template)
    return 1.0 / np.sqrt(np.bincount(batch)[batch])
