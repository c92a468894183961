"""The held-out protocol: a rule is chosen on the past of a log, policies are compared on the rest.

Both parts are measured in many windows, each simulated from an empty machine under EASY with
requested times. docs/research/definitions.md says what each figure means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import (
    Candidate,
    goes_by_predictions,
    knowing_recent_runs,
    schedule_of,
    starts_under,
)
from slurm_rl_plugin.learning.side_by_side import side_by_side
from slurm_rl_plugin.learning.training_load import Progress, log_windows, training_jobs
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import INTERACTIVE_WAIT_GOAL, SHORT_JOB_RUN_TIME, FloatArray
from slurm_rl_plugin.utility.summary import service_of
from slurm_rl_plugin.utility.time_utility import bounded_slowdown

#: The simple rules; a learned policy must beat the best of them on the training part.
HEURISTICS = (
    *("fifo", "sjf", "saf", "f1", "wfp3", "unicep", "expansion-factor"),
    *("sjf-predicted", "saf-predicted", "wspt-predicted"),
)

#: On a machine of several resources also the least requested or the least used share first.
NODE_HEURISTICS = (*HEURISTICS, "least-share", "drf")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldoutProtocol:
    """Sizes of the protocol, in jobs, and the batch system of its windows."""

    windows: int = 128  #: of each part of the log; fewer if a part has fewer possible first jobs
    warm_up: int = 1000  #: jobs before the counted ones, which fill the machine
    counted: int = 1024  #: jobs that are measured
    further: int = 512  #: jobs after the counted ones, which may overtake them
    cycle: float = 0.0  #: seconds between scheduling decisions; 0 decides at every event
    #: Value of the best place in a network's order, as hours of a job's age.
    influence: float = math.inf
    refresh: float = 0.0  #: seconds between two cycles of the hook, which writes a network's scores
    starvation: float = math.inf  #: wait after which a job goes first under a network, seconds

    @property
    def jobs(self) -> int:
        """Length of a window in jobs."""
        return self.warm_up + self.counted + self.further

    def settings(self, capacity: int) -> SimulationSettings:
        """EASY on a machine of that many processors."""
        return SimulationSettings(
            capacity=capacity,
            backfilling="easy",
            cycle=self.cycle,
            influence=self.influence,
            refresh=self.refresh,
            starvation=self.starvation,
        )

    def independent_windows(self, part_jobs: int) -> float:
        """Number of windows without a common counted job in a part of `part_jobs`."""
        return (part_jobs - self.warm_up - self.further) / self.counted


@dataclass(frozen=True, slots=True)
class WindowFigures:
    """Figures of one policy over the counted jobs of each window; shape [windows], time order.

    Logs are pooled by concatenation.
    """

    bounded_slowdown: FloatArray  #: mean bounded slowdown
    short_jobs: FloatArray  #: jobs with an actual run time < 900 s
    short_within_120s: FloatArray  #: short jobs that waited 120 s at most
    max_wait: FloatArray  #: longest wait, seconds
    #: Part of the service of a fortnight that went to the wrong account, by the shares of the log.
    misdelivered: FloatArray


def training_and_test_windows(
    prepared: PreparedLog, protocol: HeldoutProtocol
) -> tuple[list[int], list[int]]:
    """First jobs of the windows of both parts: of the first 60 % of the jobs, and of the rest."""
    jobs, border = len(prepared.log), training_jobs(prepared)
    return windows_of(0, border, protocol), windows_of(border, jobs, protocol)


def windows_of(part_first: int, part_last: int, protocol: HeldoutProtocol) -> list[int]:
    """First jobs of windows spaced evenly over a part of a log, ascending, without repetition.

    `part_last` is one past the part's last job.
    """
    latest = part_last - protocol.jobs
    if latest < part_first:
        raise ConfigurationError(
            f"the part of the log from job {part_first} on has {part_last - part_first} jobs: a "
            f"window of the held-out protocol needs {protocol.jobs}. Give a longer log."
        )
    places = np.linspace(part_first, latest, protocol.windows).round().astype(np.int64)
    return [int(first) for first in np.unique(places)]


def figures_of_windows(
    candidates: Sequence[Candidate],
    prepared: PreparedLog,
    firsts: Sequence[int],
    protocol: HeldoutProtocol,
    *,
    progress: Progress | None = None,
) -> dict[str, WindowFigures]:
    """Simulate the policies in each window from an empty machine; all meet the same jobs.

    F1 counts submit times from the start of the log, not of the window. The log has classes known
    at submission (`class_known_at_submission`), as in all of this module.
    """
    if any(goes_by_predictions(each) for each in candidates):
        workload = prepared.workload(RequestedLimit())
        settings = protocol.settings(prepared.capacity)
        prepared = knowing_recent_runs(prepared, workload, settings)
    windows = log_windows(prepared, firsts, protocol.jobs)

    def measured(window: PreparedLog) -> list[list[float]]:
        workload = window.workload(RequestedLimit())
        settings = protocol.settings(window.capacity)
        return [
            _figures(window, starts_under(each, window, workload, settings), settings, protocol)
            for each in candidates
        ]

    done = count(1)
    report = progress or (lambda *_: None)
    rows = side_by_side(measured, windows, finished=lambda _, row: report(next(done), row[-1][0]))
    columns = np.array(rows).transpose(1, 2, 0)
    pairs = zip(candidates, columns, strict=True)
    return {each.name: WindowFigures(*figures) for each, figures in pairs}


def _figures(
    window: PreparedLog,
    start: FloatArray,
    settings: SimulationSettings,
    protocol: HeldoutProtocol,
) -> list[float]:
    """The figures of one window, in the order of WindowFigures."""
    counted = slice(protocol.warm_up, protocol.warm_up + protocol.counted)
    run_time = window.log.run_time
    wait = (start - window.log.submit)[counted]
    service = service_of(schedule_of(window, start, settings), counted)
    short = run_time[counted] < SHORT_JOB_RUN_TIME
    return [
        float(bounded_slowdown(wait, run_time[counted]).mean()),
        float(short.sum()),
        float((short & (wait <= INTERACTIVE_WAIT_GOAL)).sum()),
        float(wait.max()),
        service.misdelivered,
    ]


def heuristics_on_training_part(
    prepared: PreparedLog,
    firsts: Sequence[int],
    protocol: HeldoutProtocol,
    *,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Bounded slowdown of each of HEURISTICS: geometric mean over the training windows."""
    rules = [Candidate(name=name) for name in HEURISTICS]
    figures = figures_of_windows(rules, prepared, firsts, protocol, progress=progress)
    return {
        name: float(np.exp(np.log(each.bounded_slowdown).mean())) for name, each in figures.items()
    }


def best_heuristic(training_bounded_slowdown: dict[str, float]) -> str:
    """The rule with the least bounded slowdown; on a tie the first in HEURISTICS."""
    return min(training_bounded_slowdown, key=training_bounded_slowdown.__getitem__)
