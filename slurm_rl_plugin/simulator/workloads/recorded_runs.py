"""What was known of past runs when jobs were submitted and started in a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.features.history.run_history import (
    BOUNDS,
    INVERSE,
    LAST,
    PARTS,
    PREVIOUS,
    SHARES,
    nominal_shares,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.compiled_features import (
    fill_shares,
    learn_shares,
    run_time_at,
)
from slurm_rl_plugin.simulator.kernel.workload import (
    ENDED_EVENT,
    WorkloadHistory,
    copied,
    fill_known_hazards,
    fold_run,
)
from slurm_rl_plugin.simulator.workloads.log_workload import (
    PreparedLog,
    RecentRuns,
    select_prepared,
)
from slurm_rl_plugin.units import FloatArray, IntArray

#: Kinds of events at which we predict: a submission, a start.
_SUBMITTED, _STARTED = ENDED_EVENT + 1, ENDED_EVENT + 2


def _events(prepared: PreparedLog) -> tuple[FloatArray, IntArray, IntArray]:
    """Time, kind and job of all events in order; an unknown start is the submission."""
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
    """What to predict as a log is replayed; an array without rows asks for nothing."""

    #: At submission, of the user's runs: mean of the last two, s, and of inverses; shape [n, 2].
    last_runs: FloatArray
    hazards: FloatArray  #: at submission (`run_history.fill_hazards`), shape [n, len(BOUNDS)]
    quantiles: FloatArray  #: at the start, seconds, shape [n, len(PARTS)]
    parts: FloatArray  #: see `run_history.learn_shares`, shape [len(PARTS)]
    shares: FloatArray  #: space, shape [SHARES]


@compiled
def _predict(
    past: WorkloadHistory, asked: Asked, job: int, quantiles: FloatArray, hazards: FloatArray
) -> None:
    fill_known_hazards(hazards, past, past.user[job], past.template[job])
    fill_shares(asked.shares, hazards)
    for part in range(len(asked.parts)):
        quantile = run_time_at(asked.shares, asked.parts[part])
        quantiles[part] = min(quantile, past.asked[past.template[job]])


@compiled
def _replay(
    past: WorkloadHistory, kind: IntArray, job: IntArray, run_time: FloatArray, asked: Asked
) -> None:
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
            _predict(past, asked, number, asked.quantiles[number], hazards)


@compiled
def _predict_now(past: WorkloadHistory, asked: Asked, jobs: IntArray, found: FloatArray) -> None:
    hazards = np.zeros(len(BOUNDS))
    for place in range(len(jobs)):
        _predict(past, asked, jobs[place], found[place], hazards)


class RecordedPast:
    """The history of users at a time of a log."""

    def __init__(self, prepared: PreparedLog, *, quantiles: bool = False) -> None:
        """Before the first job; with `quantiles`, run times are predicted at starts."""
        self.past = copied(prepared.past)
        self._prepared = prepared
        self._time, self._kind, self._job = _events(prepared)
        self._done = 0
        rows = len(prepared.log) if quantiles else 0
        #: Predicted quantiles of the runs that have started, seconds, shape [n, len(PARTS)].
        self.at_start = np.full((rows, len(PARTS)), np.nan)
        self._asked = Asked(
            last_runs=np.empty((0, 2)),
            hazards=np.empty((0, len(BOUNDS))),
            quantiles=self.at_start,
            parts=nominal_shares(),
            shares=np.zeros(SHARES),
        )

    def run(
        self,
        until: float,
        last_runs: FloatArray | None = None,
        hazards: FloatArray | None = None,
    ) -> None:
        """Replay the log up to a time, seconds; fill what is asked for (`Asked`)."""
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
        """Seconds below which PARTS of such runs end, shape [m, len(PARTS)]."""
        found = np.empty((len(jobs), len(PARTS)))
        _predict_now(self.past, self._asked, jobs, found)
        return found


def windows_with_past(
    prepared: PreparedLog, firsts: Sequence[int], count: int
) -> list[PreparedLog]:
    """Windows of a log, with the history of runs before their first submission.

    A job that still runs then adds nothing later: the window does not have it.
    """
    replay = RecordedPast(prepared)
    windows: dict[int, PreparedLog] = {}
    for first in sorted(set(firsts)):
        replay.run(float(prepared.log.submit[first]) if count else -np.inf)
        known = replace(prepared, past=replay.past)
        windows[first] = select_prepared(known, np.arange(first, first + count))
    return [windows[first] for first in firsts]


def hazards_at_submission(prepared: PreparedLog) -> FloatArray:
    """`run_history.fill_hazards` of each job at its submission, shape [n, len(BOUNDS)]."""
    hazards = np.zeros((len(prepared.log), len(BOUNDS)))
    RecordedPast(prepared).run(np.inf, hazards=hazards)
    return hazards


def quantiles_at_start(prepared: PreparedLog) -> FloatArray:
    """Seconds below which PARTS of such runs end, as known at starts, shape [n, len(PARTS)]."""
    past = RecordedPast(prepared, quantiles=True)
    past.run(np.inf)
    return past.at_start


def recent_runs(prepared: PreparedLog) -> RecentRuns:
    """Users' last runs when each job was submitted.

    The mean of the two last run times as in Tsafrir, Etsion and Feitelson 2007, at most the
    request; of one run its own, and the request where no run of the user has ended.
    """
    last = np.full((len(prepared.log), 2), np.nan)
    RecordedPast(prepared).run(np.inf, last_runs=last)
    requested = np.maximum(prepared.requested, 1.0)
    known = np.isfinite(last[:, 0])
    predicted = np.where(known, np.clip(last[:, 0], 1.0, requested), requested)
    rate = np.where(known, last[:, 1], 1.0 / np.maximum(requested, 10.0))
    return RecentRuns(predicted=predicted, rate=rate)
