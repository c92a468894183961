"""Proper scores of predicted run times: the package's predictor and simpler or dearer ones.

    python -m tests.bench.forecasts.run_time_predictors SDSC-SP2.swf.gz CTC-SP2.swf.gz

Every job's run time is predicted as the job is submitted, by the log's own schedule: from the runs
that had ended by then, and, by the package's predictor, from what running jobs had outlived. The
last 40 % of the jobs are scored. A predictor that gives a number alone is spread as the runs that
had ended before them were about theirs; trees are fitted again after each REFIT jobs.

Each predictor gives a distribution over OUTCOMES: the run ends between two of BOUNDS, or its time
limit ends it (a run of two days or more counts as such). Of the distribution: `log_score`, mean of
-ln of the probability of what happened, at least 1e-6; `crps` over log10 of seconds, between the
bounds. Of the mean run time and of the mean of 1 / max(run time, 10 s): `mean_ratio` and
`inverse_ratio`, predicted over true in the sum, and `mean_error` and `inverse_error`, mean |ln| of
that ratio in each tenth of the jobs by the predicted value.

`against` is the mean of a predictor's log score less the package's, and its 95 % interval by blocks
of a week, of a day where fewer than five weeks are scored: below 0 is better than the package.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.features.history.run_history import (
    AS_ASKED,
    AT_RISK,
    BOUNDS,
    ENDED_BEFORE,
    PRIOR_RUNS,
    SHORTEST,
    UNKNOWN_HAZARD,
    asked_time,
    expected_run,
)
from slurm_rl_plugin.learning.evaluation.run_time_scores import (
    crps,
    log_scores,
    outcome,
    parts_of,
    reached,
)
from slurm_rl_plugin.measure.intervals import Blocks, Interval, verdict, widened
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.simulator.workloads.recorded_runs import (
    RecordedPast,
    hazards_at_submission,
    recent_runs,
)
from slurm_rl_plugin.units import DAY, HOUR, FloatArray, IntArray

#: Intervals between bounds, and the time limit.
OUTCOMES = len(BOUNDS) + 1
#: Part of the jobs before those that are scored.
FITTED = 0.6
#: Levels of shrunk means: how much a run weighs when the next has ended, and by how many runs of
#: the level above means are drawn towards it. Request, user, user and request, and width.
LEVELS = ((0.999, 5.0), (0.9, 1.0), (0.8, 0.7), (0.8, 0.7))
#: Mean run time over the request, and mean inverse times the request, where nothing has ended.
OF_REQUEST, INVERSE_OF_REQUEST = 0.4, 3.0
#: The trees: jobs between two fits, runs that each fit sees, and probability spread over OUTCOMES.
REFIT, SEEN, SPREAD = 1000, 40_000, 0.01


class Runs(NamedTuple):
    """A log's jobs, shape [n] each: `limit` in seconds, `ran` at most the limit, 1 s at least."""

    prepared: PreparedLog
    limit: FloatArray
    ran: FloatArray

    @classmethod
    def of(cls, prepared: PreparedLog) -> Runs:
        limit = np.maximum(asked_time(prepared.log.time_limit), 1.0)
        # elsewhere in the package a job's run time replaces a missing request
        prepared = replace(prepared, log=replace(prepared.log, time_limit=limit))
        return cls(prepared, limit, np.clip(prepared.log.run_time, 1.0, limit))

    @property
    def first(self) -> int:
        """The first job that is scored."""
        return int(FITTED * len(self.ran))


class Predicted(NamedTuple):
    """Probability of each of OUTCOMES, shape [n, OUTCOMES]; mean run time and inverse, [n]."""

    parts: FloatArray
    mean: FloatArray
    rate: FloatArray


def within_limit(parts: FloatArray, limit: FloatArray) -> FloatArray:
    """The same with what intervals beyond the limit have given to the limit, sum 1."""
    ended = parts[:, :-1] * reached(limit)
    return np.column_stack([ended, 1.0 - ended.sum(axis=1)])


def predicted(parts: FloatArray, limit: FloatArray) -> Predicted:
    """A distribution with its own means."""
    rest = 1.0 - np.column_stack([np.zeros(len(parts)), parts[:, :-2].cumsum(axis=1)])
    hazards = parts[:, :-1] / np.maximum(rest, 1e-12)
    return Predicted(parts, *expected_run(np.clip(hazards, 0.0, 1.0).T, limit))


