"""`start-times`, a study: start times predicted forward in time from past waits; a figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.forecasts.forecast import Forecasts
from slurm_rl_plugin.forecasts.past_waits.sources import SOURCES
from slurm_rl_plugin.forecasts.scores import (
    HORIZONS,
    Scores,
    covered,
    horizon_of,
    log_waits,
    scores_by,
    scores_of,
)
from slurm_rl_plugin.papers.start_times_2023.experiment import (
    ALL_DAYS,
    LAST,
    Polls,
    Tested,
    forward,
    held_against,
    tested,
)
from slurm_rl_plugin.papers.start_times_2023.jobs_file import read_jobs_file
from slurm_rl_plugin.papers.study.claims import (
    Cell,
    Declared,
    Judgement,
    Measurement,
    Row,
    TextTable,
    measure,
    ratio_of_means,
    row,
)
from slurm_rl_plugin.papers.study.study import Asked, Outcome
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
#: The source that knows all earlier days under that protocol.
ALIKE = SOURCES[1]
#: Bounds of the coverage, pooled and of a day.
POOLED, A_DAY = (0.88, 0.92), (0.80, 0.97)
DECLARED = Declared(__package__)
_MEDIANS = (ERROR, WITHIN_2, WITHIN_3)
_PUBLISHED = ("Mila, Cedar, forward in time", "Mila, Graham, random days")


def rows_of(tested: Tested) -> Iterator[Row]:
    """The figures that have goals, or are published."""
    yield from _rows_on_medians(HEADLINE, OURS, tested.forecasts, tested, ("goal", *_PUBLISHED))
    inside = covered(tested.forecasts, tested.jobs.wait, 0.9).astype(np.float64)
    measured, (low, high) = _over_days(tested, inside), POOLED
    yield Row(
        cell=Cell(HEADLINE, OURS, f"{COVERAGE}, to goal"),
        measured=measured,
        baselines=_coverages(tested),
        judged=Judgement(
            low <= measured.value <= high,
            f"{measured.value:.4g} against {low:.2f} to {high:.2f}",
        ),
    )
    days = [each.coverage_90 for each in by_day(tested.forecasts, tested).values()]
    within = np.array([A_DAY[0] <= each <= A_DAY[1] for each in days], dtype=np.float64)
    yield row(HEADLINE, OURS, f"{DAYS}, to goal", within)
    all_days = tested.others[ALL_DAYS]
    yield from _rows_on_medians(PUBLISHED_PROTOCOL, ALIKE, all_days, tested, _PUBLISHED)


def _rows_on_medians(
    group: str, whose: str, forecasts: Forecasts, tested: Tested, sources: Sequence[str]
) -> Iterator[Row]:
    """Error and parts within a factor, each to what a source has for it."""
    waits = log_waits(tested.jobs.wait)
    for column in _MEDIANS:
        measured = _over_days(tested, _figure_of_jobs(column, forecasts, waits))
        baselines = {
            name: float(_figure_of_jobs(column, each, waits).mean())
            for name, each in tested.others.items()
        }
        for source in sources:
            cell = Cell(group, whose, f"{column}, to {source}")
            yield Row(cell=cell, measured=measured, baselines=baselines)


def _coverages(tested: Tested) -> dict[str, float]:
    """Of those baselines that tell a band, and of ours before it was set."""
    spread = {name: each for name, each in tested.others.items() if tells_spread(each)}
    return {
        name: float(covered(each, tested.jobs.wait, 0.9).mean())
        for name, each in {"before calibration": tested.plain, **spread}.items()
    }


def tells_spread(forecasts: Forecasts) -> bool:
    """Whether they have bands, or are a single wait each."""
    return bool((forecasts.seconds[:, 0] < forecasts.seconds[:, -1]).any())


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


#: Where the file is in a folder of traces.
_IN_TRACES = Path("graham-2021") / "jobs.parquet"
_NO_FILE = "start-times needs a file of polled jobs: give JOBS.parquet."
_SEED = 0
#: Scores that say nothing of a single wait.
_OF_BANDS = ("coverage_50", "coverage_90", "width_50", "width_90", "pinball")


def _days_figure(tested: Tested) -> Any:
    """Mean square error of each day beside the last similar job's, and coverage with its goals."""
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
    """Foretell every job of every poll from the 21st on, and score it by what came true."""
    asked.refuse_policy("it orders no queue")
    if asked.seeds is not None:
        raise ConfigurationError("--seeds is not for start-times: its file is given.")
    polls = Polls.of(read_jobs_file(_file(asked)), quick=asked.quick)
    with asked.bar("learning and foretelling", polls.steps) as add:
        given = forward(polls, _SEED, add)
        found = tested(polls, given, held_against(polls, _SEED, add))
    facts = _facts(found)
    return Outcome(
        claims=DECLARED.claims(rows_of(found)),
        seeds=(),
        more=list(_passages(facts)),
        facts=facts,
        drawings={"start-times.png": lambda: _days_figure(found)},
    )


def _file(asked: Asked) -> Path:
    path = asked.traces_or_refuse(_NO_FILE)
    return path / _IN_TRACES if path.is_dir() else path


def _facts(found: Tested) -> dict[str, Any]:
    """All scores."""
    jobs, forecasts = found.jobs, found.forecasts
    horizons = list(HORIZONS)
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
        "by day": _named(by_day(forecasts, found), lambda key: _date(float(key))),
        "by class": _named(
            scores_by((jobs.gpus > 0).astype(np.int64), forecasts, jobs.wait),
            lambda key: ("CPUs", "GPUs")[int(key)],
        ),
        "by horizon": _named(
            scores_by(horizon_of(forecasts), forecasts, jobs.wait), lambda key: horizons[int(key)]
        ),
        "by partition": _named(scores_by(jobs.partition, forecasts, jobs.wait), str),
    }


def _scored(forecasts: Forecasts, waits: FloatArray) -> dict[str, float | None]:
    """The scores, without those of bands where a forecast is a single wait."""
    scores: dict[str, float | None] = {**_told(scores_of(forecasts, waits))}
    of_bands = () if tells_spread(forecasts) else _OF_BANDS
    return {name: None if name in of_bands else value for name, value in scores.items()}


def _told(scores: Scores) -> dict[str, float]:
    return scores.as_json()


def _date(moment: float) -> str:
    return str(np.datetime64(int(moment), "s").astype("datetime64[D]"))


def _named(found: Mapping[str, Scores], name: Any) -> dict[str, dict[str, float]]:
    return {name(key): _told(scores) for key, scores in found.items()}


def _passages(facts: Mapping[str, Any]) -> Iterator[str | TextTable]:
    """The same facts for people: pooled, then by day, class and horizon."""
    header = ["JOBS", "MSE", "IN 2X", "IN 3X", "IN 50 %", "IN 90 %", "WIDTH 90 %", "PINBALL"]
    for title, rows in (
        ("pooled", facts["pooled"]),
        *((key, facts[key]) for key in ("by day", "by class", "by horizon")),
    ):
        yield f"\n{title}, of {facts['tested']['polls']} polls; width in powers of ten:"
        yield TextTable(
            [title.upper(), *header], [[name, *_cells(each)] for name, each in rows.items()]
        )


def _cells(scores: Mapping[str, float | None]) -> list[Any]:
    names = ("square_error", "within_2", "within_3", "coverage_50", "coverage_90", "width_90")
    told = (scores[name] for name in (*names, "pinball"))
    return [scores["jobs"], *(None if each is None else f"{each:.3f}" for each in told)]
