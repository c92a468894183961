"""`start-times`: when pending jobs start, foretold forward in time from past waits, as a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.forecasts.past_waits.sources import SOURCES
from slurm_rl_plugin.forecasts.scores import HORIZONS, Scores, horizon_of, scores_by, scores_of
from slurm_rl_plugin.papers.start_times_2023.claims import (
    HEADLINE,
    OURS,
    PUBLISHED_PROTOCOL,
    by_day,
    claims_of,
)
from slurm_rl_plugin.papers.start_times_2023.experiment import (
    Polls,
    Tested,
    forward,
    held_against,
    tested,
)
from slurm_rl_plugin.papers.start_times_2023.figures import days_figure
from slurm_rl_plugin.papers.start_times_2023.jobs_file import read_jobs_file
from slurm_rl_plugin.papers.study.claim_tables import TextTable
from slurm_rl_plugin.papers.study.study import Asked, Outcome

#: Where the file is in a folder of traces.
_IN_TRACES = Path("graham-2021") / "jobs.parquet"
_NO_FILE = "start-times needs a file of polled jobs: give JOBS.parquet."
_SEED = 0


def run(asked: Asked) -> Outcome:
    """Foretell every job of every poll from the 21st on, and score it by what came true."""
    asked.refuse_policy("it orders no queue")
    if asked.seeds is not None:
        raise ConfigurationError("--seeds is not for start-times: its file is given.")
    polls = Polls.of(read_jobs_file(_file(asked)), quick=asked.quick)
    wider = polls.knowing_all_earlier_days()
    steps = 2 * polls.steps + len(polls.tested)
    with asked.bar("learning and foretelling", steps) as add:
        given = forward(polls, _SEED, add)
        headline = tested(polls, given, held_against(polls, _SEED, add))
        published = tested(wider, forward(wider, _SEED, add), {})
    facts = _facts(headline, published)
    return Outcome(
        claims=[*claims_of(HEADLINE, headline), *claims_of(PUBLISHED_PROTOCOL, published)],
        seeds=(),
        more=list(_passages(facts)),
        facts=facts,
        drawings={"start-times.png": lambda: days_figure(headline)},
    )


def _file(asked: Asked) -> Path:
    path = asked.traces_or_refuse(_NO_FILE)
    return path / _IN_TRACES if path.is_dir() else path


def _facts(headline: Tested, published: Tested) -> dict[str, Any]:
    """All scores of both protocols."""
    jobs, forecasts = headline.jobs, headline.forecasts
    horizons = list(HORIZONS)
    return {
        "tested": {"polls": len(headline.weights), "jobs": len(jobs)},
        "pooled": {
            OURS: _told(scores_of(forecasts, jobs.wait)),
            "before calibration": _told(scores_of(headline.plain, jobs.wait)),
            **{name: _told(scores_of(each, jobs.wait)) for name, each in headline.others.items()},
        },
        "pooled, all earlier days known": _told(
            scores_of(published.forecasts, published.jobs.wait)
        ),
        "weights": dict(zip(SOURCES, headline.weights.mean(axis=0).tolist(), strict=True)),
        "by day": _named(by_day(forecasts, headline), lambda key: _date(float(key))),
        "by class": _named(
            scores_by((jobs.gpus > 0).astype(np.int64), forecasts, jobs.wait),
            lambda key: ("CPUs", "GPUs")[int(key)],
        ),
        "by horizon": _named(
            scores_by(horizon_of(forecasts), forecasts, jobs.wait), lambda key: horizons[int(key)]
        ),
        "by partition": _named(scores_by(jobs.partition, forecasts, jobs.wait), str),
    }


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


def _cells(scores: Mapping[str, float]) -> list[Any]:
    names = ("square_error", "within_2", "within_3", "coverage_50", "coverage_90", "width_90")
    return [scores["jobs"], *(f"{scores[name]:.3f}" for name in (*names, "pinball"))]