def ratio_and_error(guess: FloatArray, true: FloatArray) -> tuple[float, float]:
    """Predicted over true sum, and mean |ln| of that ratio in tenths by prediction."""
    tenths = np.array_split(np.argsort(guess, kind="stable"), 10)
    errors = [abs(np.log(guess[part].sum() / true[part].sum())) for part in tenths if len(part)]
    return float(guess.sum() / true.sum()), float(np.mean(errors))


def by_blocks(difference: FloatArray, submit: FloatArray) -> tuple[float, Interval]:
    """Mean over jobs, and its interval by blocks of submission time."""
    blocks = Blocks.over(submit, np.random.default_rng(0))
    mean = float(difference.mean())
    drawn = blocks.means(difference, np.arange(len(submit)))
    return mean, widened(drawn, mean, blocks.count)


def about(point: FloatArray, runs: Runs) -> FloatArray:
    """A distribution about a point, with the spread of the runs that ended before the scored ones.

    `point` has shape [n], seconds.
    """
    known = ended_at(runs)[: runs.first] <= runs.prepared.log.submit[runs.first]
    off = np.sort(np.log(runs.ran[: runs.first] / point[: runs.first])[known])
    top = np.log(np.minimum(np.array(BOUNDS), AS_ASKED * runs.limit[:, None]))
    below = np.searchsorted(off, top - np.log(point)[:, None]) / len(off)
    return np.column_stack([np.diff(below, axis=1, prepend=0.0), 1.0 - below[:, -1]])


def shrunk_means(runs: Runs) -> FloatArray:
    """Mean run time and mean inverse of each level as jobs came, shape [n, len(LEVELS), 2]."""
    log = runs.prepared.log
    jobs = np.arange(len(log))
    ended = ended_at(runs)
    kinds = np.repeat([0, 1], len(log))
    order = np.lexsort((np.tile(jobs, 2), kinds, np.concatenate([ended, log.submit])))
    long = np.floor(np.log2(runs.limit)).astype(int)
    request = np.unique(runs.limit, return_inverse=True)[1].reshape(-1)
    keys = [
        (("request", a), ("user", u), ("user", u, b), ("user", u, b, c))
        for a, u, b, c in zip(
            long.tolist(), log.user.tolist(), request.tolist(), log.processors.tolist(), strict=True
        )
    ]
    sums: dict[tuple[Any, ...], list[float]] = {}
    inverse = 1.0 / np.maximum(runs.ran, SHORTEST)
    means = np.empty((len(log), len(LEVELS), 2))
    for event in order.tolist():
        job, submitted = event % len(log), event >= len(log)
        mean = OF_REQUEST * runs.limit[job]
        rate = INVERSE_OF_REQUEST / max(runs.limit[job], SHORTEST)
        for level, (key, (keeps, prior)) in enumerate(zip(keys[job], LEVELS, strict=True)):
            row = sums.get(key, [0.0, 0.0, 0.0])
            if submitted:
                mean = (row[1] + prior * mean) / (row[0] + prior)
                rate = (row[2] + prior * rate) / (row[0] + prior)
                means[job, level] = mean, rate
            else:
                new = (1.0, runs.ran[job], inverse[job])
                sums[key] = [keeps * old + each for old, each in zip(row, new, strict=True)]
    return means


def ended_at(runs: Runs) -> FloatArray:
    """Second at which each run ended; jobs of unknown start began at submission."""
    log = runs.prepared.log
    return np.where(np.isfinite(log.start), log.start, log.submit) + log.run_time


def by_package(runs: Runs) -> Predicted:
    """The package's predictor."""
    return predicted(parts_of(hazards_at_submission(runs.prepared), runs.limit), runs.limit)


def by_class(runs: Runs) -> Predicted:
    """Its first level alone: runs of all users with a similar request."""
    replay, submit = RecordedPast(runs.prepared), runs.prepared.log.submit
    row = replay.past.alike[replay.past.template]
    site = np.empty((len(submit), replay.past.site.shape[1]))
    for job in range(len(submit)):
        replay.run(float(np.nextafter(submit[job], np.inf)))
        site[job] = replay.past.site[row[job]]
    ended, came = (site[:, place : place + len(BOUNDS)] for place in (ENDED_BEFORE, AT_RISK))
    hazards = (ended + PRIOR_RUNS[0] * UNKNOWN_HAZARD) / (came + PRIOR_RUNS[0])
    return predicted(parts_of(hazards, runs.limit), runs.limit)


