"""What was known of past runs when jobs were submitted and started, by a log's own schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.features.history.run_history import BOUNDS, INVERSE, LAST, PREVIOUS
from slurm_rl_plugin.features.history.run_prediction import PARTS, SHARES, nominal_shares
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.compiled_features import (
    fill_shares,
    learn_shares,
    run_time_at,
)
from slurm_rl_plugin.simulator.kernel.workload import (
    ENDED_EVENT,
    WorkloadHistory,
    fill_known_hazards,
    fold_run,
)
from slurm_rl_plugin.simulator.workloads.log_workload import (
    PreparedLog,
    RecentRuns,
    select_prepared,
)
from slurm_rl_plugin.units import FloatArray, IntArray

#: Events at which nothing is learned but something asked: a submission, a start.
_SUBMITTED, _STARTED = ENDED_EVENT + 1, ENDED_EVENT + 2


def _events(prepared: PreparedLog) -> tuple[FloatArray, IntArray, IntArray]:
    """Time, kind and job of all events in order; jobs of unknown start began at submission."""
    log = prepared.log
    start = np.where(np.isfinite(log.start), log.start, log.submit)
    jobs = np.arange(len(log))
    outlived = [jobs[log.run_time >= bound] for bound in BOUNDS]
    times = [start[chosen] + BOUNDS[kind] for kind, chosen in enumerate(outlived)]
    parts = [*outlived, jobs, jobs, jobs]
    time = np.concatenate([*times, start + log.run_time, log.submit, start])
    kind = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    job = np.concatenate(parts)
    order = np.lexsort((job, kind, time))
    return time[order], kind[order], job[order]


class Asked(NamedTuple):
    """What is asked of the past as a log is replayed; arrays without rows ask for nothing."""

    #: At submission, of the user's runs: mean of the last two, s, and of inverses; shape [n, 2].
    last_runs: FloatArray
    hazards: FloatArray  #: at submission (`run_prediction.fill_hazards`), shape [n, len(BOUNDS)]
    quantiles: FloatArray  #: at the start, seconds, shape [n, len(PARTS)]
    parts: FloatArray  #: shares that are asked for, shape [len(PARTS)]
    shares: FloatArray  #: space, shape [SHARES]


@compiled
def _tell(
    past: WorkloadHistory, asked: Asked, job: int, quantiles: FloatArray, hazards: FloatArray
) -> None:
    """Fill quantiles of a job's run time."""
    fill_known_hazards(hazards, past, past.user[job], past.template[job])
    fill_shares(asked.shares, hazards)
    for part in range(len(asked.parts)):
        told = run_time_at(asked.shares, asked.parts[part])
        quantiles[part] = min(told, past.asked[past.template[job]])


@compiled
def _replay(
    past: WorkloadHistory, kind: IntArray, job: IntArray, run_time: FloatArray, asked: Asked
) -> None:
    """Go through events; fill what is asked for where the arrays have rows."""
    hazards = np.zeros(len(BOUNDS))
    for event in range(len(kind)):
        number = job[event]
        user, template = past.user[number], past.template[number]
        if kind[event] <= ENDED_EVENT:
            if kind[event] == ENDED_EVENT and len(asked.quantiles):
                learn_shares(asked.parts, asked.quantiles[number], run_time[number])
            fold_run(past, user, template, kind[event], run_time[number])
        elif kind[event] == _SUBMITTED:
            row = past.users[user]
            if len(asked.last_runs) and row[INVERSE] > 0.0:
                asked.last_runs[number, 0] = 0.5 * (row[LAST] + row[PREVIOUS])
                asked.last_runs[number, 1] = row[INVERSE]
            if len(asked.hazards):
                fill_known_hazards(asked.hazards[number], past, user, template)
        elif len(asked.quantiles):
            _tell(past, asked, number, asked.quantiles[number], hazards)


@compiled
def _tell_now(past: WorkloadHistory, asked: Asked, jobs: IntArray, found: FloatArray) -> None:
    hazards = np.zeros(len(BOUNDS))
    for place in range(len(jobs)):
        _tell(past, asked, jobs[place], found[place], hazards)


