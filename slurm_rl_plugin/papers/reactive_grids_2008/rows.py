"""The rows of the 2008 paper: what it prints and says, measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from slurm_rl_plugin.features.reactive_grid import grid_job_features
from slurm_rl_plugin.learning.sarsa import SarsaSettings
from slurm_rl_plugin.papers.reactive_grids_2008 import load
from slurm_rl_plugin.papers.study import claims
from slurm_rl_plugin.papers.study.result_store import LearningTask, ResultStore
from slurm_rl_plugin.papers.study.study import Effort
from slurm_rl_plugin.papers.study.trials import (
    FIFO,
    LONGEST_FIRST,
    NATIVE,
    SJF,
    PairedTrial,
    fairness_over_time,
)
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.units import HOUR, MINUTE, SHORT_JOB_RUN_TIME, FloatArray

#: The interval of a mean counts in a verdict even of few logs.
_ANY_LOGS: Mapping[str, Any] = {"logs": claims.FEW_LOGS}
_CLASSES = ("interactive", "batch")
_WITHIN = "interactive within 120 s"


def smallest_ratio(trial: PairedTrial) -> tuple[str, claims.Measurement]:
    """The policy with the smallest sum of run time * wait relative to FIFO, and that ratio."""
    ratios = {
        name: trial.ratio_of_means("work-weighted wait", name, FIFO)
        for name in trial.measures
        if name != FIFO
    }
    name = min(ratios, key=lambda each: ratios[each].value)
    return name, ratios[name]


def run_time_moments(interactive: float) -> dict[str, tuple[float, float, float]]:
    """Class -> its part of the jobs, mean and standard deviation of its run times, seconds.

    Run times are exponential with rate mu, and the classes are cut at 900 s: batch jobs take 900 s
    more than an exponential time; interactive jobs have the rest of the moments. Their part of the
    jobs is p = 1 - exp(-900 mu).
    """
    mu, _ = load.rates(interactive)
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
    """RL's mean of p W over FIFO's, implied by the printed means and deviations of Table II.

    Under FIFO a job's wait does not depend on its own run time, hence E[pW] = E[p] E[W] in each
    class. Under another order E[pW] <= E[p] E[W] + std(p) std(W) (Cauchy and Schwarz). `most` gives
    that upper bound for RL; otherwise run time and wait are taken as independent.
    """
    means = {FIFO: 0.0, load.RL: 0.0}
    for job_class, (part, mean, deviation) in run_time_moments(interactive).items():
        for policy in means:
            wait, spread, _ = load.printed_waits(interactive, policy, job_class)
            bound = deviation * spread if most and policy == load.RL else 0.0
            means[policy] += part * (mean * wait + bound)
    return means[load.RL] / means[FIFO]


def rows_of_table_1() -> Iterator[claims.Row]:
    """Table I follows from p, the 900 s bound, the load and the number of processors."""
    for interactive in load.FRACTIONS:
        mu, arrivals = load.rates(interactive)
        computed = (mu, arrivals, 1.0 / mu / MINUTE, load.JOBS / arrivals / HOUR)
        group = f"Table I, p = {interactive}"
        for column, value in zip(load.DECLARED.of(group).columns, computed, strict=True):
            yield claims.row(group, "load", column, np.array([value]), **_ANY_LOGS)


def rows_of_waits(interactive: float, trial: PairedTrial) -> Iterator[claims.Row]:
    """Table II and Fig. 3, for one fraction p of interactive jobs."""
    group = f"Table II, p = {interactive}"
    name, ratio = smallest_ratio(trial)
    product, most = (implied_ratio(interactive, most=each) for each in (False, True))
    words = {"name": name, "ratio": ratio.value, "most": most, "product": product}

    def best(means: Mapping[str, float]) -> dict[str, Any]:
        least = min(means, key=lambda each: means[each])
        return {**words, "best": least, "least": means[least]}

    for job_class in _CLASSES:
        for policy in (FIFO, load.RL):
            for statistic in ("mean wait", "std of waits", "longest wait"):
                column = f"{job_class} {statistic}"
                more = {"words": best(trial.means(column, load.BASELINES)), **_ANY_LOGS}
                yield trial.row(group, policy, column, load.BASELINES, f"{column} (s)", **more)
    for job_class in _CLASSES:
        column = f"{job_class} mean wait"
        means = trial.means(column, load.BASELINES)
        yield trial.ratio_row(
            *(group, FIFO, load.RL, column),
            draws=trial.ratio(column, FIFO, load.RL),
            printed=load.printed_factor(interactive, job_class),
            baselines={
                f"{FIFO} / {each}": means[FIFO] / wait for each, wait in means.items() if wait > 0
            },
            words=best(means),
        )
    sums = trial.means("work-weighted wait", trial.measures)
    yield claims.row_of(
        *(group, "any policy / FIFO", "sum of run time * wait, the smallest", ratio),
        printed=claims.Printed.rounded(most, 2),
        baselines={each: value / sums[FIFO] for each, value in sums.items() if each != FIFO},
        words=words,
    )
    for policy, column, shown in (
        (load.RL, _WITHIN, _WITHIN),
        (load.RL, "overhead <= 1", "interactive, overhead <= 1"),
        (FIFO, "overhead <= 1", "interactive, overhead <= 1"),
    ):
        more = {"words": {"best": trial.figure(SJF, column).mean()}, **_ANY_LOGS}
        yield trial.row(f"Fig. 3, p = {interactive}", policy, column, load.BASELINES, shown, **more)


def rows_of_holding(interactive: float, trial: PairedTrial) -> Iterator[claims.Row]:
    """What holding processors gains over the learned greedy policy, and what batch jobs pay.

    Both papers lack the action of leaving a processor idle while a batch job waits: their
    schedulers are greedy (2008, section III.B). SJF that reserves one or two processors shows the
    gain of that action and its cost.
    """
    group, baselines = f"Hold action, p = {interactive}", (load.RL, *load.BASELINES)
    for policy in load.HOLDING:
        yield trial.row(group, policy, _WITHIN, baselines, **_ANY_LOGS)
        gain = trial.figure(policy, "J") - trial.figure(load.RL, "J")
        means = trial.means("J", baselines)
        yield claims.row(group, f"{policy} - {load.RL}", "J", gain, baselines=means, **_ANY_LOGS)
        means = trial.means("batch mean wait", baselines)
        yield trial.ratio_row(group, policy, load.RL, "batch mean wait", baselines=means)


#: Networks: the reward alone is as printed, and all settings are.
LITERAL, PRINTED = "RL, reward as printed", "RL, all as printed"
#: A crowded grid: 3 minutes to the next release, one machine idle, 10 hours of work for all
#: machines, running jobs at 0.9 utility, service by the targets.
_CROWDED = np.array([0.38, 0.02, 0.26, 0.9, 0.7, 0.2, 0.05, 0.05])


def scores_by_run_time(network: QNetwork, run_times: FloatArray) -> FloatArray:
    """Standardised scores of jobs of account 0 on a crowded grid, float64[n]."""
    jobs = np.array([grid_job_features(each, float(each < 900.0), 0.0) for each in run_times])
    scores = network.scores(_CROWDED, jobs)
    return np.asarray((scores - scores.mean()) / max(float(scores.std()), 1e-12))


def preference_for_long_jobs(network: QNetwork) -> float:
    """Rank correlation of score and run time: 1 is longest first, -1 shortest first."""
    run_times = np.geomspace(10.0, 40_000.0, 200)
    ranks = np.argsort(np.argsort(scores_by_run_time(network, run_times)))
    return float(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1])


def rows_of_literal_reward(
    trial: PairedTrial, networks: Mapping[str, QNetwork]
) -> Iterator[claims.Row]:
    """That the reward as printed does not give what the paper reports.

    It is the utility of the job that starts, whatever the others wait. A batch job of many hours
    has utility near 1 however long it waits (eq. 3 scales with its run time), and an interactive
    job that waited has none left. Waiting time is not among the 11 inputs, so the network sees
    only that long jobs pay well, and learns to start the longest first. The difference reward
    subtracts what a start costs the jobs left waiting, which orders them shortest first.
    """
    means = trial.means("mean wait", (load.RL, LONGEST_FIRST, *load.BASELINES))
    for name in (LITERAL, PRINTED):
        yield trial.ratio_row(
            *("Reward as printed, p = 0.2", FIFO, name, "mean wait"),
            baselines={f"{FIFO} / {each}": means[FIFO] / value for each, value in means.items()},
            words={
                "slope": preference_for_long_jobs(networks[name]),
                "learned": preference_for_long_jobs(networks[load.RL]),
            },
        )


#: Simulated seconds after which fairness has settled.
_SETTLED = 50_000.0
#: Targets 0.4/0.2/0.2/0.2 against work 0.7/0.2/0.05/0.05: 1 - (0.2 - 0.05)/0.4.
INFEASIBLE_BOUND = 0.625


def rows_of_shares(feasible: PairedTrial, infeasible: PairedTrial) -> Iterator[claims.Row]:
    """Every sentence of sections VI.A and B on fairness."""
    settled = {
        name: np.array([fairness_over_time(j, j.submit[:1] + _SETTLED)[0] for j in schedules])
        for name, schedules in feasible.schedules.items()
    }
    at_the_end = {name: feasible.figure(name, "F at the end") for name in feasible.schedules}
    missed = {name: infeasible.figure(name, "F") for name in infeasible.schedules}
    for group, policy, column, figures in (
        ("Fig. 4, feasible targets", load.RL, "F at 50,000 s", settled),
        ("Fig. 4, feasible targets", load.RL, "F in the long run", at_the_end),
        ("Fig. 4, feasible targets", FIFO, "F in the long run", at_the_end),
        ("Fig. 5, infeasible targets", load.RL, "F", missed),
        ("Fig. 5, infeasible targets", FIFO, "F", missed),
    ):
        means = claims.means_of(figures)
        yield claims.row(
            *(group, policy, column, figures[policy]),
            baselines={name: means[name] for name in load.BASELINES if name in means},
            words={"lowest": min(means.values()), "highest": max(means.values())},
            **_ANY_LOGS,
        )


#: Policy of the first sweeps -> its name in figures.
PRETRAININGS = {
    "none": "no calibration",
    "edf": "early deadline first (the paper)",
    "recorded": "recorded starts (the paper's outlook)",
}
#: A sweep of the curve is a short log with small steps: one log of 6,000 jobs would teach all.
SWEEP_JOBS, _LEARNING_RATE = 300, 0.01
_LEARNERS = 8
_FULL_CURVES: Mapping[str, int] = {"sweeps": 16, "training": 16, "validation": 3}
#: Sweeps over which the curves are compared: those of the calibration and as many after them.
EARLY = slice(1, 7)
_INTERACTIVE = 0.5

#: Pre-training -> objective on the validation loads, untrained and after each sweep, shape
#: [learners, sweeps + 1].
Curves = Mapping[str, FloatArray]


def curve_tasks(effort: Effort) -> dict[str, list[LearningTask]]:
    """Pre-training -> one training for each learner's seed, all on the same logs."""
    small = effort.jobs > 0
    size = effort if small else replace(effort, **_FULL_CURVES)
    return {
        kind: [
            load.learning_task(
                *(f"learning-{kind}", _INTERACTIVE, size),
                SarsaSettings(pretraining=kind, seed=seed, learning_rate=_LEARNING_RATE),
                recorded=True,
                training_jobs=SWEEP_JOBS,
            )
            for seed in range(1, (effort.learners if small else _LEARNERS) + 1)
        ]
        for kind in PRETRAININGS
    }


