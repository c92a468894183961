"""Forecasts of each day's pending jobs, forward in time, and those they are held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.forecasts.forecast import LEVELS, Forecasts
from slurm_rl_plugin.forecasts.past_waits.binning import bin_edges, binned
from slurm_rl_plugin.forecasts.past_waits.features import HISTORY, FeatureTable, features_of
from slurm_rl_plugin.forecasts.past_waits.forward import GivenForecasts, given_at
from slurm_rl_plugin.forecasts.past_waits.last_similar import median_of_partition
from slurm_rl_plugin.forecasts.past_waits.seen_jobs import SeenJobs
from slurm_rl_plugin.forecasts.past_waits.sources import (
    FITS,
    SOURCES,
    SourceForecasts,
    ask_sources,
    boosted_log_waits,
)
from slurm_rl_plugin.forecasts.past_waits.training_rows import known_log_waits, training_rows
from slurm_rl_plugin.papers.study.study import Add
from slurm_rl_plugin.units import FloatArray

LAST, MEDIAN, BOOSTING, ALL_DAYS = (
    "last similar job",
    "median of the partition",
    "gradient boosting without calibration",
    "boosted trees without history, all earlier days known",
)
#: Levels that boosting is fitted to; the others lie straight between.
_FITTED = (0.05, 0.5, 0.95)
_TREES, _BINS = 80, 63


def partition_median(jobs: SeenJobs, moment: float) -> FloatArray:
    """log10 of the median wait of its partition so far, of the jobs of a moment, float64[now]."""
    known = jobs.select(jobs.moment <= moment)
    return median_of_partition(known, known_log_waits(known, moment), moment)


def knowing_all_earlier_days(
    jobs: SeenJobs, table: FeatureTable, moment: float, rng: np.random.Generator
) -> FloatArray:
    """What the boosted trees without history say where waits are known that still last then.

    So the published experiments have it: fitted to all earlier days. Float64[now], log10.

    Args:
        jobs: those of the moment, and all before.
        table: their inputs.
        moment: seconds.
        rng: of all chance.
    """
    told = replace(jobs, look={}, told=jobs.moment)
    trains = training_rows(told, moment, FITS, rng)
    asked = table.values[jobs.moment == moment]
    return boosted_log_waits(table, trains, asked, (HISTORY,), rng)


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


T = TypeVar("T")

#: Polls that are learned from before the first one that is tested, and of --quick.
TRAINED_ON, QUICK_TRAINED_ON = 20, 6
#: Jobs of a poll, and polls that are tested, under --quick.
QUICK_JOBS, QUICK_TESTED = 150, 4
#: Fits run at a time; more would wait for each other.
_AT_A_TIME = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """What came out on the polls that are tested.

    Attributes:
        jobs: of these polls, all of which have started.
        forecasts: as they were given, of these jobs.
        plain: before their bands were set.
        others: name -> forecasts that ours are held against; those without a spread have none.
        weights: of the sources at each poll, float64[polls, sources].
    """

    jobs: SeenJobs
    forecasts: Forecasts
    plain: Forecasts
    others: Mapping[str, Forecasts]
    weights: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Polls:
    """The jobs of a file, their inputs, and which polls are tested.

    Attributes:
        jobs: in the order of their polls.
        table: their inputs.
        moments: of the polls, seconds, rising.
        first: place of the first poll that is tested.
    """

    jobs: SeenJobs
    table: FeatureTable
    moments: FloatArray
    first: int

    @classmethod
    def of(cls, jobs: SeenJobs, *, quick: bool) -> Polls:
        """Make the inputs of all jobs.

        Args:
            jobs: of a file.
            quick: whether a few jobs of a few polls are enough.

        Raises:
            ConfigurationError: there are too few polls to learn from.
        """
        jobs = _fewer(jobs) if quick else jobs
        first, moments = (QUICK_TRAINED_ON if quick else TRAINED_ON), np.unique(jobs.moment)
        if len(moments) <= first:
            raise ConfigurationError(
                f"the file has jobs of {len(moments)} poll(s), which is too "
                f"little to learn from: give at least {first + 1}, of which {first} are only "
                "learned from."
            )
        return cls(jobs=jobs, table=features_of(jobs), moments=moments, first=first)

    @property
    def tested(self) -> FloatArray:
        """Moments of the polls that are tested."""
        return self.moments[self.first :]

    @property
    def steps(self) -> int:
        """Parts of the work of `forward` and `held_against`."""
        return len(self.moments) - 1 + 2 * len(self.tested)


def forward(polls: Polls, seed: int, add: Add) -> list[GivenForecasts]:
    """The forecasts of each poll from the second on, each knowing what had happened by then.

    Args:
        polls: of a file.
        seed: of all chance.
        add: told how many polls more are done.
    """

    def ask(place: int) -> SourceForecasts | None:
        rng = np.random.default_rng([seed, place])
        return ask_sources(polls.jobs, polls.table, float(polls.moments[place]), rng)

    given: list[GivenForecasts] = []
    for asked in _in_order(ask, range(1, len(polls.moments)), add):
        if asked is not None:
            given.append(given_at(polls.jobs, asked, given))
    return given


def tested(
    polls: Polls, given: Sequence[GivenForecasts], others: Mapping[str, Forecasts]
) -> Tested:
    """Those forecasts that are tested: of jobs that have started, at the polls from the first on.

    Args:
        polls: of a file.
        given: the forecasts of `forward`.
        others: what they are held against, of all jobs of the tested polls.

    Raises:
        ConfigurationError: no such job has started.
    """
    late = [each for each in given if each.moment >= polls.tested[0]]
    rows = np.concatenate([each.rows for each in late]) if late else np.zeros(0, dtype=np.int64)
    started = np.isfinite(polls.jobs.start[rows])
    if not started.any():
        raise ConfigurationError(
            "no job of the polls that are tested has started: give a file with their starts."
        )
    said = np.hstack([each.sources for each in late])
    of_sources = {name: certain(said[place]) for place, name in enumerate(SOURCES)}
    every = {**others, **of_sources, LAST: of_sources[SOURCES[-1]]}
    return Tested(
        jobs=polls.jobs.select(rows[started]),
        forecasts=_together([each.forecasts for each in late]).select(started),
        plain=_together([each.plain for each in late]).select(started),
        others={name: each.select(started) for name, each in every.items()},
        weights=np.array([each.weights for each in late]),
    )


def held_against(polls: Polls, seed: int, add: Add) -> dict[str, Forecasts]:
    """What is learned from the same polls without joining and calibration, of the tested polls.

    Args:
        polls: of a file.
        seed: of all chance.
        add: told how many polls more are done.
    """

    def boosted(place: int) -> Forecasts:
        rng = np.random.default_rng([seed, place, 1])
        return boosted_quantiles(polls.jobs, polls.table, float(polls.moments[place]), rng)

    def of_all_days(place: int) -> FloatArray:
        rng = np.random.default_rng([seed, place, 2])
        return knowing_all_earlier_days(polls.jobs, polls.table, float(polls.moments[place]), rng)

    places = range(polls.first, len(polls.moments))
    median = [partition_median(polls.jobs, float(each)) for each in polls.tested]
    return {
        BOOSTING: _together(_in_order(boosted, places, add)),
        MEDIAN: certain(np.concatenate(median)),
        ALL_DAYS: certain(np.concatenate(_in_order(of_all_days, places, add))),
    }


def certain(log_wait: FloatArray) -> Forecasts:
    """Forecasts without a spread, of log10 waits, float64[n]."""
    return Forecasts.of_logs(np.repeat(log_wait[:, None], len(LEVELS), axis=1))


def _together(parts: Sequence[Forecasts]) -> Forecasts:
    return Forecasts(np.vstack([each.seconds for each in parts]))


def _in_order(work: Callable[[int], T], places: range, add: Add) -> list[T]:
    """Do some work at each place, a few at a time; what came out, in order."""
    found: list[T] = []
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        for each in pool.map(work, places):
            add(1)
            found.append(each)
    return found


def _fewer(jobs: SeenJobs) -> SeenJobs:
    """Some jobs of the first polls, spread over each."""
    moments = np.unique(jobs.moment)[: QUICK_TRAINED_ON + QUICK_TESTED]
    rows = [np.flatnonzero(jobs.moment == each) for each in moments]
    return jobs.select(np.concatenate([each[:: -(-len(each) // QUICK_JOBS)] for each in rows]))
