"""Continuous replay: a whole log in one run, with figures of the last 40 % of its jobs.

Windows that begin on an empty machine show the gain of an order and hide starvation, which lasts
for months. docs/research/definitions.md says what each figure means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation import schedule_waits
from slurm_rl_plugin.learning.evaluation.paired import (
    Candidate,
    knowing_recent_runs,
    schedule_of,
    starts_under,
)
from slurm_rl_plugin.learning.side_by_side import side_by_side
from slurm_rl_plugin.learning.training_load import Progress, kept_jobs, training_jobs
from slurm_rl_plugin.measure.intervals import FEWEST_BLOCKS, drawn_places, interval_of
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, select_prepared
from slurm_rl_plugin.units import DAY, FloatArray, IntArray
from slurm_rl_plugin.utility.time_utility import bounded_slowdown

#: Jobs of a stretch, and consecutive stretches that form a block of the bootstrap.
STRETCH, STRETCHES_DRAWN = 1024, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousProtocol:
    """Number and kind of the runs of a replay."""

    runs: int = 4  #: each without random LEFT_OUT of the jobs, the same for all policies
    seed: int = 1  #: of the draws
    whole: bool = False  #: whether all jobs count; by default those after the training part
    by_days: bool = False  #: whether the bootstrap draws days of submissions, not stretches of jobs

    @property
    def drawn_together(self) -> int:
        """Consecutive stretches of a block."""
        return 1 if self.by_days else STRETCHES_DRAWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A policy, and whether the hook applies it."""

    name: str  #: in reports
    candidate: Candidate
    alone: bool = False  #: whether the batch system runs without the hook


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousRun:
    """One policy in one run, over the counted jobs."""

    waits: schedule_waits.ScheduleWaits
    slowdowns: FloatArray  #: sum over each stretch, and its number of jobs, shape [2, stretches]


def replay_continuously(
    candidates: Sequence[Replayed],
    prepared: PreparedLog,
    settings: SimulationSettings,
    protocol: ContinuousProtocol,
    *,
    progress: Progress | None = None,
) -> dict[str, list[ContinuousRun]]:
    """Replay a log under each policy, with the same jobs in the same runs; results by name.

    The log has classes known at submission (`class_known_at_submission`).
    """
    border = 0 if protocol.whole else training_jobs(prepared)
    fewest = 1 if protocol.by_days else STRETCH
    if len(prepared.log) - border < fewest:
        raise ConfigurationError(
            f"the last 40 % of the log are fewer than {fewest} jobs: give a longer log."
        )
    since = (prepared.log.submit - prepared.log.submit[border]) // DAY
    if not protocol.by_days:
        since = (np.arange(len(prepared.log)) - border) // STRETCH
    stretch = np.maximum(since, 0).astype(np.int64)
    stretches = int(stretch.max()) + 1  # of the whole log
    runs = []
    for number in range(protocol.runs):
        kept = kept_jobs(len(prepared.log), np.random.default_rng(protocol.seed + number))
        runs.append((select_prepared(prepared, kept), kept))

    def measured(task: tuple[Replayed, PreparedLog, IntArray]) -> ContinuousRun:
        replayed, log, kept = task
        hooked = settings.without_hook if replayed.alone else settings
        workload = log.workload(RequestedLimit())
        jobs = schedule_of(log, starts_under(replayed.candidate, log, workload, hooked), settings)
        counted = kept >= border
        slowdown = bounded_slowdown(jobs.wait[counted], jobs.run_time[counted])
        sums = [np.bincount(stretch[kept][counted], each, stretches) for each in (slowdown, None)]
        return ContinuousRun(waits=schedule_waits.waits_of(jobs, counted), slowdowns=np.array(sums))

    done, report = count(1), progress or (lambda *_: None)
    figures = side_by_side(
        measured,
        [(each, *run) for run in runs for each in candidates],
        finished=lambda _, each: report(next(done), each.waits.bounded_slowdown),
    )
    return {each.name: figures[place :: len(candidates)] for place, each in enumerate(candidates)}


def ratios_to(
    runs: Mapping[str, Sequence[ContinuousRun]],
    to: Sequence[ContinuousRun],
    seed: int,
    together: int,
) -> dict[str, dict[str, float | list[float] | None]]:
    """Each policy's figures over those of a reference: medians of the runs' ratios.

    The interval is that of the ratio of mean bounded slowdowns, by a bootstrap over runs and blocks
    of `together` consecutive stretches; None for too few of either. The draws are the same for
    every policy.
    """
    return {
        name: {
            **schedule_waits.median_ratios([run.waits for run in mine], [run.waits for run in to]),
            "ci95": _interval(mine, to, np.random.default_rng(seed), together),
        }
        for name, mine in runs.items()
    }


def _interval(
    mine: Sequence[ContinuousRun],
    other: Sequence[ContinuousRun],
    rng: np.random.Generator,
    together: int,
) -> list[float] | None:
    """Interval of the ratio of mean bounded slowdowns; None for too few runs or stretches.

    Draws without a job are left out.
    """
    sums = np.array([[run.slowdowns for run in each] for each in (mine, other)])  # [2, runs, 2, n]
    runs, stretches = sums.shape[1], sums.shape[3]
    with_jobs = np.count_nonzero(sums[0, :, 1].sum(axis=0))
    if runs < 2 or with_jobs < FEWEST_BLOCKS * together:
        return None
    places = drawn_places(stretches, rng, together)
    chosen = rng.integers(runs, size=(len(places), runs))
    drawn = np.array(
        [
            sums[:, run][..., place].sum(axis=(1, 3))
            for run, place in zip(chosen, places, strict=True)
        ]
    )  # [draws, 2 policies, sum and count]
    drawn = drawn[drawn[:, 0, 1] > 0]
    means = drawn[..., 0] / drawn[..., 1]
    return list(interval_of(means[:, 0] / means[:, 1]))


def rules_on_training_part(
    rules: Sequence[str],
    prepared: PreparedLog,
    settings: SimulationSettings,
    protocol: ContinuousProtocol,
    *,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Mean bounded slowdown of each rule over runs through the training part alone.

    Later jobs are neither simulated nor known to a rule by predicted run times. The log has classes
    known at submission.
    """
    jobs = training_jobs(prepared)
    if jobs == 0:
        raise ConfigurationError("no rule can be chosen on a log without time: give a longer log.")
    past = select_prepared(prepared, np.arange(jobs))
    past = knowing_recent_runs(past, past.workload(RequestedLimit()), settings)
    replayed = [Replayed(name=name, candidate=Candidate(name=name), alone=True) for name in rules]
    whole = ContinuousProtocol(runs=protocol.runs, seed=protocol.seed, whole=True, by_days=True)
    runs = replay_continuously(replayed, past, settings, whole, progress=progress)
    return {
        name: float(np.mean([run.waits.bounded_slowdown for run in each]))
        for name, each in runs.items()
    }
