"""What the 2008 paper prints and says, as claims."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.features.reactive_grid import grid_job_features
from slurm_rl_plugin.learning.sarsa import SarsaSettings
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.papers.reactive_grids_2008.load import (
    BASELINES,
    DECLARED,
    FRACTIONS,
    HOLDING,
    JOBS,
    OBJECTIVE,
    RL,
    learning_task,
    printed_waits,
    rates,
    training_loads,
)
from slurm_rl_plugin.papers.study.claims import (
    FEW_LOGS,
    Cell,
    Judgement,
    Measurement,
    Printed,
    Row,
    as_bound,
    measure,
    row,
)
from slurm_rl_plugin.papers.study.result_store import LearningTask, Loads, ResultStore
from slurm_rl_plugin.papers.study.study import Effort
from slurm_rl_plugin.papers.study.trials import (
    FIFO,
    LONGEST_FIRST,
    NATIVE,
    PROCESSORS_OF_2011,
    SJF,
    PairedTrial,
    prepared_segments,
)
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.units import HOUR, MINUTE, SHORT_JOB_RUN_TIME, FloatArray
from slurm_rl_plugin.utility.fairness import fairness, service_at
from slurm_rl_plugin.utility.summary import ScheduledJobs


def smallest_ratio(trial: PairedTrial) -> tuple[str, Measurement]:
    """The policy with the smallest sum of run time * wait against FIFO's, and that ratio."""
    ratios = {
        name: trial.ratio_of_means("work-weighted wait", name, FIFO)
        for name in trial.measures
        if name != FIFO
    }
    name = min(ratios, key=lambda each: ratios[each].value)
    return name, ratios[name]


def run_time_moments(interactive: float) -> dict[str, tuple[float, float, float]]:
    """Class -> its part of the jobs, mean and standard deviation of its run times, seconds.

    Exponential run times of rate mu, cut at 900 s: batch jobs are 900 s longer than an
    exponential time, interactive ones are what then is missing to the moments of the whole.
    Their part of the jobs is p = 1 - exp(-900 mu).
    """
    mu, _ = rates(interactive)
    cut, mean = SHORT_JOB_RUN_TIME, 1.0 / mu
    batch = (cut + mean, cut**2 + 2 * cut * mean + 2 * mean**2)
    rest = 1.0 - interactive
    short = (
        (mean - rest * batch[0]) / interactive,
        (2 * mean**2 - rest * batch[1]) / interactive,
    )
    return {
        "interactive": (interactive, short[0], math.sqrt(short[1] - short[0] ** 2)),
        "batch": (rest, batch[0], mean),
    }


def implied_ratio(interactive: float, *, most: bool) -> float:
    """RL's mean of p W over FIFO's as the printed means and deviations of Table II imply it.

    Under FIFO a job's wait does not depend on its own run time, hence E[pW] = E[p] E[W] in each
    class. Under another order E[pW] <= E[p] E[W] + std(p) std(W) (Cauchy and Schwarz). `most` gives
    that upper bound for RL; otherwise run time and wait are taken as independent.
    """
    worth = {FIFO: 0.0, RL: 0.0}
    for job_class, (part, mean, deviation) in run_time_moments(interactive).items():
        for policy in worth:
            wait, spread, _ = printed_waits(interactive, policy, job_class)
            bound = deviation * spread if most and policy == RL else 0.0
            worth[policy] += part * (mean * wait + bound)
    return worth[RL] / worth[FIFO]


def rows_of_table_1() -> Iterator[Row]:
    """Table I follows from p, the 900 s bound, the load and the number of processors."""
    for interactive in FRACTIONS:
        mu, arrivals = rates(interactive)
        computed = (mu, arrivals, 1.0 / mu / MINUTE, JOBS / arrivals / HOUR)
        group = f"Table I, p = {interactive}"
        for column, value in zip(DECLARED.of(group).columns, computed, strict=True):
            yield _row(group, "load", column, np.array([value]))


