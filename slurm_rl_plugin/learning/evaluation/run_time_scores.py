"""Proper scores of run times predicted from past runs, forward in time on a log's own schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slurm_rl_plugin.features.history.run_history import (
    AS_ASKED,
    BOUNDS,
    PARTS,
    asked_time,
    expected_run,
)
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.simulator.workloads.recorded_runs import (
    hazards_at_submission,
    quantiles_at_start,
)
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Least probability in a score, so that no job outweighs all others.
LEAST = 1e-6
#: log10 of the edges in seconds between which distributions and outcomes are compared.
_EDGES = np.log10([5.0, *BOUNDS])


def run_time_scores(prepared: PreparedLog, first: int, last: int) -> Mapping[str, Any]:
    """Scores of the predictions at submission for jobs from `first` to before `last`.

    The log is complete from its begin, so earlier runs are known.

    Returns:
        `log_score`: mean of -ln of the predicted probability of the interval in which the run
        ended, or of its time limit; `crps`: mean of the squared difference between the predicted
        share of shorter runs and 0 or 1, over log10 of seconds; `log_error`: mean absolute error of
        log10 of the predicted run time; `log_error_requested`: the same for the request;
        `shares_below`: shares of the runs that ended below the quantiles of PARTS.
    """
    part = slice(first, last)
    jobs = prepared.log.select(np.arange(first, last))
    limit = asked_time(jobs.time_limit)
    hazards = hazards_at_submission(prepared)[part]
    mean, rate = expected_run(hazards.T, limit)
    ran = np.maximum(np.minimum(jobs.run_time, limit), 1.0)
    length = np.sqrt(mean / rate)
    shorter = np.asarray(1.0 - np.cumprod(1.0 - hazards * reached(limit), axis=1), np.float64)
    quantiles = quantiles_at_start(prepared)[part]
    return {
        "log_score": float(np.mean(log_scores(parts_of(hazards, limit), outcome(ran, limit)))),
        "crps": float(np.mean(crps(shorter, ran, limit))),
        "log_error": float(np.mean(np.abs(np.log10(length / ran)))),
        "log_error_requested": float(np.mean(np.abs(np.log10(limit / ran)))),
        "shares_below": {
            str(share): float(np.mean(jobs.run_time <= quantiles[:, place]))
            for place, share in enumerate(PARTS)
        },
    }


def reached(limit: FloatArray) -> BoolArray:
    """Whether a run may end in each interval before its limit ends it, shape [n, len(BOUNDS)]."""
    return np.asarray(AS_ASKED * limit[:, None] > np.array([0.0, *BOUNDS[:-1]]))


def outcome(ran: FloatArray, limit: FloatArray) -> IntArray:
    """Interval in which each run ended, len(BOUNDS) if its limit ended it; shape [n]."""
    place = np.searchsorted(BOUNDS, ran, side="right")
    return np.where(ran >= AS_ASKED * limit, len(BOUNDS), place)


def parts_of(hazards: FloatArray, limit: FloatArray) -> FloatArray:
    """Probability of each `outcome` by hazards of shape [n, len(BOUNDS)]."""
    hazards = hazards * reached(limit)
    outlived = np.cumprod(1.0 - hazards, axis=1)
    before = np.column_stack([np.ones(len(limit)), outlived])
    return np.column_stack([before[:, :-1] * hazards, before[:, -1]])


def log_scores(parts: FloatArray, came: IntArray) -> FloatArray:
    """-ln of the probability of the outcome, shape [n]."""
    return -np.log(np.maximum(parts[np.arange(len(came)), came], LEAST))


def crps(shorter: FloatArray, ran: FloatArray, limit: FloatArray) -> FloatArray:
    """Continuous ranked probability score of each job over log10 of seconds, shape [n].

    `shorter` is the predicted share of runs that end before each of BOUNDS, [n, len(BOUNDS)].
    """
    high = np.minimum(_EDGES[1:], np.log10(limit)[:, None])
    width = np.maximum(high - _EDGES[:-1], 0.0) * reached(limit)
    ended = (np.array(BOUNDS) > ran[:, None]) & (ran < AS_ASKED * limit)[:, None]
    return np.asarray(((shorter - ended) ** 2 * width).sum(axis=1))
