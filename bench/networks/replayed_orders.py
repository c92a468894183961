"""Continuous replays of orders that no policy of the package gives, for trials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.bootstrap import interval_of
from slurm_rl_plugin.learning.evaluation.continuous import (
    ContinuousProtocol,
    ContinuousRun,
    DrawnRun,
    drawn_ratios,
    drawn_run,
    figures_of,
    stretches_of,
)
from slurm_rl_plugin.learning.evaluation.schedule_waits import median_ratios
from slurm_rl_plugin.learning.load_windows import class_known_at_submission, training_jobs
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.simulation import SimulatedSchedule, SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import (
    PreparedLog,
    prepare_log,
    select_prepared,
)

#: Makes a schedule of a workload as the user's requests tell it.
Order = Callable[[Workload, SimulationSettings], SimulatedSchedule]
#: Of each order, its runs.
Runs = Mapping[str, Sequence[ContinuousRun]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLog:
    """A log, and what of it may be looked at.

    Attributes:
        name: of its file.
        prepared: with classes known at submission.
        past: its first 60 %.
        settings: as many equal processors, EASY backfilling.
    """

    name: str
    prepared: PreparedLog
    past: PreparedLog
    settings: SimulationSettings

    @classmethod
    def read(cls, path: Path) -> TrialLog:
        """The log of a file."""
        log, _ = read_log(path)
        prepared = class_known_at_submission(prepare_log(log))
        return cls(
            name=path.name,
            prepared=prepared,
            past=select_prepared(prepared, np.arange(training_jobs(prepared))),
            settings=SimulationSettings(capacity=prepared.capacity, backfilling="easy"),
        )

    def drawn(self, seed: int, *, heldout: bool) -> DrawnRun:
        """Without the jobs of one draw: the first 60 %, or all, of which the last 40 % count."""
        jobs = self.prepared if heldout else self.past
        border = training_jobs(jobs) if heldout else 0
        stretch = stretches_of(jobs, border, ContinuousProtocol())
        return drawn_run(jobs, border, stretch, seed)

    def replayed(self, order: Order, run: DrawnRun) -> tuple[ContinuousRun, int]:
        """The figures of one run, and how many decisions it took."""
        schedule = order(run.log.workload(RequestedLimit()), self.settings)
        return figures_of(run, schedule.start, self.settings), schedule.decisions


def replays(
    log: TrialLog, orders: Mapping[str, Order], seeds: Sequence[int], *, heldout: bool
) -> Iterator[tuple[str, ContinuousRun, int]]:
    """Name, figures and decisions of each order in each run; all meet the same jobs."""
    for seed in seeds:
        run = log.drawn(seed, heldout=heldout)
        for name, order in orders.items():
            yield (name, *log.replayed(order, run))


def ratio(mine: Sequence[ContinuousRun], base: Sequence[ContinuousRun], figure: str) -> float:
    """Median over the runs of one order's figure over that of another."""
    found = median_ratios([run.waits for run in mine], [run.waits for run in base])[figure]
    return np.nan if found is None else found


def over(logs: Sequence[Runs], name: str, base: str, first_come: str) -> dict[str, object]:
    """Slowdown of one over that of another: a geometric mean over logs; the worst longest wait."""
    slowdown = [ratio(each[name], each[base], "bounded_slowdown") for each in logs]
    longest = [ratio(each[name], each[first_come], "longest_wait") for each in logs]
    wide = [ratio(each[name], each[base], "wide_wait") for each in logs]
    drawn = [
        drawn_ratios(each[name], each[base], np.random.default_rng(seed))
        for seed, each in enumerate(logs)
    ]
    known = [each for each in drawn if each is not None]
    pooled = np.exp(np.log(known).mean(axis=0)) if len(known) == len(logs) else None
    return {
        "slowdown": float(np.exp(np.log(slowdown).mean())),
        "ci95": None if pooled is None else interval_of(pooled),
        "wide_wait": float(np.exp(np.log(wide).mean())),
        "longest_wait_over_fifo": max(longest),
    }
