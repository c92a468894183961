"""Published logs that several studies read, and paired trials of policies on the same logs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.accounting.swf.reader import SwfReader
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RunTimeEstimate
from slurm_rl_plugin.learning.evaluation.paired import Candidate, schedule_of, starts_under
from slurm_rl_plugin.measure.intervals import of_learners_and_logs
from slurm_rl_plugin.papers.study import claims
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_scores
from slurm_rl_plugin.simulator.workloads.log_workload import OTHER_ACCOUNT, PreparedLog, prepare_log
from slurm_rl_plugin.units import INTERACTIVE_WAIT_GOAL, FloatArray
from slurm_rl_plugin.utility.fairness import fairness, service_at
from slurm_rl_plugin.utility.summary import ScheduledJobs, summarise
from slurm_rl_plugin.utility.time_utility import relative_overhead, responsiveness


def log_in(folder: Path, name: str) -> Path | None:
    """The file of a log; None where the folder has none."""
    for path in (folder / f"{name}.swf.gz", folder / f"{name}.swf"):
        if path.is_file():
            return path
    return None


def archived_log(
    folder: Path, name: str, where: str = "which is at the Parallel Workloads Archive"
) -> Path:
    """The file of a log that a study requires."""
    path = log_in(folder, name)
    if path is None:
        raise ConfigurationError(
            f"{folder} holds no {name}.swf.gz: give the directory of the traces, {where}."
        )
    return path


LPC_EGEE = "LPC-EGEE-2004-1.2-cln"
SEGMENT_JOBS = 9500
#: Processors of the 2011 experiments, and those of the machine that wrote the log.
PROCESSORS_OF_2011, PROCESSORS_OF_LPC = 81, 140
#: First and last jobs of a segment that are not counted.
SEGMENT_DROP = (500, 500)
#: Groups with a share of their own; the rest of the segment's work is the share of `_other`.
_GROUPS = ("2", "6", "1")


def read_lpc(folder: Path) -> JobLog:
    """The jobs of LPC-EGEE that ran."""
    return SwfReader().read(archived_log(folder, LPC_EGEE))[0]


def segment_of(log: JobLog, number: int) -> JobLog:
    """Segment k of a log of the jobs that ran: jobs 9500 k to 9500 (k + 1) - 1."""
    return log.select(np.arange(SEGMENT_JOBS * number, SEGMENT_JOBS * (number + 1)))


def prepared_segments(
    log: JobLog, numbers: Iterable[int], capacity: int, jobs: int = 0
) -> dict[int, PreparedLog]:
    """Segments; the shares of groups 2, 6, 1 and of the rest are their parts of the work."""
    found = {}
    for number in numbers:
        segment = segment_of(log, number)
        if jobs:
            segment = segment.select(np.arange(jobs))
        found[number] = prepare_log(segment, capacity=capacity, shares=_shares_of(segment))
    return found


def _shares_of(segment: JobLog) -> dict[str, float]:
    work = segment.run_time * segment.processors
    shares = {
        name: float(work[segment.account == segment.accounts.index(name)].sum() / work.sum())
        for name in _GROUPS
        if name in segment.accounts
    }
    return {**shares, OTHER_ACCOUNT: max(1.0 - sum(shares.values()), 0.0)}


#: Logs of parallel machines with user estimates: name -> file of the Parallel Workloads Archive.
LOGS: Mapping[str, str] = {
    "SDSC-SP2": "SDSC-SP2-1998-4.2-cln",
    "HPC2N": "HPC2N-2002-2.2-cln",
    "CTC-SP2": "CTC-SP2-1996-3.1-cln",
}


class StudyLog(NamedTuple):
    """A log and the checksum of its file."""

    prepared: PreparedLog
    checksum: str


def read_study_logs(folder: Path, fewest: int) -> dict[str, StudyLog]:
    """The logs of LOGS in a folder, by name."""
    found = {}
    for name, file in LOGS.items():
        path = log_in(folder, file)
        if path is not None:
            log, report = read_log(path)
            found[name] = StudyLog(prepare_log(log), report.checksum)
    if len(found) < fewest:
        files = ", ".join(f"{file}.swf.gz" for file in LOGS.values())
        raise ConfigurationError(
            f"{folder} holds {len(found)} of {files}: give the directory of {fewest} of them "
            "at least, which are at the Parallel Workloads Archive."
        )
    return found


LONGEST_FIRST = "longest first"
_CLASSES = {"interactive": True, "batch": False}
#: Part of the interactive jobs that counts as the worst (2011, section 5.1).
_WORST = 0.05


def scheduled(policy: Candidate, prepared: PreparedLog) -> ScheduledJobs:
    """The log's jobs with their starts; without estimates of its own a policy knows run times."""
    settings = SimulationSettings(capacity=prepared.capacity, half_life=math.inf)
    workload = prepared.workload(None)
    if policy.name == LONGEST_FIRST:
        start = simulate_scores(workload, workload.estimate, settings).start
    else:
        start = starts_under(policy, prepared, workload, settings)
    return schedule_of(prepared, start, settings)


