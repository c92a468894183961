"""What was known of past runs when jobs were submitted and started, by a log's own schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.features.history.run_history import INVERSE, LAST, PREVIOUS, SHORT_RUN_TIMES
from slurm_rl_plugin.features.history.run_prediction import KNOWN_FACTS
from slurm_rl_plugin.features.history.run_spread import BOUNDS, PARTS, SHARES, nominal_shares
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.compiled_features import (
    fill_known_facts,
    fill_shares,
    learn_shares,
    run_time_at,
)
from slurm_rl_plugin.simulator.kernel.workload_history import (
    ENDED_EVENT,
    WorkloadHistory,
    fold_run,
    known_rows,
    past_speaks,
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
    outlived = [jobs[log.run_time >= bound] for bound in SHORT_RUN_TIMES]
    times = [start[chosen] + SHORT_RUN_TIMES[kind] for kind, chosen in enumerate(outlived)]
    parts = [*outlived, jobs, jobs, jobs]
    time = np.concatenate([*times, start + log.run_time, log.submit, start])
    kind = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    job = np.concatenate(parts)
    order = np.lexsort((job, kind, time))
    return time[order], kind[order], job[order]


class Spread(NamedTuple):
    """Quantiles that are told as jobs start, and what they learn from ends.

    Attributes:
        weights: of the log odds, shape [len(BOUNDS), KNOWN_FACTS].
        asked: shares that are asked for, shape [len(PARTS)].
        shares: space, shape [SHARES].
        quantiles: seconds, filled, shape [n, len(PARTS)]; of no row where nothing is asked for.
        told: the same, NaN where past runs do not speak for the request.
        processors: of each job, shape [n].
    """

    weights: FloatArray
    asked: FloatArray
    shares: FloatArray
    quantiles: FloatArray
    told: FloatArray
    processors: FloatArray


def _spread(weights: FloatArray | None, processors: IntArray) -> Spread:
    rows = 0 if weights is None else len(processors)
    return Spread(
        weights=np.zeros((len(BOUNDS), KNOWN_FACTS)) if weights is None else weights,
        asked=nominal_shares(),
        shares=np.zeros(SHARES),
        quantiles=np.zeros((rows, len(PARTS))),
        told=np.full((rows, len(PARTS)), np.nan),
        processors=processors.astype(np.float64),
    )


@compiled
def _fill_facts(
    facts: FloatArray, past: WorkloadHistory, user: int, template: int, processors: float
) -> None:
    of_user, of_template = known_rows(past, user, template)
    fill_known_facts(
        facts,
        past.asked[template],
        processors,
        of_user,
        of_template,
        1.0 * past.user_known[user],
        1.0 * past.template_known[template],
    )


@compiled
def _tell(
    past: WorkloadHistory, spread: Spread, facts: FloatArray, user: int, template: int, job: int
) -> None:
    fill_shares(spread.shares, spread.weights @ facts)
    speaks = past_speaks(past, user, template, spread.processors[job])
    for part in range(len(spread.asked)):
        told = run_time_at(spread.shares, spread.asked[part])
        spread.quantiles[job, part] = told if speaks else past.asked[template]
        spread.told[job, part] = told if speaks else np.nan


@compiled
def _replay(
    past: WorkloadHistory,
    kind: IntArray,
    job: IntArray,
    run_time: FloatArray,
    processors: IntArray,
    at_submission: FloatArray,
    at_start: FloatArray,
    spread: Spread,
) -> None:
    """Go through events; fill what is asked for where the arrays have rows."""
    ended = 2 * past.user_known.astype(np.int64)  # runs of each user; of rows known before, two
    for event in range(len(kind)):
        number = job[event]
        user, template = past.user[number], past.template[number]
        if kind[event] <= ENDED_EVENT:
            wide = float(processors[number])
            if kind[event] == ENDED_EVENT and len(spread.quantiles):
                learn_shares(spread.asked, spread.told[number], run_time[number])
            fold_run(past, user, template, kind[event], run_time[number], wide)
            ended[user] += kind[event] == ENDED_EVENT
        elif kind[event] == _SUBMITTED:
            if len(at_submission) and ended[user]:
                row = past.users[user]
                before = row[PREVIOUS] if ended[user] > 1 else row[LAST]
                at_submission[number, 0] = 0.5 * (row[LAST] + before)
                at_submission[number, 1] = row[INVERSE]
        elif len(at_start):
            _fill_facts(at_start[number], past, user, template, float(processors[number]))
            if len(spread.quantiles):
                _tell(past, spread, at_start[number], user, template, number)


@compiled
def _tell_now(
    past: WorkloadHistory, spread: Spread, facts: FloatArray, jobs: IntArray, found: FloatArray
) -> None:
    for place in range(len(jobs)):
        job = jobs[place]
        user, template = past.user[job], past.template[job]
        _fill_facts(facts, past, user, template, spread.processors[job])
        fill_shares(spread.shares, spread.weights @ facts)
        speaks = past_speaks(past, user, template, spread.processors[job])
        for part in range(len(spread.asked)):
            told = run_time_at(spread.shares, spread.asked[part])
            found[place, part] = told if speaks else past.asked[template]


class RecordedPast:
    """A log gone through up to some time, and no further until asked."""

    def __init__(self, prepared: PreparedLog, spread: FloatArray | None = None) -> None:
        """Before its first job.

        Args:
            prepared: the log.
            spread: weights of predicted quantiles, shape [len(BOUNDS), KNOWN_FACTS]; of each run
                they are told as it starts, and learn from its end.
        """
        self.past = prepared.past.copy()
        self._prepared = prepared
        self._time, self._kind, self._job = _events(prepared)
        self._done = 0
        self._told = _spread(spread, prepared.log.processors)
        self._facts = np.zeros((len(self._told.quantiles), KNOWN_FACTS))

    @property
    def told_at_start(self) -> FloatArray:
        """Quantiles of the runs that have started, seconds, shape [n, len(PARTS)]."""
        return self._told.quantiles

    def run(
        self,
        until: float,
        at_submission: FloatArray | None = None,
        at_start: FloatArray | None = None,
    ) -> None:
        """Go through what happened before a time, seconds; fill what is asked for."""
        last = int(np.searchsorted(self._time, until))
        events = slice(self._done, last)
        nothing = np.empty((0, 0))
        log = self._prepared.log
        _replay(
            self.past,
            self._kind[events],
            self._job[events],
            log.run_time,
            log.processors,
            nothing if at_submission is None else at_submission,
            self._facts if at_start is None else at_start,
            self._told,
        )
        self._done = max(last, self._done)

    def quantiles_now(self, jobs: IntArray) -> FloatArray:
        """Run times before which PARTS of jobs like these end, seconds, shape [m, len(PARTS)].

        Those of a request that past runs do not speak for are its limit.
        """
        found = np.empty((len(jobs), len(PARTS)))
        _tell_now(self.past, self._told, np.zeros(KNOWN_FACTS), jobs, found)
        return found


def windows_with_past(
    prepared: PreparedLog, firsts: Sequence[int], count: int
) -> list[PreparedLog]:
    """Windows of a log that know what the log's runs told strictly before their first submission.

    A job that still runs then tells nothing more: it is none of the window's.

    Args:
        prepared: the log.
        firsts: first job of each window.
        count: jobs of a window.
    """
    replay = RecordedPast(prepared)
    windows: dict[int, PreparedLog] = {}
    for first in sorted(set(firsts)):
        replay.run(float(prepared.log.submit[first]) if count else -np.inf)
        known = replace(prepared, past=replay.past)
        windows[first] = select_prepared(known, np.arange(first, first + count))
    return [windows[first] for first in firsts]


def known_at_start(prepared: PreparedLog) -> FloatArray:
    """What a prediction of each job is made of when the log says that it started.

    Returns:
        float64[n, KNOWN_FACTS], as `fill_known_facts`.
    """
    facts = np.zeros((len(prepared.log), KNOWN_FACTS))
    RecordedPast(prepared).run(np.inf, at_start=facts)
    return facts


def quantiles_at_start(prepared: PreparedLog, spread: FloatArray) -> FloatArray:
    """What a prediction told of each run time when the log says that the job started.

    Args:
        prepared: the log.
        spread: weights of the prediction, shape [len(BOUNDS), KNOWN_FACTS].

    Returns:
        Seconds below which `run_spread.PARTS` of such runs end, shape [n, len(PARTS)].
    """
    past = RecordedPast(prepared, spread)
    past.run(np.inf)
    return past.told_at_start


def recent_runs(prepared: PreparedLog) -> RecentRuns:
    """What users' last runs told when each job was submitted.

    The mean of the two last run times as in Tsafrir, Etsion and Feitelson 2007, at most the
    request; of one run its own, and the request where no run of the user has ended.
    """
    told = np.full((len(prepared.log), 2), np.nan)
    RecordedPast(prepared).run(np.inf, at_submission=told)
    requested = np.maximum(prepared.requested, 1.0)
    known = np.isfinite(told[:, 0])
    predicted = np.where(known, np.clip(told[:, 0], 1.0, requested), requested)
    rate = np.where(known, told[:, 1], 1.0 / np.maximum(requested, 10.0))
    return RecentRuns(predicted=predicted, rate=rate)
