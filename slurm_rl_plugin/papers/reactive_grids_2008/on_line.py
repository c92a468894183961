"""The experiment as the paper ran it: the learner schedules while it learns, and is measured so.

Early deadline first schedules a log that is not measured, and initialises the network. Then the
learner schedules the measured log with every setting as printed: epsilon .3, gamma .2, learning
rate .3, the network trained afresh at every start. Each such training takes REPLAYED of the starts
so far, spread evenly; the paper takes them all. Beside it stand the initial policy, and one that
learned on another log and is frozen.

The text leaves open whose utility is rewarded (section III.B), and whether a job's virtual
organisation is one input (the 11 inputs of section III.C) or one for each: every reading is a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.learning.evaluation.paired import schedule_of
from slurm_rl_plugin.learning.sarsa import PAPER, OnLineLearner
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.papers.reactive_grids_2008.claims import MEASURED_SEGMENTS
from slurm_rl_plugin.papers.reactive_grids_2008.load import (
    DROP,
    FEASIBLE,
    RL,
    TRAINING_SEED,
    generated,
    printed_waits,
    training_loads,
)
from slurm_rl_plugin.papers.study.claims import (
    Cell,
    Printed,
    Report,
    Row,
    TextTable,
    measure,
    ratio_of_means,
    row,
)
from slurm_rl_plugin.papers.study.result_store import ResultStore, stem_of
from slurm_rl_plugin.papers.study.study import Effort, Plan
from slurm_rl_plugin.papers.study.trials import (
    FIFO,
    NATIVE,
    PROCESSORS_OF_LPC,
    SEGMENT_DROP,
    Contender,
    columns_of,
    measures_of,
    prepared_segments,
)
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.summary import JobMeasures, ScheduledJobs

#: Fractions of interactive jobs that the text gives factors for.
FRACTIONS = (0.2, 0.5)
#: Generated logs of each, and examples of each training at a start.
_LOGS, REPLAYED = 5, 300
#: Windows of equally many jobs, by arrival, whose utility is followed.
WINDOWS = 10
#: Segments that initialise the network, and that the frozen one learns on.
_CALIBRATION, _TRAINING = 16, 15
#: Mean utility by which a policy may lie below another in a window and be no worse.
_NEGLIGIBLE = 0.005
#: How a learner acts: while it learns, frozen after another log, or as it was initialised.
ON_LINE, FROZEN, INITIAL = "on line", "frozen", "initial"
_BESIDE = (FROZEN, INITIAL)
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
        """As tables show it."""
        return f"{_READINGS[self.reward]}{', VO one-hot' if self.one_hot else ''}"


READINGS = tuple(Reading(reward, one_hot) for one_hot in (False, True) for reward in _READINGS)


class Followed(NamedTuple):
    """What one policy made of several logs."""

    measures: Mapping[str, FloatArray]  #: column -> one figure a log, shape [logs]
    windows: FloatArray  #: mean time utility of each window, shape [logs, WINDOWS]


#: Policy, as "<reading>, <how it acts>" or a rule's name -> what it made of the logs.
Trial = Mapping[str, Followed]


class OnLine(NamedTuple):
    """Figures of the learners and of what stands beside them."""

    #: Fraction of interactive jobs -> policies on the generated load.
    generated: Mapping[float, Trial]
    segments: Trial  #: policies on the segments of LPC-EGEE; empty without traces


def on_line_steps(plan: Plan) -> int:
    """Measured logs of all readings, for a progress bar."""
    logs = len(FRACTIONS) * min(plan.seeds, _LOGS)
    return len(READINGS) * (logs + len(MEASURED_SEGMENTS) * (plan.traces is not None))


def learn_on_line(plan: Plan, log: JobLog | None, store: ResultStore) -> OnLine:
    """Every reading on the generated load and, where LPC-EGEE is given, on its segments."""
    effort, seeds = plan.effort, range(min(plan.seeds, _LOGS))
    loads = {}
    for p in FRACTIONS:
        first = [TRAINING_SEED, TRAINING_SEED + 1]
        past = training_loads(generated(p, first, effort, FEASIBLE))
        measured = training_loads(generated(p, seeds, effort, FEASIBLE))
        runs = _Runs(f"p={p}", past, measured, effort.drop_of(DROP), effort)
        loads[p] = runs.trial((FIFO,), store)
    segments: Trial = {}
    if log is not None:
        found = prepared_segments(
            log, (_CALIBRATION, _TRAINING, *MEASURED_SEGMENTS), PROCESSORS_OF_LPC, effort.jobs
        )
        every = training_loads(found.values())
        runs = _Runs("LPC-EGEE", every[:2], every[2:], effort.drop_of(SEGMENT_DROP), effort)
        segments = runs.trial((FIFO, NATIVE), store)
    return OnLine(generated=loads, segments=segments)


class _Runs(NamedTuple):
    """Logs that are scheduled in the same ways."""

    source: str
    past: Sequence[TrainingLoad]  #: one that initialises, and one that the frozen policy learns on
    measured: Sequence[TrainingLoad]
    drop: tuple[int, int]
    effort: Effort

    def trial(self, rules: Sequence[str], store: ResultStore) -> Trial:
        found = {}
        for rule in rules:
            schedule = Contender(rule=rule.lower()).schedule
            found[rule] = _followed(
                [self._entry(schedule(each.prepared)) for each in self.measured]
            )
        for reading in READINGS:
            key = (self.source, reading, len(self.measured), self.effort.jobs, REPLAYED)
            stem = stem_of("on-line", *key, module=__name__)
            rows = store.figures(stem, partial(self._rows, reading))
            for how, entries in rows.items():
                found[f"{reading.name}, {how}"] = _followed(entries)
            store.add(len(self.measured))
        return found

    def _rows(self, reading: Reading) -> dict[str, list[dict[str, Any]]]:
        """How a learner acts -> an entry for each measured log."""
        replayed = REPLAYED if self.effort.jobs == 0 else REPLAYED // 10
        settings = replace(PAPER, reward=reading.reward)
        learner = OnLineLearner(self.past[0], settings, replayed=replayed, one_hot=reading.one_hot)
        initial = learner.parameters.copy()
        learner.run(self.past[1], learning=True)
        learned = learner.parameters.copy()
        rows: dict[str, list[dict[str, Any]]] = {ON_LINE: [], FROZEN: [], INITIAL: []}
        for load in self.measured:
            for how, parameters in ((ON_LINE, initial), (FROZEN, learned), (INITIAL, initial)):
                learner.parameters = parameters.copy()
                start = learner.run(load, learning=how == ON_LINE)
                rows[how].append(self._entry(schedule_of(load.prepared, start, load.settings)))
        return rows

    def _entry(self, jobs: ScheduledJobs) -> dict[str, Any]:
        """Figures, and mean time utility of the jobs of each window, by arrival."""
        parts = np.array_split(JobMeasures.of(jobs).time_utility, WINDOWS)
        measures = measures_of(jobs, self.drop)
        windows = [float(part.mean()) for part in parts]
        return {"windows": windows, **{column: measures[column] for column in _COLUMNS}}


def _followed(entries: Sequence[Mapping[str, Any]]) -> Followed:
    columns = columns_of([{name: each[name] for name in _COLUMNS} for each in entries])
    return Followed(columns, np.array([each["windows"] for each in entries]))


def overtakes_after(windows: FloatArray, other: FloatArray) -> FloatArray:
    """Part of the jobs after which a policy is never again worse than another, shape [logs].

    The utilities of windows have shape [logs, windows].
    """
    worse = windows < other - _NEGLIGIBLE
    count = windows.shape[1]
    last = count - np.argmax(worse[:, ::-1], axis=1)
    return np.where(worse.any(axis=1), last, 0) / count


def rows_on_line(found: OnLine) -> Iterator[Row]:
    """What sections VI.A and VI.C say, of every reading."""
    for p, trial in found.generated.items():
        for reading in READINGS:
            yield from _rows_on_generated(p, trial, reading.name)
    for reading in READINGS if found.segments else ():
        yield from _rows_on_segments(found.segments, reading.name)


def _rows_on_generated(p: float, trial: Trial, name: str) -> Iterator[Row]:
    group = f"Learning on line, p = {p}"
    for job_class in ("interactive", "batch"):
        column = f"{job_class} mean wait"
        fifo, learned = (printed_waits(p, policy, job_class)[0] for policy in (FIFO, RL))
        wait = {how: trial[f"{name}, {how}"].measures[column] for how in (ON_LINE, *_BESIDE)}
        pair = np.stack([trial[FIFO].measures[column], wait[ON_LINE]])
        yield Row(
            cell=Cell(group, f"{FIFO} / {name}", column),
            measured=measure(pair, ratio_of_means),
            draws=pair[0] / pair[1],
            printed=Printed.rounded(fifo / learned, 1),
            baselines={
                f"{FIFO} / {how}": float(pair[0].mean() / wait[how].mean()) for how in _BESIDE
            },
        )
    yield _within(group, trial, name)


def _rows_on_segments(trial: Trial, name: str) -> Iterator[Row]:
    group = "Learning on line, LPC-EGEE, 140 processors"
    native = trial[NATIVE].windows
    after = {
        how: overtakes_after(trial[f"{name}, {how}"].windows, native) for how in (ON_LINE, *_BESIDE)
    }
    after[FIFO] = overtakes_after(trial[FIFO].windows, native)
    yield row(
        *(group, name, "part of the jobs after which it is never worse than native"),
        after[ON_LINE],
        baselines={how: float(each.mean()) for how, each in after.items() if how != ON_LINE},
        words={"parts": ", ".join(f"{part:.1f}" for part in after[ON_LINE])},
    )
    yield _within(group, trial, name)


def _within(group: str, trial: Trial, name: str) -> Row:
    column = "interactive within 120 s"
    beside = [FIFO, *(f"{name}, {how}" for how in _BESIDE)]
    means = {other: float(trial[other].measures[column].mean()) for other in beside}
    draws = trial[f"{name}, {ON_LINE}"].measures[column]
    return row(group, name, column, draws, baselines=means)


def on_line_facts(found: OnLine) -> dict[str, Any]:
    """Every figure, for the JSON document."""

    def entry(trial: Trial) -> dict[str, Any]:
        return {
            name: {
                "windows": each.windows.tolist(),
                **{column: values.tolist() for column, values in each.measures.items()},
            }
            for name, each in trial.items()
        }

    return {
        "generated": {str(p): entry(trial) for p, trial in found.generated.items()},
        "segments": entry(found.segments),
    }


def on_line_report(found: OnLine) -> Report:
    """Means over the logs, and the utility of each window."""
    report: list[str | TextTable] = []
    trials = {f"p = {p}": trial for p, trial in found.generated.items()}
    if found.segments:
        trials["LPC-EGEE, 140 processors"] = found.segments
    for group, trial in trials.items():
        rows = [
            [name, *(f"{each.measures[column].mean():.4g}" for column in _COLUMNS)]
            for name, each in trial.items()
        ]
        report += [f"\nLearning on line, {group}, means over the logs:"]
        report += [TextTable(["POLICY", *(column.upper() for column in _COLUMNS)], rows)]
    for place, segment in enumerate(MEASURED_SEGMENTS if found.segments else ()):
        rows = [
            [name, *(f"{value:.3f}" for value in each.windows[place])]
            for name, each in found.segments.items()
            if not name.endswith(INITIAL)
        ]
        report += [f"\nMean utility of each tenth of the jobs by arrival, segment {segment}:"]
        report += [TextTable(["POLICY", *(str(n + 1) for n in range(WINDOWS))], rows)]
    return report
