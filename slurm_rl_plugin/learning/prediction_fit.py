"""Fits a run-time prediction to logs, and measures one by itself.

A job that asked for no time counts as one that asked for UNKNOWN_RUN_TIME: its run time, which
stands for the request elsewhere (definitions), would tell the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.history.run_history import SHORT_RUN_TIMES
from slurm_rl_plugin.features.history.run_prediction import (
    KNOWN_FACTS,
    RunTimePrediction,
)
from slurm_rl_plugin.features.history.run_spread import BOUNDS
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.simulator.workloads.recorded_runs import known_at_start, quantiles_at_start
from slurm_rl_plugin.units import BoolArray, FloatArray

#: Jobs taken from each log at most, so that a long log does not outvote a short one.
MOST_JOBS = 20_000
#: Weight of the penalty on large weights; the facts are of order 1.
_PENALTY = 1.0


def fit_prediction(
    logs: Sequence[PreparedLog], jobs: Sequence[int], rng: np.random.Generator
) -> RunTimePrediction:
    """Logistic and ridge regressions on what was known when the jobs of logs started.

    Args:
        logs: whole logs.
        jobs: how many first jobs of each log may be looked at.
        rng: draws MOST_JOBS of them where there are more.

    Raises:
        ConfigurationError: no job.
    """
    from sklearn.linear_model import Ridge  # noqa: PLC0415 - slow, only here

    facts, run_time = _drawn_jobs(logs, jobs, rng)
    length = Ridge(_PENALTY).fit(facts[:, 1:], np.log10(1.0 + run_time))
    below = {bound: _below(facts, run_time < bound) for bound in {*SHORT_RUN_TIMES, *BOUNDS}}
    weights = [below[bound] for bound in SHORT_RUN_TIMES]
    return RunTimePrediction(
        weights=np.array([*weights, [length.intercept_, *length.coef_]]),
        spread=np.array([below[bound] for bound in BOUNDS]),
    )


def _below(facts: FloatArray, below: BoolArray) -> list[float]:
    """Weights of the log odds that a run time lies below a bound, shape [KNOWN_FACTS]."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - slow, only here

    if below.all() or not below.any():  # nothing to tell apart
        return [6.0 if below.all() else -6.0] + [0.0] * (KNOWN_FACTS - 1)
    fitted = LogisticRegression(C=1.0 / _PENALTY, max_iter=1000).fit(facts[:, 1:], below)
    return [fitted.intercept_[0], *fitted.coef_[0]]


def _drawn_jobs(
    logs: Sequence[PreparedLog], jobs: Sequence[int], rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    facts, run_times = [np.empty((0, KNOWN_FACTS))], [np.empty(0)]
    for prepared, count in zip(logs, jobs, strict=True):
        drawn = np.sort(rng.choice(count, size=min(count, MOST_JOBS), replace=False))
        facts.append(known_at_start(prepared)[drawn])
        run_times.append(prepared.log.run_time[drawn])
    run_time = np.concatenate(run_times)
    if len(run_time) == 0:
        raise ConfigurationError(
            "a run-time prediction needs a log with at least one job that ran."
        )
    return np.concatenate(facts), run_time


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionQuality:
    """How well run times of jobs were told when they started.

    Attributes:
        auc: for each of SHORT_RUN_TIMES, how often a shorter run got the higher probability than
            a longer one; .5 is chance. None where all jobs lie on one side.
        log_loss_ratio: for each of SHORT_RUN_TIMES, log loss over that of the jobs' overall share.
        log_error: mean |log10(predicted / actual)| of the run time, a second added to both.
        log_error_requested: the same of the requested time, of the jobs that asked for one; None
            where none did.
        shares_below: shares of the runs that ended below the quantiles of `run_spread.PARTS`, as
            told when they started; None for a prediction without a spread.
        jobs: measured.
    """

    auc: tuple[float | None, ...]
    log_loss_ratio: tuple[float | None, ...]
    log_error: float
    log_error_requested: float | None
    shares_below: tuple[float, ...] | None
    jobs: int


def prediction_quality(
    prediction: RunTimePrediction, prepared: PreparedLog, first: int, last: int
) -> PredictionQuality:
    """Measure a prediction on the jobs first..last-1 of a log, each when the log says it started.

    Args:
        prediction: what is measured.
        prepared: the whole log: history counts from its beginning.
        first: the first measured job.
        last: the job behind the last one.
    """
    from sklearn.metrics import log_loss, roc_auc_score  # noqa: PLC0415 - slow, only here

    facts = known_at_start(prepared)[first:last]
    run_time = prepared.log.run_time[first:last]
    said = facts @ prediction.weights.T
    auc: list[float | None] = []
    loss: list[float | None] = []
    for place, bound in enumerate(SHORT_RUN_TIMES):
        below = run_time < bound
        if below.all() or not below.any():
            auc.append(None)
            loss.append(None)
            continue
        probability = 1.0 / (1.0 + np.exp(-said[:, place]))
        chance = log_loss(below, np.full(len(below), below.mean()))
        auc.append(float(roc_auc_score(below, probability)))
        loss.append(float(log_loss(below, probability) / chance))
    actual = np.log10(1.0 + run_time)
    limit = prepared.log.time_limit[first:last]
    asked = np.isfinite(limit) & (limit > 0)
    off = np.abs(np.log10(1.0 + limit[asked]) - actual[asked])
    return PredictionQuality(
        auc=tuple(auc),
        log_loss_ratio=tuple(loss),
        log_error=float(np.abs(said[:, -1] - actual).mean()),
        log_error_requested=float(off.mean()) if len(off) else None,
        shares_below=_shares_below(prediction, prepared, first, last),
        jobs=len(run_time),
    )


def _shares_below(
    prediction: RunTimePrediction, prepared: PreparedLog, first: int, last: int
) -> tuple[float, ...] | None:
    if prediction.spread is None:
        return None
    told = quantiles_at_start(prepared, prediction.spread)[first:last]
    ended_below = prepared.log.run_time[first:last, None] <= told
    return tuple(float(share) for share in ended_below.mean(axis=0))
