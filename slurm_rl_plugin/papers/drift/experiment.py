"""Runs of each log under its model: its own history, others like it, and some without change."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from slurm_rl_plugin.papers.drift.log_weeks import LogWeeks
from slurm_rl_plugin.papers.drift.models import DriftSize, ModelInService, first_third_model
from slurm_rl_plugin.papers.drift.watched_run import AT_ONCE, WatchedRun, watched_run
from slurm_rl_plugin.papers.study.parallel_machines import StudyLog
from slurm_rl_plugin.papers.study.result_store import ResultStore, stem_of
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog

#: The log's own weeks, others like them, and some in which nothing changes.
REFERENCE, REAL, CHANGING, ALIKE = "reference", "real", "changing", "nothing changes"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRuns:
    """What was run of one log.

    Attributes:
        reference: the weeks of its first third.
        real: the weeks behind them, as they were.
        changing: runs drawn of weeks near each.
        alike: runs drawn of the weeks of reference.
    """

    reference: WatchedRun
    real: WatchedRun
    changing: list[WatchedRun]
    alike: list[WatchedRun]


class _Drawn(NamedTuple):
    """A run to be made: what it is, and how its jobs and weeks are got."""

    kind: str
    seed: int
    log: Callable[[], PreparedLog]
    begin: float
    weeks: int


def runs_of_log(
    name: str,
    log: StudyLog,
    size: DriftSize,
    seeds: int,
    store: ResultStore,
    add: Callable[[int], None],
) -> LogRuns:
    """Train on the first third, then run everything, in threads.

    Args:
        name: of the log.
        log: whole.
        size: of the study.
        seeds: runs of each kind that is drawn.
        store: keeps the model and the runs.
        add: told of each run.

    Raises:
        ConfigurationError: the log is too short.
    """
    model = first_third_model(name, log, size, store)

    def made(drawn: _Drawn) -> WatchedRun:
        stem = _stem(name, log, model, drawn)
        kept = store.figures(stem, lambda: _figures(drawn, model))
        add(1)
        return WatchedRun.of_json(kept)

    asked = _all_runs(LogWeeks.of(log.prepared), size, seeds)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        reference, real, *drawn = pool.map(made, asked)
    return LogRuns(reference=reference, real=real, changing=drawn[:seeds], alike=drawn[seeds:])


def number_of_runs(seeds: int) -> int:
    """How many runs of one log there are."""
    return 2 + 2 * seeds


def _all_runs(weeks: LogWeeks, size: DriftSize, seeds: int) -> list[_Drawn]:
    """The weeks of reference and the real ones first."""
    begin = weeks.begin

    def whole() -> PreparedLog:
        return weeks.log

    def changing(seed: int) -> PreparedLog:
        return weeks.cluster(weeks.changing(seed))

    def alike(seed: int) -> PreparedLog:
        return weeks.cluster(weeks.alike(seed, size.alike))

    return [
        _Drawn(REFERENCE, 0, whole, weeks.week(weeks.first), -weeks.first),
        _Drawn(REAL, 0, whole, begin, weeks.count),
        *(
            _Drawn(CHANGING, seed, partial(changing, seed), begin, weeks.count)
            for seed in range(seeds)
        ),
        *(_Drawn(ALIKE, seed, partial(alike, seed), begin, size.alike) for seed in range(seeds)),
    ]


def _figures(drawn: _Drawn, model: ModelInService) -> dict[str, Any]:
    return watched_run(drawn.log(), model.network, drawn.begin, drawn.weeks).as_json()


def _stem(name: str, log: StudyLog, model: ModelInService, drawn: _Drawn) -> str:
    kind = f"drift-{name}-{drawn.kind}-{drawn.seed}".lower().replace(" ", "-")
    return stem_of(kind, log.checksum, model.stem, AT_ONCE, drawn.weeks, module=__name__)
