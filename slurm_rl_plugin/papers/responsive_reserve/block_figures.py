"""Figures of a single log with an interval: its jobs in blocks, which are drawn again and again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slurm_rl_plugin.papers.reactive_grids_2008.tables import FIFO, SJF
from slurm_rl_plugin.papers.responsive_reserve.compared_figures import BATCH_TO_SJF, FAIRNESS_LOST
from slurm_rl_plugin.papers.study.claims import Measurement, measure, ratio_of_means
from slurm_rl_plugin.papers.study.paired_trials import PairedTrial
from slurm_rl_plugin.units import INTERACTIVE_WAIT_GOAL, BoolArray, FloatArray
from slurm_rl_plugin.utility.intervals import BLOCK_JOBS
from slurm_rl_plugin.utility.summary import JobMeasures

WITHIN = "interactive within 120 s"
#: What is summed over a block, and over what it is divided; both of shape [jobs].
Fraction = tuple[FloatArray, FloatArray]


class _Counted:
    """The counted jobs of a trial's only log under one policy."""

    def __init__(self, trial: PairedTrial, policy: str) -> None:
        [jobs] = trial.schedules[policy]
        counted = slice(trial.drop[0], len(jobs.submit) - trial.drop[1])
        found = JobMeasures.of(jobs)
        self.wait: FloatArray = found.wait[counted]
        self.responsiveness: FloatArray = found.responsiveness[counted]
        self.fairness: FloatArray = found.fairness[counted]
        self.interactive: BoolArray = jobs.interactive[counted]


def _within(trial: PairedTrial, policy: str) -> Fraction:
    jobs = _Counted(trial, policy)
    soon = jobs.interactive & (jobs.wait <= INTERACTIVE_WAIT_GOAL)
    return soon.astype(np.float64), jobs.interactive.astype(np.float64)


def _responsive(trial: PairedTrial, policy: str) -> Fraction:
    jobs = _Counted(trial, policy)
    return jobs.responsiveness, np.ones_like(jobs.wait)


def _batch_to_sjf(trial: PairedTrial, policy: str) -> Fraction:
    mine, other = _Counted(trial, policy), _Counted(trial, SJF)
    return np.where(mine.interactive, 0.0, mine.wait), np.where(mine.interactive, 0.0, other.wait)


def _fairness_lost(trial: PairedTrial, policy: str) -> Fraction:
    lost = _Counted(trial, policy).fairness - _Counted(trial, FIFO).fairness
    return lost, np.ones_like(lost)


_FRACTIONS: dict[str, Callable[[PairedTrial, str], Fraction]] = {
    "R": _responsive,
    WITHIN: _within,
    BATCH_TO_SJF: _batch_to_sjf,
    FAIRNESS_LOST: _fairness_lost,
}


def measured_on_one_log(trial: PairedTrial, policy: str, column: str) -> Measurement:
    """A figure of a trial of one log, its interval by bootstrap over blocks of BLOCK_JOBS jobs.

    Args:
        trial: of one log, with the policy, FIFO and SJF.
        policy: whose figure.
        column: one of "R", WITHIN, BATCH_TO_SJF and FAIRNESS_LOST.
    """
    fraction = _FRACTIONS[column](trial, policy)
    blocks = max(len(fraction[0]) // BLOCK_JOBS, 2)
    sums = [[part.sum() for part in np.array_split(each, blocks)] for each in fraction]
    return measure(np.array(sums), ratio_of_means)