def _row(group: str, policy: str, column: str, values: FloatArray, **more: Any) -> Row:
    """The row of a mean over logs, whose interval counts however few they are."""
    return row(group, policy, column, values, logs=FEW_LOGS, **more)


def rows_of_waits(interactive: float, trial: PairedTrial) -> Iterator[Row]:
    """Table II and Fig. 3, for one fraction p of interactive jobs."""
    group = f"Table II, p = {interactive}"
    name, ratio = smallest_ratio(trial)
    product, most = (implied_ratio(interactive, most=each) for each in (False, True))
    words = {"name": name, "ratio": ratio.value, "most": most, "product": product}
    for job_class in ("interactive", "batch"):
        for policy in (FIFO, RL):
            for statistic in ("mean wait", "std of waits", "longest wait"):
                column = f"{job_class} {statistic}"
                means, values = trial.means(column, BASELINES), trial.figure(policy, column)
                told = {**words, **_best(means)}
                yield _row(group, policy, f"{column} (s)", values, baselines=means, words=told)
    for job_class in ("interactive", "batch"):
        column = f"{job_class} mean wait"
        fifo, learned = (printed_waits(interactive, p, job_class)[0] for p in (FIFO, RL))
        means = trial.means(column, BASELINES)
        beside = {
            f"{FIFO} / {each}": means[FIFO] / wait for each, wait in means.items() if wait > 0
        }
        yield Row(
            cell=Cell(group, f"{FIFO} / {RL}", column),
            measured=trial.ratio_of_means(column, FIFO, RL),
            draws=trial.ratio(column, FIFO, RL),
            printed=Printed.rounded(fifo / learned, 1),
            baselines=beside,
            words={**words, **_best(means)},
        )
    sums = trial.means("work-weighted wait", trial.measures)
    yield Row(
        cell=Cell(group, "any policy / FIFO", "sum of run time * wait, the smallest"),
        measured=ratio,
        printed=Printed.rounded(most, 2),
        baselines={each: value / sums[FIFO] for each, value in sums.items() if each != FIFO},
        words=words,
    )
    yield from _rows_of_figure_3(f"Fig. 3, p = {interactive}", trial)


def _best(means: Mapping[str, float]) -> dict[str, str | float]:
    best = min(means, key=lambda each: means[each])
    return {"best": best, "least": means[best]}


def _rows_of_figure_3(group: str, trial: PairedTrial) -> Iterator[Row]:
    for policy, column, shown in (
        (RL, "interactive within 120 s", "interactive within 120 s"),
        (RL, "overhead <= 1", "interactive, overhead <= 1"),
        (FIFO, "overhead <= 1", "interactive, overhead <= 1"),
    ):
        values, means = trial.figure(policy, column), trial.means(column, BASELINES)
        best = {"best": trial.figure(SJF, column).mean()}
        yield _row(group, policy, shown, values, baselines=means, words=best)


_BESIDE = (RL, *BASELINES)


def rows_of_holding(interactive: float, trial: PairedTrial) -> Iterator[Row]:
    """What holding processors gives over the learned greedy policy, and its price for batch jobs.

    Both papers lack the action to leave a processor idle although a batch job waits: their
    schedulers are greedy (2008, section III.B). SJF that holds one or two processors back from
    batch work shows what that leaves out, and what it costs.
    """
    group = f"Hold action, p = {interactive}"
    for policy in HOLDING:
        column = "interactive within 120 s"
        beside = trial.means(column, _BESIDE)
        yield _row(group, policy, column, trial.figure(policy, column), baselines=beside)
        gain, beside = trial.figure(policy, "J") - trial.figure(RL, "J"), trial.means("J", _BESIDE)
        yield _row(group, f"{policy} - {RL}", "J", gain, baselines=beside)
        column = "batch mean wait"
        yield Row(
            cell=Cell(group, f"{policy} / {RL}", column),
            measured=trial.ratio_of_means(column, policy, RL),
            baselines=trial.means(column, _BESIDE),
        )


