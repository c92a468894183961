"""Forecasts of each day's pending jobs, forward in time, and those they are held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.forecasts.forecast import LEVELS, Forecasts
from slurm_rl_plugin.forecasts.past_waits.features import FeatureTable, features_of
from slurm_rl_plugin.forecasts.past_waits.forward import GivenForecasts, given_at
from slurm_rl_plugin.forecasts.past_waits.seen_jobs import SeenJobs
from slurm_rl_plugin.forecasts.past_waits.sources import SOURCES, SourceForecasts, ask_sources
from slurm_rl_plugin.papers.start_times_2023.baselines import (
    ALL_DAYS,
    BOOSTING,
    LAST,
    MEDIAN,
    boosted_quantiles,
    knowing_all_earlier_days,
    partition_median,
)
from slurm_rl_plugin.papers.study.study import Add
from slurm_rl_plugin.units import FloatArray

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