class RecordedPast:
    """A log gone through up to some time, and no further until asked."""

    def __init__(self, prepared: PreparedLog, *, quantiles: bool = False) -> None:
        """Before its first job; with `quantiles` it predicts run times at starts."""
        self.past = prepared.past.copy()
        self._prepared = prepared
        self._time, self._kind, self._job = _events(prepared)
        self._done = 0
        rows = len(prepared.log) if quantiles else 0
        self._asked = Asked(
            last_runs=np.empty((0, 2)),
            hazards=np.empty((0, len(BOUNDS))),
            quantiles=np.full((rows, len(PARTS)), np.nan),
            parts=nominal_shares(),
            shares=np.zeros(SHARES),
        )

    @property
    def told_at_start(self) -> FloatArray:
        """Quantiles of the runs that have started, seconds, shape [n, len(PARTS)]."""
        return self._asked.quantiles

    def run(
        self,
        until: float,
        last_runs: FloatArray | None = None,
        hazards: FloatArray | None = None,
    ) -> None:
        """Go through what happened before a time, seconds; fill what is asked for (`Asked`)."""
        last = int(np.searchsorted(self._time, until))
        events = slice(self._done, last)
        asked = self._asked
        if last_runs is not None:
            asked = asked._replace(last_runs=last_runs)
        if hazards is not None:
            asked = asked._replace(hazards=hazards)
        run_time = self._prepared.log.run_time
        _replay(self.past, self._kind[events], self._job[events], run_time, asked)
        self._done = max(last, self._done)

    def quantiles_now(self, jobs: IntArray) -> FloatArray:
        """Run times before which PARTS of jobs like these end, seconds, shape [m, len(PARTS)]."""
        found = np.empty((len(jobs), len(PARTS)))
        _tell_now(self.past, self._asked, jobs, found)
        return found


def windows_with_past(
    prepared: PreparedLog, firsts: Sequence[int], count: int
) -> list[PreparedLog]:
    """Windows of a log that know what the log's runs told strictly before their first submission.

    A job that still runs then tells nothing more: it is none of the window's.
    """
    replay = RecordedPast(prepared)
    windows: dict[int, PreparedLog] = {}
    for first in sorted(set(firsts)):
        replay.run(float(prepared.log.submit[first]) if count else -np.inf)
        known = replace(prepared, past=replay.past)
        windows[first] = select_prepared(known, np.arange(first, first + count))
    return [windows[first] for first in firsts]


def hazards_at_submission(prepared: PreparedLog) -> FloatArray:
    """What was known of each run time when the job came, shape [n, len(BOUNDS)].

    As `run_prediction.fill_hazards`; runs count from when the log says that they began and ended.
    """
    hazards = np.zeros((len(prepared.log), len(BOUNDS)))
    RecordedPast(prepared).run(np.inf, hazards=hazards)
    return hazards


def quantiles_at_start(prepared: PreparedLog) -> FloatArray:
    """Seconds below which PARTS of such runs end, as known when the log says that jobs started.

    Shape [n, len(PARTS)].
    """
    past = RecordedPast(prepared, quantiles=True)
    past.run(np.inf)
    return past.told_at_start


def recent_runs(prepared: PreparedLog) -> RecentRuns:
    """What users' last runs told when each job was submitted.

    The mean of the two last run times as in Tsafrir, Etsion and Feitelson 2007, at most the
    request; of one run its own, and the request where no run of the user has ended.
    """
    told = np.full((len(prepared.log), 2), np.nan)
    RecordedPast(prepared).run(np.inf, last_runs=told)
    requested = np.maximum(prepared.requested, 1.0)
    known = np.isfinite(told[:, 0])
    predicted = np.where(known, np.clip(told[:, 0], 1.0, requested), requested)
    rate = np.where(known, told[:, 1], 1.0 / np.maximum(requested, 10.0))
    return RecentRuns(predicted=predicted, rate=rate)
