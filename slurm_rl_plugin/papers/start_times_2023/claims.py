"""What is claimed of the forecasts: goals, and the figures that were published, as bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.forecasts.forecast import Forecasts
from slurm_rl_plugin.forecasts.scores import Scores, covered, log_waits, scores_by
from slurm_rl_plugin.papers.start_times_2023.experiment import Tested
from slurm_rl_plugin.papers.study.claims import (
    Cell,
    Claim,
    Judgement,
    Measurement,
    Printed,
    measure,
    ratio_of_means,
)
from slurm_rl_plugin.papers.study.verdicts import bounded
from slurm_rl_plugin.units import FloatArray

OURS = "joined and calibrated"
HEADLINE = "forward in time, outcomes known by then"
PUBLISHED_PROTOCOL = "forward in time, all earlier days known"
ERROR, WITHIN_2, WITHIN_3 = (
    "mean square error of log10(wait)",
    "part within a factor of 2",
    "part within a factor of 3",
)
COVERAGE, DAYS = "coverage of the 90 % band", "part of days with coverage of .80 to .97"
#: Bounds of the coverage, pooled and of a day, and the part of days within.
POOLED, A_DAY, PART_OF_DAYS = (0.88, 0.92), (0.80, 0.97), "0.90"


class _Figure(NamedTuple):
    """A figure, its goal, and whether it is to be at least that."""

    column: str
    goal: str
    least: bool


_FIGURES = (
    _Figure(ERROR, ".26", False),
    _Figure(WITHIN_2, ".55", True),
    _Figure(WITHIN_3, ".73", True),
)
#: Who published figures of that kind, and the three of them.
_PUBLISHED: Mapping[str, tuple[str, str, str]] = {
    "Mila, Cedar, forward in time": (".596", ".333", ".504"),
    "Mila, Graham, random days": (".66", ".42", ".60"),
}


def claims_of(group: str, tested: Tested) -> list[Claim]:
    """The figures of a protocol against goals and against what was published.

    Args:
        group: the protocol.
        tested: what came out under it.
    """
    return [*_claims_on_medians(group, tested), *_claims_on_bands(group, tested)]


def _claims_on_medians(group: str, tested: Tested) -> Iterator[Claim]:
    waits = log_waits(tested.jobs.wait)
    for place, figure in enumerate(_FIGURES):
        measured = _over_days(tested, _figure_of_jobs(figure.column, tested.forecasts, waits))
        baselines = {
            name: float(_figure_of_jobs(figure.column, each, waits).mean())
            for name, each in tested.others.items()
        }
        bounds = {"goal": figure.goal}
        bounds |= {name: printed[place] for name, printed in _PUBLISHED.items()}
        for source, bound in bounds.items():
            yield bounded(
                Cell(group, OURS, f"{figure.column}, to {source}"),
                measured,
                bound,
                least=figure.least,
                logs=1,  # the figure itself is judged, not how far its interval reaches
                source=source,
                baselines=baselines,
            )


def _claims_on_bands(group: str, tested: Tested) -> Iterator[Claim]:
    inside = covered(tested.forecasts, tested.jobs.wait, 0.9).astype(np.float64)
    measured = _over_days(tested, inside)
    low, high = POOLED
    yield Claim(
        cell=Cell(group, OURS, f"{COVERAGE}, to goal"),
        measured=measured,
        printed=Printed.of("0.90"),
        source="goal",
        baselines=_coverages(tested),
        judged=Judgement(
            low <= measured.value <= high,
            f"{measured.value:.4g} against {low:.2f} to {high:.2f}",
        ),
    )
    days = [each.coverage_90 for each in by_day(tested.forecasts, tested).values()]
    within = np.array([A_DAY[0] <= each <= A_DAY[1] for each in days], dtype=np.float64)
    yield bounded(
        Cell(group, OURS, f"{DAYS}, to goal"),
        measure(within),
        PART_OF_DAYS,
        least=True,
        logs=1,
        source="goal",
    )


def _coverages(tested: Tested) -> dict[str, float]:
    """Of those baselines that tell a band, and of ours before it was set."""
    spread = {
        name: each
        for name, each in tested.others.items()
        if (each.seconds[:, 0] < each.seconds[:, -1]).any()
    }
    return {
        name: float(covered(each, tested.jobs.wait, 0.9).mean())
        for name, each in {"before calibration": tested.plain, **spread}.items()
    }


def by_day(forecasts: Forecasts, tested: Tested) -> dict[str, Scores]:
    """Scores of each poll."""
    return scores_by(tested.jobs.moment, forecasts, tested.jobs.wait)


def _figure_of_jobs(column: str, forecasts: Forecasts, waits: FloatArray) -> FloatArray:
    """What each job adds to a figure, float64[n]."""
    error = np.abs(log_waits(forecasts.median) - waits)
    if column == ERROR:
        return np.asarray(error**2)
    return (error <= np.log10(2.0 if column == WITHIN_2 else 3.0)).astype(np.float64)


def _over_days(tested: Tested, of_jobs: FloatArray) -> Measurement:
    """The mean over all jobs, with its interval over days drawn anew."""
    _, day = np.unique(tested.jobs.moment, return_inverse=True)
    return measure(np.stack([np.bincount(day, of_jobs), np.bincount(day)]), ratio_of_means)