def learning_curves(effort: Effort, store: ResultStore) -> Curves:
    """Train every learner."""
    return {
        kind: np.array([[point[2] for point in store.network(task).curve] for task in tasks])
        for kind, tasks in curve_tasks(effort).items()
    }


def rows_of_calibration(curves: Curves) -> Iterator[claims.Row]:
    """Whether calibration helps, paired by the learner's seed."""
    sweeps = next(iter(curves.values())).shape[1]
    shown = EARLY if sweeps >= EARLY.stop else slice(1, sweeps)
    early = {kind: curve[:, shown].mean(axis=1) for kind, curve in curves.items()}
    jobs = f"{shown.start * SWEEP_JOBS} to {(shown.stop - 1) * SWEEP_JOBS} jobs"
    for better, than in (("edf", "none"), ("recorded", "edf")):
        yield claims.row(
            *(f"Calibration, p = {_INTERACTIVE}", f"{better} - {than}"),
            *(f"objective after {jobs}", early[better] - early[than]),
            baselines=claims.means_of(early),
            **_ANY_LOGS,
        )


#: Shorter waits are counted as one second, so that ratios of medians exist.
_LEAST_WAIT = 1.0


def rows_of_segment(group: str, trial: PairedTrial, machine: str) -> Iterator[claims.Row]:
    """What section VI.C says, on one segment; `machine` describes the native starts."""
    for column, (native, learned, *factor) in load.DECLARED.tables["table_iii"].items():
        for least in factor:  # the paper says nothing about the others
            printed = claims.Printed.rounded(native / learned, 1)
            yield _factor_row(f"Table III, {group}", trial, column, printed, least, machine)
    yield trial.row(f"Fig. 6, {group}", load.RL, _WITHIN, (NATIVE, *load.BASELINES), **_ANY_LOGS)
    gaps = {
        name: float(np.abs(trial.fairness_gap(name)[1]).max())
        for name in (load.RL, *load.BASELINES)
        if name in trial.schedules
    }
    figure = (f"Fig. 7, {group}", f"{load.RL} - {NATIVE}", "largest difference of F")
    yield claims.row(*figure, np.array([gaps.pop(load.RL)]), baselines=gaps, **_ANY_LOGS)