def by_limit(runs: Runs) -> Predicted:
    """The time limit."""
    return predicted(about(runs.limit, runs), runs.limit)


def by_last_two(runs: Runs) -> Predicted:
    """The mean of the user's last two runs (Tsafrir, Etsion and Feitelson 2007)."""
    recent = recent_runs(runs.prepared)
    return Predicted(about(recent.predicted, runs), recent.predicted, recent.rate)


def by_means(runs: Runs) -> Predicted:
    """Live shrunk means."""
    mean, rate = shrunk_means(runs)[:, -1].T
    return Predicted(about(np.sqrt(mean / rate), runs), mean, rate)


def known_columns(runs: Runs) -> FloatArray:
    """Features of the trees for each job at submission, shape [n, columns]."""
    log, recent = runs.prepared.log, recent_runs(runs.prepared)
    means = np.log(shrunk_means(runs)).reshape(len(log), -1)
    request = np.log([runs.limit, log.processors])
    last = np.log([recent.predicted, recent.rate])
    return np.column_stack([*request, *last, means, log.submit % DAY // HOUR])


def grown(columns: FloatArray, came: IntArray) -> HistGradientBoostingClassifier:
    """Trees that predict the outcome; with less regularization rare outcomes get extreme values."""
    trees = HistGradientBoostingClassifier(
        max_iter=50,
        max_leaf_nodes=8,
        min_samples_leaf=50,
        l2_regularization=10.0,
        early_stopping=False,
    )
    with threadpool_limits(limits=1, user_api="openmp"):
        return trees.fit(columns, came)


def by_trees(runs: Runs) -> Predicted:
    """Boosted trees over request, user and their means."""
    columns, came, ended = known_columns(runs), outcome(runs.ran, runs.limit), ended_at(runs)
    submit, parts = runs.prepared.log.submit, np.zeros((len(came), OUTCOMES))
    for first in range(runs.first, len(came), REFIT):
        part = slice(first, first + REFIT)
        past = np.flatnonzero(ended[:first] <= submit[first])[-SEEN:]
        trees = grown(columns[past], came[past])
        parts[part, trees.classes_] = trees.predict_proba(columns[part])
    parts = (1.0 - SPREAD) * parts + SPREAD / OUTCOMES
    return predicted(within_limit(parts, runs.limit), runs.limit)


PREDICTORS: dict[str, Callable[[Runs], Predicted]] = {
    "package": by_package,
    "class": by_class,
    "limit": by_limit,
    "last two": by_last_two,
    "means": by_means,
    "trees": by_trees,
}


def scored(runs: Runs, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Scores of the package's predictor and of the named ones on the last jobs."""
    part, package = slice(runs.first, None), None
    ran, limit, submit = runs.ran[part], runs.limit[part], runs.prepared.log.submit[part]
    came = outcome(ran, limit)
    for name in ("package", *names):
        parts, mean, rate = (each[part] for each in PREDICTORS[name](runs))
        scores = log_scores(parts, came)
        package = scores if package is None else package
        difference, interval = by_blocks(scores - package, submit)
        figures: dict[str, Any] = {
            "log_score": float(scores.mean()),
            "against": [difference, interval, verdict(interval)],
            "crps": float(crps(parts[:, :-1].cumsum(axis=1), ran, limit).mean()),
        }
        figures["mean_ratio"], figures["mean_error"] = ratio_and_error(mean, ran)
        true = 1.0 / np.maximum(ran, SHORTEST)
        figures["inverse_ratio"], figures["inverse_error"] = ratio_and_error(rate, true)
        yield name, figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Predicts, scores and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path, nargs="+")
    parser.add_argument("--predictor", action="append", choices=[*PREDICTORS][1:])
    chosen = parser.parse_args(arguments)
    for path in chosen.log:
        log = read_log(path)[0]
        capacity = log.processors_available or int(log.processors.max())
        runs = Runs.of(prepare_log(log, capacity=capacity))
        print(f"{path.name}: {len(runs.ran) - runs.first} of {len(runs.ran)} jobs")
        for name, figures in scored(runs, chosen.predictor or [*PREDICTORS][1:]):
            print(json.dumps({name: figures}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