#: The reward alone is as printed, and all settings are.
LITERAL, PRINTED = "RL, reward as printed", "RL, all as printed"
#: A crowded grid: 3 minutes to the next release, one machine idle, 10 hours of work for all
#: machines, running jobs at .9 utility, service by the targets.
_CROWDED = np.array([0.38, 0.02, 0.26, 0.9, 0.7, 0.2, 0.05, 0.05])


def scores_by_run_time(network: QNetwork, run_times: FloatArray) -> FloatArray:
    """Scores of jobs of account 0 on a crowded grid; interactive below 900 s.

    Returns:
        float64[n], standardised: only their order counts.
    """
    jobs = np.array([grid_job_features(each, float(each < 900.0), 0.0) for each in run_times])
    scores = network.scores(_CROWDED, jobs)
    return np.asarray((scores - scores.mean()) / max(float(scores.std()), 1e-12))


def preference_for_long_jobs(network: QNetwork) -> float:
    """Rank correlation of score and run time: 1 is longest first, -1 shortest first."""
    run_times = np.geomspace(10.0, 40_000.0, 200)
    ranks = np.argsort(np.argsort(scores_by_run_time(network, run_times)))
    return float(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1])


def rows_of_literal_reward(trial: PairedTrial, networks: Mapping[str, QNetwork]) -> Iterator[Row]:
    """That the reward as printed does not give what the paper reports.

    It is the utility of the job that starts, whatever that makes others wait. A batch job of many
    hours has utility near 1 however it waits (eq. 3 scales with its run time) and an interactive
    one that waited has none left. Waiting time is not among the 11 inputs, so the network sees
    only that long jobs are well paid: it learns to start the longest job first. What a start takes
    from the jobs left waiting, the difference reward, is what orders them shortest first.
    """
    means = trial.means("mean wait", (RL, LONGEST_FIRST, *BASELINES))
    for name in (LITERAL, PRINTED):
        yield Row(
            cell=Cell("Reward as printed, p = 0.2", f"{FIFO} / {name}", "mean wait"),
            measured=trial.ratio_of_means("mean wait", FIFO, name),
            baselines={f"{FIFO} / {each}": means[FIFO] / value for each, value in means.items()},
            words={
                "slope": preference_for_long_jobs(networks[name]),
                "learned": preference_for_long_jobs(networks[RL]),
            },
        )


#: Simulated seconds after which fairness is said to have settled.
_SETTLED = 50_000.0
#: Targets .4/.2/.2/.2 against work .7/.2/.05/.05: 1 - (.2 - .05)/.4.
INFEASIBLE_BOUND = 0.625


def fairness_over_time(jobs: ScheduledJobs, times: FloatArray) -> FloatArray:
    """Fairness (eq. 4) on the service consumed up to each of `times` of the schedule's clock."""
    served = np.empty((len(times), len(jobs.shares)))
    for account in range(len(jobs.shares)):
        mine = jobs.account == account
        served[:, account] = service_at(
            times - jobs.submit[0],  # small numbers: sums of epoch seconds would lose digits
            jobs.start[mine] - jobs.submit[0],
            jobs.run_time[mine],
            jobs.processors[mine],
        )
    total = served.sum(axis=1)
    fractions = np.divide(
        served, total[:, None], out=np.zeros_like(served), where=total[:, None] > 0
    )
    return np.array([float(fairness(jobs.shares, each)) for each in fractions])


def fairness_after(trial: PairedTrial, policy: str, seconds: float) -> FloatArray:
    """Fairness so many seconds after the first submit, one figure a log, shape [logs]."""
    return np.array(
        [
            fairness_over_time(jobs, np.array([jobs.submit[0] + seconds]))[0]
            for jobs in trial.schedules[policy]
        ]
    )


