"""Figures of a policy told as a ratio to another's, or as a difference, on the same logs."""

from __future__ import annotations

from slurm_rl_plugin.papers.reactive_grids_2008.tables import FIFO, SJF
from slurm_rl_plugin.papers.study.claims import Measurement, measure, median
from slurm_rl_plugin.papers.study.paired_trials import PairedTrial

WAIT_TO_SJF = "mean wait / SJF's"
WAIT_TO_FIFO = "mean wait / FIFO's"
BATCH_TO_SJF = "batch mean wait / SJF's"
INTERACTIVE_GAIN = "interactive: FIFO's mean wait / its own"
LONGEST_TO_FIFO = "longest wait / FIFO's, median"
FAIRNESS_LOST = "F less FIFO's"

#: Column -> the figure, and the policy whose mean divides (definitions: paired ratio).
_RATIOS = {
    WAIT_TO_SJF: ("mean wait", SJF),
    WAIT_TO_FIFO: ("mean wait", FIFO),
    BATCH_TO_SJF: ("batch mean wait", SJF),
}


def measured(trial: PairedTrial, policy: str, column: str) -> Measurement:
    """A figure with its interval over the logs.

    Args:
        trial: with the policy, FIFO and SJF.
        policy: whose figure.
        column: one of those above, or a column of `measures_of`.
    """
    if column in _RATIOS:
        figure, other = _RATIOS[column]
        return trial.ratio_of_means(figure, policy, other)
    if column == INTERACTIVE_GAIN:
        return trial.ratio_of_means("interactive mean wait", FIFO, policy)
    if column == LONGEST_TO_FIFO:
        return measure(trial.ratio("longest wait", policy, FIFO), median)
    if column == FAIRNESS_LOST:
        return measure(trial.figure(policy, "F") - trial.figure(FIFO, "F"))
    return measure(trial.figure(policy, column))
