"""Table III, Fig. 6 and 7 of the 2008 paper, on LPC-EGEE in place of the LAL log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.learning.sarsa.settings import SarsaSettings
from slurm_rl_plugin.learning.sarsa.training import train_sarsa
from slurm_rl_plugin.learning.training_load import TrainingLoad
from slurm_rl_plugin.papers.reactive_grids_2008.load import OBJECTIVE, training_loads
from slurm_rl_plugin.papers.reactive_grids_2008.shares import fairness_over_time
from slurm_rl_plugin.papers.reactive_grids_2008.tables import BASELINES, FIFO, NATIVE, RL, TABLE_III
from slurm_rl_plugin.papers.study.claims import Cell, Claim, Judgement, Printed, measure
from slurm_rl_plugin.papers.study.effort import Effort
from slurm_rl_plugin.papers.study.lpc_segments import PROCESSORS_OF_2011, prepared_segments
from slurm_rl_plugin.papers.study.paired_trials import PairedTrial
from slurm_rl_plugin.papers.study.result_store import LearningTask, Loads
from slurm_rl_plugin.papers.study.verdicts import as_bound, bounded
from slurm_rl_plugin.units import MINUTE, FloatArray

MEASURED_SEGMENTS = (14, 17, 18, 19)
#: Busy segments that are not measured: four to learn on, one to choose on.
_TRAINING, _VALIDATION = (8, 9, 11, 16), (15,)
#: Points in time at which fairness is compared.
_INSTANTS = 400
_LARGEST_FAIRNESS_GAP = 0.01
#: Class -> statistic -> by what factor RL is said to beat the native scheduler.
_FACTORS = {
    "interactive": dict.fromkeys(("mean wait", "median wait", "longest wait", "std of waits"), 2.0),
    "batch": {"median wait": 10.0},
}
_GAP_REMARK = "the two start different jobs first, and a few long ones move the shares of a week"
#: Waits below are counted as one second, so that ratios of medians exist.
_LEAST_WAIT = 1.0


def segments_task(log: JobLog, effort: Effort, settings: SarsaSettings) -> LearningTask:
    """SARSA on busy segments that are not measured, on the 81 processors of 2011."""

    def loads() -> Loads:
        return _loads(_TRAINING), _loads(_VALIDATION)

    def _loads(numbers: tuple[int, ...]) -> list[TrainingLoad]:
        prepared = prepared_segments(log, numbers, PROCESSORS_OF_2011, effort.jobs)
        return training_loads(prepared.values())

    return LearningTask(
        name="reactive-grids-lpc",
        settings=replace(settings, sweeps=effort.sweeps, weights=OBJECTIVE),
        train=train_sarsa,
        sources=[f"LPC-EGEE {_TRAINING} {_VALIDATION} {PROCESSORS_OF_2011} {effort.jobs}"],
        loads=loads,
        steps=effort.sweeps,
    )


def claims_of_segment(group: str, trial: PairedTrial, machine: str) -> Iterator[Claim]:
    """What sections VI.C says, of one segment.

    Args:
        group: names the segment.
        trial: native and the others on it.
        machine: what the native starts were made on, in a clause for the verdicts.
    """
    for job_class, least in _FACTORS.items():
        for statistic, bound in least.items():
            yield _factor_claim(f"Table III, {group}", trial, job_class, statistic, bound, machine)
    within = measure(trial.figure(RL, "interactive within 120 s"))
    yield bounded(
        Cell(f"Fig. 6, {group}", RL, "interactive within 120 s"),
        within,
        "0.40",
        least=True,
        baselines=trial.means("interactive within 120 s", (NATIVE, *BASELINES)),
        remark="this segment is busier than the LAL log",
    )
    gap = measure(np.array([np.abs(fairness_gap(trial, RL)[1]).max()]))
    yield Claim(
        cell=Cell(f"Fig. 7, {group}", f"{RL} - {NATIVE}", "largest difference of F"),
        measured=gap,
        printed=Printed.of("0.01"),
        baselines={
            name: float(np.abs(fairness_gap(trial, name)[1]).max())
            for name in BASELINES
            if name in trial.schedules
        },
        judged=as_bound(gap, _LARGEST_FAIRNESS_GAP, least=False, remark=_GAP_REMARK),
    )


def _factor_claim(
    group: str, trial: PairedTrial, job_class: str, statistic: str, bound: float, machine: str
) -> Claim:
    column = f"{job_class} {statistic}"
    factors = {
        name: float(_counted(trial, NATIVE, column) / _counted(trial, name, column))
        for name in (RL, *BASELINES)
        if name in trial.measures
    }
    native, learned = TABLE_III[job_class][statistic]
    measured = measure(np.array([factors[RL]]))
    judged = as_bound(measured, bound, least=True)
    because = (
        f"native / RL {judged.because}; native / FIFO is {factors[FIFO]:.3g}; the native figure is "
        f"{float(trial.figure(NATIVE, column)[0]):.4g} s; {machine}"
    )
    at_once = float(trial.figure(NATIVE, column)[0]) < MINUTE
    if at_once:
        because += "; waits of seconds are the native scheduler's cycle, which a simulator lacks"
    if native / learned < bound:
        because += f"; the paper's own figures give {native / learned:.1f}"
    return Claim(
        cell=Cell(group, f"{NATIVE} / {RL}", column),
        measured=measured,
        printed=Printed(value=native / learned, unit=0.1, text=f"{native / learned:.1f}"),
        source="paper (LAL log)",
        baselines={f"{NATIVE} / {name}": value for name, value in factors.items() if name != RL},
        judged=Judgement(judged.holds and not at_once, because),
    )


def _counted(trial: PairedTrial, policy: str, column: str) -> float:
    return max(float(trial.figure(policy, column)[0]), _LEAST_WAIT)


def fairness_gap(trial: PairedTrial, policy: str, place: int = 0) -> tuple[FloatArray, FloatArray]:
    """Fairness of a policy less that of the native scheduler over time.

    Args:
        trial: with both.
        policy: of the trial.
        place: of the log.

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