def rows_of_shares(feasible: PairedTrial, infeasible: PairedTrial) -> Iterator[Row]:
    """Every sentence of sections VI.A and B on fairness."""
    settled = {name: fairness_after(feasible, name, _SETTLED) for name in feasible.schedules}
    at_the_end = {name: feasible.figure(name, "F at the end") for name in feasible.schedules}
    missed = {name: infeasible.figure(name, "F") for name in infeasible.schedules}
    for group, policy, column, figures in (
        ("Fig. 4, feasible targets", RL, "F at 50,000 s", settled),
        ("Fig. 4, feasible targets", RL, "F in the long run", at_the_end),
        ("Fig. 4, feasible targets", FIFO, "F in the long run", at_the_end),
        ("Fig. 5, infeasible targets", RL, "F", missed),
        ("Fig. 5, infeasible targets", FIFO, "F", missed),
    ):
        means = {name: float(each.mean()) for name, each in figures.items()}
        beside = {name: means[name] for name in BASELINES if name in means}
        words = {"lowest": min(means.values()), "highest": max(means.values())}
        yield _row(group, policy, column, figures[policy], baselines=beside, words=words)


#: How the first sweeps act -> what figures call it.
PRETRAININGS = {
    "none": "no calibration",
    "edf": "early deadline first (the paper)",
    "recorded": "recorded starts (the paper's outlook)",
}
#: One log of 6,000 jobs teaches all there is to learn: a sweep of the curve is a short log, and
#: the steps are small.
SWEEP_JOBS, _LEARNING_RATE = 300, 0.01
_SWEEPS, _TRAINING_LOGS, _VALIDATION_LOGS, _LEARNERS = 16, 16, 3, 8
#: Sweeps over which the curves are compared: those of the calibration and as many behind them.
EARLY = slice(1, 7)
_INTERACTIVE = 0.5
#: Group of the claims.
CALIBRATION = f"Calibration, p = {_INTERACTIVE}"

#: Pre-training -> objective on the validation loads, untrained and after each sweep, shape
#: [learners, sweeps + 1].
Curves = Mapping[str, FloatArray]


def curve_tasks(effort: Effort) -> dict[str, list[LearningTask]]:
    """Pre-training -> the trainings, one a learner's seed, all on the same logs."""
    small = effort.jobs > 0
    if not small:
        effort = replace(
            effort, sweeps=_SWEEPS, training=_TRAINING_LOGS, validation=_VALIDATION_LOGS
        )
    learners = effort.learners if small else _LEARNERS
    return {
        kind: [
            learning_task(
                f"learning-{kind}",
                _INTERACTIVE,
                effort,
                SarsaSettings(pretraining=kind, seed=seed, learning_rate=_LEARNING_RATE),
                recorded=True,
                training_jobs=SWEEP_JOBS,
            )
            for seed in range(1, learners + 1)
        ]
        for kind in PRETRAININGS
    }


def learning_curves(effort: Effort, store: ResultStore) -> Curves:
    """Train every learner."""
    return {
        kind: np.array([[point[2] for point in store.network(task).curve] for task in tasks])
        for kind, tasks in curve_tasks(effort).items()
    }


def rows_of_calibration(curves: Curves) -> Iterator[Row]:
    """Whether calibration helps, paired by the learner's seed."""
    sweeps = next(iter(curves.values())).shape[1]
    shown = EARLY if sweeps >= EARLY.stop else slice(1, sweeps)
    early = {kind: curve[:, shown].mean(axis=1) for kind, curve in curves.items()}
    means = {kind: float(values.mean()) for kind, values in early.items()}
    jobs = f"{shown.start * SWEEP_JOBS} to {(shown.stop - 1) * SWEEP_JOBS} jobs"
    for better, than in (("edf", "none"), ("recorded", "edf")):
        column, gain = f"objective after {jobs}", early[better] - early[than]
        yield _row(CALIBRATION, f"{better} - {than}", column, gain, baselines=means)


MEASURED_SEGMENTS = (14, 17, 18, 19)
#: Busy segments that are not measured: four to learn on, one to choose on.
_LEARNED, _CHOOSING = (8, 9, 11, 16), (15,)
#: Points in time at which fairness is compared.
_INSTANTS = 400
#: Waits below are counted as one second, so that ratios of medians exist.
_LEAST_WAIT = 1.0