def _factor_row(
    group: str, trial: PairedTrial, column: str, printed: claims.Printed, least: float, machine: str
) -> claims.Row:
    native = float(trial.figure(NATIVE, column)[0])
    factors = {
        name: max(native, _LEAST_WAIT) / max(float(trial.figure(name, column)[0]), _LEAST_WAIT)
        for name in (load.RL, *load.BASELINES)
        if name in trial.measures
    }
    measured = claims.Measurement(value=factors[load.RL])
    judged = claims.as_bound(measured, least, least=True)
    because = (
        f"native / RL {judged.because}; native / FIFO is {factors[FIFO]:.3g}; the native figure is "
        f"{native:.4g} s; {machine}"
    )
    at_once = native < MINUTE
    if at_once:
        because += "; waits of seconds are the native scheduler's cycle, which a simulator lacks"
    if printed.value < least:
        because += f"; the paper's own figures give {printed.value:.1f}"
    return claims.row_of(
        *(group, f"{NATIVE} / {load.RL}", column, measured),
        printed=printed,
        baselines={
            f"{NATIVE} / {name}": value for name, value in factors.items() if name != load.RL
        },
        judged=claims.Judgement(judged.holds and not at_once, because),
    )


def wait_differences(trial: PairedTrial, policy: str) -> tuple[FloatArray, FloatArray]:
    """Submit since the first one, and native wait less a policy's, of each counted job, seconds."""
    native, other = (trial.schedules[name][0] for name in (NATIVE, policy))
    counted = slice(trial.drop[0], len(native.submit) - trial.drop[1])
    submit = native.submit[counted] - native.submit[0]
    return submit, (native.wait - other.wait)[counted]