NATIVE, FIFO, SJF = "native", "FIFO", "SJF oracle"
INTERACTIVE_FIRST, MIN_RUN_WAIT = "interactive first", "min(run + wait) EST"
#: Name in tables -> rule of `evaluate`; EST estimates run times by the medians of the classes.
_RULES = {
    NATIVE: "native",
    FIFO: "fifo",
    "EDF": "edf",
    INTERACTIVE_FIRST: "interactive-first",
    SJF: "sjf",
    "SJF EST": "sjf",
    "utility-greedy oracle": "utility-greedy",
    "utility-greedy EST": "utility-greedy",
    MIN_RUN_WAIT: "min-run-wait",
    LONGEST_FIRST: LONGEST_FIRST,
}


def rules(*names: str, medians: RunTimeEstimate | None = None) -> dict[str, Candidate]:
    """Rules by name; "..., 2 held" keeps two processors free of batch work.

    `medians` of the classes' run times come from logs that are not measured, for EST.
    """
    found = {}
    for name in names:
        rule, _, held = name.removesuffix(" held").partition(", ")
        estimates = medians if rule.endswith("EST") else None
        found[name] = Candidate(name=_RULES[rule], estimates=estimates, reserve=int(held or 0))
    return found


def measures_of(jobs: ScheduledJobs, drop: tuple[int, int]) -> dict[str, float]:
    """The figures of the papers' tables and sentences: column -> figure, waits in seconds.

    "work-weighted wait" is the sum of run time * wait of all jobs, with those of `drop`;
    "overhead <= 1" the part of the interactive jobs that wait at most their run time; "worst 5 %"
    the mean responsiveness of the 5 % least responsive interactive jobs. `drop` is how many first
    and last jobs by submit order are not counted.
    """
    summary = summarise(jobs, drop=drop)
    counted = slice(drop[0], len(jobs.submit) - drop[1])
    wait, run_time = jobs.wait[counted], jobs.run_time[counted]
    response = responsiveness(wait, run_time)
    quick = jobs.interactive[counted]
    found = {
        "mean wait": summary["mean_wait"],
        "longest wait": summary["max_wait"],
        "U": summary["time_utility"],
        "R": summary["responsiveness"],
        "R std": float(response.std()),
        "F": summary["fairness"],
        "F at the end": summary["fairness_final"],
        "J": summary["objective"],
        "work-weighted wait": float((jobs.run_time * jobs.wait).sum()),
        "overhead <= 1": _part(relative_overhead(wait, run_time)[quick] <= 1.0),
        "worst 5 %": float("nan"),
        "interactive R > 0.9": _part(response[quick] > 0.9),
    }
    if quick.any():
        worst = max(round(_WORST * int(quick.sum())), 1)
        found["worst 5 %"] = float(np.sort(response[quick])[:worst].mean())
    for name, flag in _CLASSES.items():
        found |= _measures_of_class(name, wait[quick == flag], response[quick == flag])
    return {column: float("nan") if value is None else value for column, value in found.items()}


def _measures_of_class(name: str, wait: FloatArray, response: FloatArray) -> dict[str, Any]:
    if len(wait) == 0:
        wait = response = np.full(1, np.nan)
    return {
        f"{name} mean wait": float(wait.mean()),
        f"{name} median wait": float(np.median(wait)),
        f"{name} std of waits": float(wait.std()),
        f"{name} longest wait": float(wait.max()),
        f"{name} within 120 s": _part(wait <= INTERACTIVE_WAIT_GOAL),
        f"{name} R": float(response.mean()),
        f"{name} R std": float(response.std()),
    }


def _part(condition: Any) -> float:
    return float(np.mean(condition)) if len(condition) else float("nan")


