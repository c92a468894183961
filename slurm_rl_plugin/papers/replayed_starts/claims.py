"""What is claimed: nearer than the plan by limits, and bands that hold what they say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slurm_rl_plugin.forecasts.forecast import Forecasts
from slurm_rl_plugin.forecasts.scores import covered, log_waits
from slurm_rl_plugin.papers.replayed_starts.experiment import ForetoldLog
from slurm_rl_plugin.papers.study.claims import Cell, Claim, Judgement, Measurement, Printed
from slurm_rl_plugin.papers.study.verdicts import bounded
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.utility.intervals import of_blocks

TO_PLAN = "median |log10 error| / plan's by limits"
COVERAGE, DAYS = "coverage of the 90 % band", "part of days with coverage of .80 to .97"
#: The goals: at most so much of the plan's error; coverage of all and of a day; days within.
_RATIO, _POOLED, _A_DAY, _PART = "0.5", (0.88, 0.92), (0.80, 0.97), "0.90"


def claims_of(log: str, order: str, found: ForetoldLog) -> Iterator[Claim]:
    """The figures of a log under one order against their goals.

    Args:
        log: its name.
        order: as reports call it.
        found: its forecasts.
    """
    truth = log_waits(found.wait)
    errors = np.stack(
        [np.abs(log_waits(each) - truth) for each in (found.forecasts.median, found.planned)]
    )
    yield bounded(
        Cell(log, order, TO_PLAN),
        _over_days(found.day, errors),
        _RATIO,
        least=False,
        logs=1,
        source="goal",
    )
    inside = covered(found.forecasts, found.wait, 0.9).astype(np.float64)
    low, high = _POOLED
    yield Claim(
        cell=Cell(log, order, COVERAGE),
        measured=Measurement(value=float(inside.mean())),
        printed=Printed.of("0.90"),
        source="goal",
        baselines={"before bands were set": _coverage(found.plain, found.wait)},
        judged=Judgement(
            bool(low <= inside.mean() <= high),
            f"{inside.mean():.3f} against {low:.2f} to {high:.2f}",
        ),
    )
    days = np.array([inside[found.day == day].mean() for day in np.unique(found.day)])
    within = (days >= _A_DAY[0]) & (days <= _A_DAY[1])
    yield bounded(
        Cell(log, order, DAYS),
        Measurement(value=float(within.mean())),
        _PART,
        least=True,
        logs=1,
        source="goal",
    )


def ratio_of_medians(pair: FloatArray) -> float:
    """Median of the first row over that of the second, shape [2, m]; 1 where both are 0."""
    ours, others = np.median(pair, axis=1)
    if others == 0.0:
        return 1.0 if ours == 0.0 else float(np.inf)
    return float(ours / others)


def _over_days(day: IntArray, pair: FloatArray) -> Measurement:
    """The ratio of medians, its interval from days drawn again; none where any has no ratio."""
    again = of_blocks(day, lambda jobs: ratio_of_medians(pair[:, jobs]))
    known = again if np.isfinite(again).all() else np.empty(0)
    return Measurement.of(ratio_of_medians(pair), known)


def _coverage(forecasts: Forecasts, wait: FloatArray) -> float:
    return float(covered(forecasts, wait, 0.9).mean())