def segments_task(log: JobLog, effort: Effort, settings: SarsaSettings) -> LearningTask:
    """SARSA on busy segments that are not measured, on the 81 processors of 2011."""

    def loads() -> Loads:
        return _loads(_LEARNED), _loads(_CHOOSING)

    def _loads(numbers: tuple[int, ...]) -> list[TrainingLoad]:
        prepared = prepared_segments(log, numbers, PROCESSORS_OF_2011, effort.jobs)
        return training_loads(prepared.values())

    return LearningTask(
        name="reactive-grids-lpc",
        settings=replace(settings, sweeps=effort.sweeps, weights=OBJECTIVE),
        sources=[f"LPC-EGEE {_LEARNED} {_CHOOSING} {PROCESSORS_OF_2011} {effort.jobs}"],
        loads=loads,
    )


def rows_of_segment(group: str, trial: PairedTrial, machine: str) -> Iterator[Row]:
    """What sections VI.C says, of one segment."""
    for column, (native, learned, *factor) in DECLARED.tables["table_iii"].items():
        for least in factor:  # nothing is said of the others
            printed = Printed.rounded(native / learned, 1)
            yield _factor_row(f"Table III, {group}", trial, column, printed, least, machine)
    column = "interactive within 120 s"
    beside = trial.means(column, (NATIVE, *BASELINES))
    yield _row(f"Fig. 6, {group}", RL, column, trial.figure(RL, column), baselines=beside)
    gaps = {
        name: float(np.abs(fairness_gap(trial, name)[1]).max())
        for name in (RL, *BASELINES)
        if name in trial.schedules
    }
    gap = np.array([gaps.pop(RL)])
    over = f"{RL} - {NATIVE}"
    yield _row(f"Fig. 7, {group}", over, "largest difference of F", gap, baselines=gaps)


def _factor_row(
    group: str, trial: PairedTrial, column: str, printed: Printed, least: float, machine: str
) -> Row:
    factors = {
        name: float(_counted(trial, NATIVE, column) / _counted(trial, name, column))
        for name in (RL, *BASELINES)
        if name in trial.measures
    }
    measured = measure(np.array([factors[RL]]))
    judged = as_bound(measured, least, least=True)
    native = float(trial.figure(NATIVE, column)[0])
    because = (
        f"native / RL {judged.because}; native / FIFO is {factors[FIFO]:.3g}; the native figure is "
        f"{native:.4g} s; {machine}"
    )
    at_once = native < MINUTE
    if at_once:
        because += "; waits of seconds are the native scheduler's cycle, which a simulator lacks"
    if printed.value < least:
        because += f"; the paper's own figures give {printed.value:.1f}"
    return Row(
        cell=Cell(group, f"{NATIVE} / {RL}", column),
        measured=measured,
        printed=printed,
        baselines={f"{NATIVE} / {name}": value for name, value in factors.items() if name != RL},
        judged=Judgement(judged.holds and not at_once, because),
    )


def _counted(trial: PairedTrial, policy: str, column: str) -> float:
    return max(float(trial.figure(policy, column)[0]), _LEAST_WAIT)


def fairness_gap(trial: PairedTrial, policy: str, place: int = 0) -> tuple[FloatArray, FloatArray]:
    """Fairness of a policy less that of the native scheduler over time.

    Returns:
        Seconds since the first submit, and the differences there; between the submits of the
        first and the last job counted.
    """
    native, other = (trial.schedules[name][place] for name in (NATIVE, policy))
    last = len(native.submit) - trial.drop[1] - 1
    times = np.linspace(native.submit[trial.drop[0]], native.submit[last], _INSTANTS)
    difference = fairness_over_time(other, times) - fairness_over_time(native, times)
    return times - native.submit[0], difference


def wait_differences(trial: PairedTrial, policy: str) -> tuple[FloatArray, FloatArray]:
    """Native wait less that of a policy, of each counted job, at its submit since the first one."""
    native, other = (trial.schedules[name][0] for name in (NATIVE, policy))
    counted = slice(trial.drop[0], len(native.submit) - trial.drop[1])
    submit = native.submit[counted] - native.submit[0]
    return submit, (native.wait - other.wait)[counted]