#: Points in time at which fairness is compared.
_INSTANTS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTrial:
    """The schedules of each policy on the same logs."""

    schedules: Mapping[str, Sequence[ScheduledJobs]]  #: policy -> one schedule a log
    #: Policy -> column -> one figure a log, shape [logs].
    measures: Mapping[str, Mapping[str, FloatArray]]
    drop: tuple[int, int]  #: first and last jobs that are not counted

    def figure(self, policy: str, column: str) -> FloatArray:
        """One figure a log, shape [logs]."""
        return self.measures[policy][column]

    def means(self, column: str, policies: Iterable[str]) -> dict[str, float]:
        """Policy -> the mean over the logs, for those of the trial."""
        known = [name for name in policies if name in self.measures]
        return {name: float(self.figure(name, column).mean()) for name in known}

    def ratio(self, column: str, policy: str, to: str) -> FloatArray:
        """A policy's figure over another's on the same log, shape [logs]."""
        return np.asarray(self.figure(policy, column) / self.figure(to, column))

    def ratio_of_means(self, column: str, policy: str, to: str) -> claims.Measurement:
        """A policy's mean over the logs over another's on the same logs."""
        pair = [self.figure(policy, column), self.figure(to, column)]
        return claims.measure(np.stack(pair), claims.ratio_of_means)

    def row(
        self,
        group: str,
        policy: str,
        column: str,
        baselines: Iterable[str] = (),
        shown: str = "",
        **more: Any,
    ) -> claims.Row:
        """The row of a figure, with its means under the baselines; `shown` renames the column."""
        means = self.means(column, baselines)
        values = self.figure(policy, column)
        return claims.row(group, policy, shown or column, values, baselines=means, **more)

    def ratio_row(self, group: str, policy: str, to: str, column: str, **more: Any) -> claims.Row:
        """The row of the ratio of two policies' means."""
        ratio = self.ratio_of_means(column, policy, to)
        return claims.row_of(group, f"{policy} / {to}", column, ratio, **more)

    def fairness_gap(self, policy: str, place: int = 0) -> tuple[FloatArray, FloatArray]:
        """Fairness of a policy less that of the native scheduler over time.

        Returns:
            Seconds since the first submit, and the differences at these times, between the submits
            of the first and the last job counted.
        """
        native, other = (self.schedules[name][place] for name in (NATIVE, policy))
        last = len(native.submit) - self.drop[1] - 1
        times = np.linspace(native.submit[self.drop[0]], native.submit[last], _INSTANTS)
        difference = fairness_over_time(other, times) - fairness_over_time(native, times)
        return times - native.submit[0], difference

    def pooled(self, policy: str, *, interactive: bool) -> tuple[FloatArray, FloatArray]:
        """Waits and run times of the counted jobs of a class in all logs, seconds."""
        waits, run_times = [], []
        for jobs in self.schedules[policy]:
            counted = slice(self.drop[0], len(jobs.submit) - self.drop[1])
            mine = jobs.interactive[counted] == interactive
            waits.append(jobs.wait[counted][mine])
            run_times.append(jobs.run_time[counted][mine])
        return np.concatenate(waits), np.concatenate(run_times)


def fairness_over_time(jobs: ScheduledJobs, times: FloatArray) -> FloatArray:
    """Fairness (eq. 4) of the service up to each of `times` of the schedule's clock."""
    served = np.empty((len(times), len(jobs.shares)))
    for account in range(len(jobs.shares)):
        mine = jobs.account == account
        served[:, account] = service_at(
            times - jobs.submit[0],  # sums of epoch seconds would lose digits
            jobs.start[mine] - jobs.submit[0],
            jobs.run_time[mine],
            jobs.processors[mine],
        )
    total = served.sum(axis=1)
    fractions = np.divide(
        served, total[:, None], out=np.zeros_like(served), where=total[:, None] > 0
    )
    return np.array([float(fairness(jobs.shares, each)) for each in fractions])


def run_trial(
    logs: Iterable[PreparedLog],
    contenders: Mapping[str, Candidate],
    drop: tuple[int, int],
    add: Callable[[int], None],
) -> PairedTrial:
    """Simulate every contender on every log."""
    schedules: dict[str, list[ScheduledJobs]] = {name: [] for name in contenders}
    for prepared in logs:
        for name, contender in contenders.items():
            schedules[name].append(scheduled(contender, prepared))
        add(1)
    measures = {
        name: columns_of([measures_of(jobs, drop) for jobs in each])
        for name, each in schedules.items()
    }
    return PairedTrial(schedules=schedules, measures=measures, drop=drop)


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, FloatArray]:
    """Column -> its figures, shape [rows, ...]."""
    return {column: np.array([row[column] for row in rows]) for column in rows[0]}


def learners_of(trial: PairedTrial, policy: str) -> list[str]:
    """Names "<policy> <learner>" in a trial."""
    return [name for name in trial.measures if name.rpartition(" ")[0] == policy]


def with_averages(trial: PairedTrial, policies: Iterable[str]) -> PairedTrial:
    """The trial with an entry for each policy: figures averaged over its learners, log by log.

    Its schedules are those of the first learner, so figures of single jobs show one network.
    """
    measures, schedules = dict(trial.measures), dict(trial.schedules)
    for policy in policies:
        names = learners_of(trial, policy)
        schedules[policy] = trial.schedules[names[0]]
        measures[policy] = {
            column: np.mean([trial.figure(name, column) for name in names], axis=0)
            for column in trial.measures[names[0]]
        }
    return PairedTrial(schedules=schedules, measures=measures, drop=trial.drop)


def figures_by_learner(trial: PairedTrial, policy: str, column: str) -> FloatArray:
    """One figure a learner and log, shape [learners, logs]."""
    return np.array([trial.figure(name, column) for name in learners_of(trial, policy)])


def measure_over_learners(differences: FloatArray) -> claims.Measurement:
    """Mean of paired differences; the interval resamples both learners and logs, fixed seed.

    Resampling logs alone would take one lucky network for an improvement of its kind.
    """
    return claims.Measurement.of(float(differences.mean()), of_learners_and_logs(differences))
