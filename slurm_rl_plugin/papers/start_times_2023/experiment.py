"""Forecasts of each day's pending jobs, forward in time, and the forecasts for comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from matplotlib import pyplot as plt
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.forecasts import forecast
from slurm_rl_plugin.forecasts.past_waits.sources import (
    FITS,
    SOURCES,
    GivenForecasts,
    SourceForecasts,
    ask_sources,
    bin_edges,
    binned,
    boosted_log_waits,
    given_at,
    median_of_partition,
)
from slurm_rl_plugin.forecasts.past_waits.wait_forest import (
    HISTORY,
    FeatureTable,
    SeenJobs,
    features_of,
    known_log_waits,
    training_rows,
)
from slurm_rl_plugin.learning.side_by_side import side_by_side
from slurm_rl_plugin.papers.start_times_2023.jobs_file import read_jobs_file
from slurm_rl_plugin.papers.study import claims
from slurm_rl_plugin.papers.study.study import Add, Asked, Outcome
from slurm_rl_plugin.units import FloatArray

LAST, MEDIAN, BOOSTING, ALL_DAYS = (
    "last similar job",
    "median of the partition",
    "gradient boosting without calibration",
    "boosted trees without history, all earlier days known",
)
#: Levels that boosting is fitted to; the others are interpolated.
_FITTED = (0.05, 0.5, 0.95)
_TREES, _BINS = 80, 63


def knowing_all_earlier_days(
    jobs: SeenJobs, table: FeatureTable, moment: float, rng: np.random.Generator
) -> FloatArray:
    """Boosted trees without history, fitted to all earlier days, log10 waits, float64[now].

    As in the published experiments, this uses waits that are not over yet.
    """
    known = replace(jobs, look={}, told=jobs.moment)
    trains = training_rows(known, moment, FITS, rng)
    asked = table.values[jobs.moment == moment]
    return boosted_log_waits(table, trains, asked, (HISTORY,), rng)


def boosted_quantiles(
    jobs: SeenJobs, table: FeatureTable, moment: float, rng: np.random.Generator
) -> forecast.Forecasts:
    """Quantile boosting on the same inputs and rows, without calibration."""
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
    logs = [np.interp(forecast.LEVELS, _FITTED, each) for each in ordered]
    return forecast.Forecasts.of_logs(np.array(logs))


T = TypeVar("T")

#: Polls for training before the first tested one, and under --quick.
TRAINED_ON, QUICK_TRAINED_ON = 20, 6
#: Jobs of a poll, and tested polls, under --quick.
QUICK_JOBS, QUICK_TESTED = 150, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """Forecasts of the tested polls."""

    jobs: SeenJobs  #: of these polls, all with a start
    forecasts: forecast.Forecasts  #: as given, of these jobs
    plain: forecast.Forecasts  #: before calibration
    others: Mapping[str, forecast.Forecasts]  #: for comparison, by name
    weights: FloatArray  #: of the sources at each poll, float64[polls, sources]


class Polls(NamedTuple):
    """The jobs of a file, their inputs, and the tested polls."""

    jobs: SeenJobs  #: in the order of their polls
    table: FeatureTable
    moments: FloatArray  #: of the polls, seconds, ascending
    first: int  #: index of the first tested poll


def polls_of(jobs: SeenJobs, *, quick: bool) -> Polls:
    """The inputs of all jobs; `quick` takes some jobs of each of the first polls."""
    first = QUICK_TRAINED_ON if quick else TRAINED_ON
    if quick:
        moments = np.unique(jobs.moment)[: QUICK_TRAINED_ON + QUICK_TESTED]
        rows = [np.flatnonzero(jobs.moment == each) for each in moments]
        fewer = [each[:: -(-len(each) // QUICK_JOBS)] for each in rows]
        jobs = jobs.select(np.concatenate(fewer))
    moments = np.unique(jobs.moment)
    if len(moments) <= first:
        raise ConfigurationError(
            f"the file has jobs of {len(moments)} poll(s), which is too little to train on: "
            f"give at least {first + 1}; the first {first} are only for training."
        )
    return Polls(jobs, features_of(jobs), moments, first)


def forward(polls: Polls, seed: int, add: Add) -> list[GivenForecasts]:
    """The forecasts of each poll from the second on, from what was known by then."""

    def ask(place: int) -> SourceForecasts | None:
        rng = np.random.default_rng([seed, place])
        return ask_sources(polls.jobs, polls.table, float(polls.moments[place]), rng)

    given: list[GivenForecasts] = []
    places = range(1, len(polls.moments))
    for asked in side_by_side(ask, places, finished=lambda *_: add(1)):
        if asked is not None:
            given.append(given_at(polls.jobs, asked, given))
    return given


def tested(
    polls: Polls, given: Sequence[GivenForecasts], others: Mapping[str, forecast.Forecasts]
) -> Tested:
    """The forecasts of the tested polls, of jobs that have started."""
    late = [each for each in given if each.moment >= polls.moments[polls.first]]
    rows = np.concatenate([each.rows for each in late]) if late else np.zeros(0, dtype=np.int64)
    started = np.isfinite(polls.jobs.start[rows])
    if not started.any():
        raise ConfigurationError(
            "no job of the tested polls has started: give a file with their starts."
        )
    given_by = np.hstack([each.sources for each in late])
    of_sources = {name: certain(given_by[place]) for place, name in enumerate(SOURCES)}
    every = {**others, **of_sources, LAST: of_sources[SOURCES[-1]]}
    return Tested(
        jobs=polls.jobs.select(rows[started]),
        forecasts=_together([each.forecasts for each in late]).select(started),
        plain=_together([each.plain for each in late]).select(started),
        others={name: each.select(started) for name, each in every.items()},
        weights=np.array([each.weights for each in late]),
    )


def compared_forecasts(polls: Polls, seed: int, add: Add) -> dict[str, forecast.Forecasts]:
    """Forecasts of the tested polls without joining and calibration."""

    def forecasts(by: Callable[..., T], kind: int) -> list[T]:
        def at(place: int) -> T:
            rng = np.random.default_rng([seed, place, kind])
            return by(polls.jobs, polls.table, float(polls.moments[place]), rng)

        places = range(polls.first, len(polls.moments))
        return side_by_side(at, places, finished=lambda *_: add(1))

    median = []  # log10 of the median wait so far of each current job's partition
    for moment in polls.moments[polls.first :].tolist():
        known = polls.jobs.select(polls.jobs.moment <= moment)
        median.append(median_of_partition(known, known_log_waits(known, moment), moment))
    return {
        BOOSTING: _together(forecasts(boosted_quantiles, 1)),
        MEDIAN: certain(np.concatenate(median)),
        ALL_DAYS: certain(np.concatenate(forecasts(knowing_all_earlier_days, 2))),
    }


def certain(log_wait: FloatArray) -> forecast.Forecasts:
    """Forecasts without a spread, of log10 waits, float64[n]."""
    return forecast.Forecasts.of_logs(np.repeat(log_wait[:, None], len(forecast.LEVELS), axis=1))


def _together(parts: Sequence[forecast.Forecasts]) -> forecast.Forecasts:
    return forecast.Forecasts(np.vstack([each.seconds for each in parts]))


OURS = "joined and calibrated"
HEADLINE = "forward in time, outcomes known by then"
PUBLISHED_PROTOCOL = "forward in time, all earlier days known"
ERROR, WITHIN_2, WITHIN_3 = (
    "mean square error of log10(wait)",
    "part within a factor of 2",
    "part within a factor of 3",
)
COVERAGE, DAYS = "coverage of the 90 % band", "part of days with coverage of 0.80 to 0.97"
#: The source that knows all earlier days under that protocol.
SIMILAR = SOURCES[1]
#: Bounds of the coverage, pooled and of a day.
POOLED, A_DAY = (0.88, 0.92), (0.80, 0.97)
DECLARED = claims.Declared(__package__)
_MEDIANS = (ERROR, WITHIN_2, WITHIN_3)
_PUBLISHED = ("Mila, Cedar, forward in time", "Mila, Graham, random days")


def rows_of(tested: Tested) -> Iterator[claims.Row]:
    """The figures with goals or published values."""
    yield from _rows_on_medians(HEADLINE, OURS, tested.forecasts, tested, ("goal", *_PUBLISHED))
    inside = forecast.covered(tested.forecasts, tested.jobs.wait, 0.9).astype(np.float64)
    yield claims.row_of(
        *(HEADLINE, OURS, f"{COVERAGE}, to goal", _over_days(tested, inside)),
        baselines={
            name: float(forecast.covered(each, tested.jobs.wait, 0.9).mean())
            for name, each in {"before calibration": tested.plain, **tested.others}.items()
            if has_bands(each)
        },
    )
    days = [each.coverage_90 for each in by_day(tested.forecasts, tested).values()]
    within = np.array([A_DAY[0] <= each <= A_DAY[1] for each in days], dtype=np.float64)
    yield claims.row(HEADLINE, OURS, f"{DAYS}, to goal", within)
    all_days = tested.others[ALL_DAYS]
    yield from _rows_on_medians(PUBLISHED_PROTOCOL, SIMILAR, all_days, tested, _PUBLISHED)


def _rows_on_medians(
    group: str, policy: str, forecasts: forecast.Forecasts, tested: Tested, sources: Sequence[str]
) -> Iterator[claims.Row]:
    """Error and parts within a factor, each compared with the figure of a source."""
    waits = forecast.log_waits(tested.jobs.wait)
    for column in _MEDIANS:
        measured = _over_days(tested, _figure_of_jobs(column, forecasts, waits))
        baselines = {
            name: float(_figure_of_jobs(column, each, waits).mean())
            for name, each in tested.others.items()
        }
        for source in sources:
            yield claims.row_of(
                group, policy, f"{column}, to {source}", measured, baselines=baselines
            )


def has_bands(forecasts: forecast.Forecasts) -> bool:
    """Whether the forecasts have bands and not a single wait each."""
    return bool((forecasts.seconds[:, 0] < forecasts.seconds[:, -1]).any())


def by_day(forecasts: forecast.Forecasts, tested: Tested) -> dict[str, forecast.Scores]:
    """Scores of each poll."""
    return forecast.scores_by(tested.jobs.moment, forecasts, tested.jobs.wait)


def _figure_of_jobs(column: str, forecasts: forecast.Forecasts, waits: FloatArray) -> FloatArray:
    """The contribution of each job to a figure, float64[n]."""
    error = np.abs(forecast.log_waits(forecasts.median) - waits)
    if column == ERROR:
        return np.asarray(error**2)
    return (error <= np.log10(2.0 if column == WITHIN_2 else 3.0)).astype(np.float64)


def _over_days(tested: Tested, of_jobs: FloatArray) -> claims.Measurement:
    """The mean over all jobs, with a bootstrap interval over days."""
    _, day = np.unique(tested.jobs.moment, return_inverse=True)
    return claims.measure(
        np.stack([np.bincount(day, of_jobs), np.bincount(day)]), claims.ratio_of_means
    )


#: The file in a folder of traces.
_IN_TRACES = Path("graham-2021") / "jobs.parquet"
_SEED = 0
#: Scores without a meaning for a single wait.
_OF_BANDS = ("coverage_50", "coverage_90", "width_50", "width_90", "pinball")


def _days_figure(tested: Tested) -> Any:
    figure, (errors, coverages) = plt.subplots(2, 1, figsize=(10, 6), layout="constrained")
    days = by_day(tested.forecasts, tested)
    places = np.arange(1, len(days) + 1)
    for name, forecasts in {OURS: tested.forecasts, LAST: tested.others[LAST]}.items():
        values = [each.square_error for each in by_day(forecasts, tested).values()]
        errors.plot(places, values, "o-", markersize=3, label=name)
    errors.set_ylabel("mean square error of log10(wait)")
    errors.set_yscale("log")
    errors.legend()
    coverages.plot(places, [each.coverage_90 for each in days.values()], "o-", markersize=3)
    for bounds, alpha in ((A_DAY, 0.15), (POOLED, 0.3)):
        coverages.axhspan(*bounds, color="grey", alpha=alpha)
    coverages.set_ylabel("coverage of the 90 % band")
    coverages.set_xlabel("day that is tested")
    return figure


def run(asked: Asked) -> Outcome:
    """Forecast every job of every poll from the 21st on, and score the forecasts."""
    asked.refuse_seeds("its file is given")
    path = asked.logs
    path = path / _IN_TRACES if path.is_dir() else path
    polls = polls_of(read_jobs_file(path), quick=asked.quick)
    steps = len(polls.moments) - 1 + 2 * len(polls.moments[polls.first :])
    with asked.bar("learning and forecasting", steps) as add:
        given = forward(polls, _SEED, add)
        found = tested(polls, given, compared_forecasts(polls, _SEED, add))
    return Outcome(
        claims=DECLARED.claims(rows_of(found)),
        seeds=(),
        facts=_facts(found),
        drawings={"start-times.png": lambda: _days_figure(found)},
    )


def _facts(found: Tested) -> dict[str, Any]:
    jobs, forecasts = found.jobs, found.forecasts
    horizons = list(forecast.HORIZONS)
    return {
        "tested": {"polls": len(found.weights), "jobs": len(jobs)},
        "pooled": {
            name: _scored(each, jobs.wait)
            for name, each in {
                OURS: forecasts,
                "before calibration": found.plain,
                **found.others,
            }.items()
        },
        "weights": dict(zip(SOURCES, found.weights.mean(axis=0).tolist(), strict=True)),
        "by day": _named(
            by_day(forecasts, found),
            lambda key: str(np.datetime64(int(float(key)), "s").astype("datetime64[D]")),
        ),
        "by class": _named(
            forecast.scores_by((jobs.gpus > 0).astype(np.int64), forecasts, jobs.wait),
            lambda key: ("CPUs", "GPUs")[int(key)],
        ),
        "by horizon": _named(
            forecast.scores_by(forecast.horizon_of(forecasts), forecasts, jobs.wait),
            lambda key: horizons[int(key)],
        ),
        "by partition": _named(forecast.scores_by(jobs.partition, forecasts, jobs.wait), str),
    }


def _scored(forecasts: forecast.Forecasts, waits: FloatArray) -> dict[str, float | None]:
    """The scores; those of bands are None for forecasts of a single wait."""
    scores: dict[str, float | None] = {**forecast.scores_of(forecasts, waits).as_json()}
    of_bands = () if has_bands(forecasts) else _OF_BANDS
    return {name: None if name in of_bands else value for name, value in scores.items()}


def _named(found: Mapping[str, forecast.Scores], name: Any) -> dict[str, dict[str, float]]:
    return {name(key): scores.as_json() for key, scores in found.items()}
