"""Several learners of one policy on the same logs: their average, and both kinds of chance."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from slurm_rl_plugin.papers.study.claims import Measurement
from slurm_rl_plugin.papers.study.paired_trials import PairedTrial
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.intervals import of_learners_and_logs


def learners_of(trial: PairedTrial, policy: str) -> list[str]:
    """Names "<policy> <learner>" of a policy's learners in a trial."""
    return [name for name in trial.measures if name.rpartition(" ")[0] == policy]


def with_averages(trial: PairedTrial, policies: Iterable[str]) -> PairedTrial:
    """The trial with an entry for each policy: figures averaged over its learners, log by log.

    Its schedules are those of the first learner: figures of single jobs show one network.

    Args:
        trial: with entries "<policy> <learner>".
        policies: learned ones.
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


def measure_over_learners(differences: FloatArray) -> Measurement:
    """Mean of paired differences; its interval draws learners and logs afresh, the same each time.

    Logs alone would credit one lucky network with an improvement of its kind.

    Args:
        differences: shape [learners, logs].
    """
    return Measurement.of(float(differences.mean()), of_learners_and_logs(differences))
