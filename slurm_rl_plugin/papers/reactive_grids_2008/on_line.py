"""The experiment as the paper ran it: the learner schedules the measured log while it learns.

Early deadline first schedules a log that is not measured and initialises the network. The learner
then schedules the measured log with all settings as printed: epsilon 0.3, gamma 0.2, learning rate
0.3, the network trained afresh at every start. Each such training takes REPLAYED of the starts so
far, spread evenly; the paper takes all. The initial policy, and a policy that learned on another
log and is frozen, are measured for comparison.

The text does not say which jobs' utility is rewarded (section III.B), nor whether a job's virtual
organisation is one input (the 11 inputs of section III.C) or one for each organisation. Every
reading is a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.learning.evaluation.paired import Candidate, schedule_of
from slurm_rl_plugin.learning.sarsa import PAPER, OnLineLearner
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.papers.reactive_grids_2008 import load
from slurm_rl_plugin.papers.study import claims, trials
from slurm_rl_plugin.papers.study.result_store import ResultStore, stem_of
from slurm_rl_plugin.papers.study.study import Asked
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.summary import JobMeasures, ScheduledJobs

#: Groups of the generated load -> fraction of interactive jobs; the text gives factors for these.
FRACTIONS = {f"p = {p}": p for p in (0.2, 0.5)}
#: Group of the segments of LPC-EGEE.
SEGMENTS = f"LPC-EGEE, {trials.PROCESSORS_OF_LPC} processors"
#: Generated logs of each fraction, and examples of each training at a start.
_LOGS, REPLAYED = 5, 300
#: Windows of equally many jobs, by arrival, over which utility is averaged.
WINDOWS = 10
#: Segments that initialise the network, and that the frozen one learns on.
_CALIBRATION, _TRAINING = 16, 15
#: Differences of mean utility that do not count in a window.
_NEGLIGIBLE = 0.005
#: How a learner acts: while it learns, frozen after another log, or as it was initialised.
ON_LINE, FROZEN, INITIAL = "on line", "frozen", "initial"
_COMPARED = (FROZEN, INITIAL)
_COLUMNS = ("interactive mean wait", "batch mean wait", "interactive within 120 s", "U", "J")
_READINGS = {
    "literal": "utility of the job that starts",
    "completed": "utility of the jobs that complete",
    "running": "utility of the running jobs",
}


class Reading(NamedTuple):
    """One way to read the paper."""

    reward: str  #: of the settings of SARSA
    one_hot: bool  #: whether each virtual organisation is an input of its own

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"{_READINGS[self.reward]}{', VO one-hot' if self.one_hot else ''}"


READINGS = tuple(Reading(reward, one_hot) for one_hot in (False, True) for reward in _READINGS)

#: Policy, "<reading>, <how it acts>" or a rule -> column -> one figure a log, shape [logs];
#: "windows" is the mean time utility of each window, shape [logs, WINDOWS].
Trial = Mapping[str, Mapping[str, FloatArray]]


def steps(asked: Asked) -> int:
    """Measured logs of all readings, for a progress bar."""
    logs = len(FRACTIONS) * min(asked.number_of_seeds(), _LOGS)
    return len(READINGS) * (logs + len(load.MEASURED_SEGMENTS) * (asked.traces is not None))


def learn(asked: Asked, log: JobLog | None, store: ResultStore) -> dict[str, Trial]:
    """Every reading on the generated load and, where LPC-EGEE is given, on its segments."""
    effort, found = asked.effort, {}
    first = load.TRAINING_SEED
    for group, p in FRACTIONS.items():
        seeds = [first, first + 1, *range(min(asked.number_of_seeds(), _LOGS))]
        every = load.training_loads(load.generated(p, seeds, effort, load.FEASIBLE))
        drop = effort.drop_of(load.DROP)
        found[group] = _trial(group, every, drop, (trials.FIFO,), effort.jobs, store)
    if log is not None:
        numbers = (_CALIBRATION, _TRAINING, *load.MEASURED_SEGMENTS)
        logs = trials.prepared_segments(log, numbers, trials.PROCESSORS_OF_LPC, effort.jobs)
        every, drop = load.training_loads(logs.values()), effort.drop_of(trials.SEGMENT_DROP)
        rules = (trials.FIFO, trials.NATIVE)
        found[SEGMENTS] = _trial(SEGMENTS, every, drop, rules, effort.jobs, store)
    return found


def _trial(
    group: str,
    loads: Sequence[TrainingLoad],
    drop: tuple[int, int],
    rules: Sequence[str],
    jobs: int,
    store: ResultStore,
) -> Trial:
    """Rules and every reading on the same logs.

    `loads` are one that initialises, one that the frozen policy learns on, and the measured ones.
    """
    past, measured = loads[:2], loads[2:]

    def entry(jobs: ScheduledJobs) -> dict[str, Any]:
        parts = np.array_split(JobMeasures.of(jobs).time_utility, WINDOWS)
        figures = trials.measures_of(jobs, drop)
        windows = [float(part.mean()) for part in parts]
        return {"windows": windows, **{column: figures[column] for column in _COLUMNS}}

    def acted(reading: Reading) -> dict[str, list[dict[str, Any]]]:
        """How a learner acts -> an entry for each measured log."""
        replayed = REPLAYED // 10 if jobs else REPLAYED
        settings = replace(PAPER, reward=reading.reward)
        learner = OnLineLearner(past[0], settings, replayed=replayed, one_hot=reading.one_hot)
        initial = learner.parameters.copy()
        learner.run(past[1], learning=True)
        learned = learner.parameters.copy()
        rows: dict[str, list[dict[str, Any]]] = {ON_LINE: [], FROZEN: [], INITIAL: []}
        for each in measured:
            for how, parameters in ((ON_LINE, initial), (FROZEN, learned), (INITIAL, initial)):
                learner.parameters = parameters.copy()
                start = learner.run(each, learning=how == ON_LINE)
                rows[how].append(entry(schedule_of(each.prepared, start, each.settings)))
        return rows

    found = {}
    for rule in rules:
        policy = Candidate(name=rule.lower())
        schedules = (trials.scheduled(policy, each.prepared) for each in measured)
        found[rule] = trials.columns_of([entry(each) for each in schedules])
    for reading in READINGS:
        key = (group, reading, len(measured), jobs, REPLAYED)
        stem = stem_of("on-line", *key, module=__name__)
        for how, entries in store.figures(stem, partial(acted, reading)).items():
            found[f"{reading.name}, {how}"] = trials.columns_of(entries)
        store.add(len(measured))
    return found


def overtakes_after(windows: FloatArray, other: FloatArray) -> FloatArray:
    """Part of the jobs after which a policy is never again worse than another, shape [logs].

    The utilities of windows have shape [logs, windows].
    """
    worse = windows < other - _NEGLIGIBLE
    count = windows.shape[1]
    last = count - np.argmax(worse[:, ::-1], axis=1)
    return np.where(worse.any(axis=1), last, 0) / count


def rows_of(found: Mapping[str, Trial]) -> Iterator[claims.Row]:
    """What sections VI.A and VI.C say, for every reading."""
    for group, trial in found.items():
        for reading in READINGS:
            shown = f"Learning on line, {group}"
            if group == SEGMENTS:
                yield _overtaking(shown, trial, reading.name)
            else:
                yield from _factors(shown, trial, reading.name, FRACTIONS[group])
            yield _within(shown, trial, reading.name)


def _factors(group: str, trial: Trial, name: str, p: float) -> Iterator[claims.Row]:
    for job_class in ("interactive", "batch"):
        column = f"{job_class} mean wait"
        wait = {how: trial[f"{name}, {how}"][column] for how in (ON_LINE, *_COMPARED)}
        pair = np.stack([trial[trials.FIFO][column], wait[ON_LINE]])
        means = {how: float(pair[0].mean() / wait[how].mean()) for how in _COMPARED}
        yield claims.row_of(
            *(group, f"{trials.FIFO} / {name}", column),
            claims.measure(pair, claims.ratio_of_means),
            draws=pair[0] / pair[1],
            printed=load.printed_factor(p, job_class),
            baselines={f"{trials.FIFO} / {how}": mean for how, mean in means.items()},
        )


def _overtaking(group: str, trial: Trial, name: str) -> claims.Row:
    native = trial[trials.NATIVE]["windows"]
    after = {
        how: overtakes_after(trial[f"{name}, {how}"]["windows"], native)
        for how in (ON_LINE, *_COMPARED)
    }
    after[trials.FIFO] = overtakes_after(trial[trials.FIFO]["windows"], native)
    mine = after.pop(ON_LINE)
    return claims.row(
        *(group, name, "part of the jobs after which it is never worse than native", mine),
        baselines=claims.means_of(after),
        words={"parts": ", ".join(f"{part:.1f}" for part in mine)},
    )


def _within(group: str, trial: Trial, name: str) -> claims.Row:
    column = "interactive within 120 s"
    others = [trials.FIFO, *(f"{name}, {how}" for how in _COMPARED)]
    means = claims.means_of({other: trial[other][column] for other in others})
    return claims.row(group, name, column, trial[f"{name}, {ON_LINE}"][column], baselines=means)


def facts(found: Mapping[str, Trial]) -> dict[str, Any]:
    """Every figure, for the JSON document."""
    entries = {
        group: {
            name: {column: values.tolist() for column, values in each.items()}
            for name, each in trial.items()
        }
        for group, trial in found.items()
    }
    segments = entries.pop(SEGMENTS, {})
    return {
        "generated": {str(FRACTIONS[group]): each for group, each in entries.items()},
        "segments": segments,
    }
