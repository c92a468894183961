"""Calibrating SARSA off-line: by early deadline first, by recorded starts, or not at all (2008)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.learning.sarsa.settings import SarsaSettings
from slurm_rl_plugin.papers.reactive_grids_2008.load import learning_task
from slurm_rl_plugin.papers.study.claims import Cell, Claim, measure
from slurm_rl_plugin.papers.study.effort import Effort
from slurm_rl_plugin.papers.study.result_store import LearningTask, ResultStore
from slurm_rl_plugin.papers.study.verdicts import as_gain
from slurm_rl_plugin.units import FloatArray

#: How the first sweeps act -> what figures call it.
PRETRAININGS = {
    "none": "no calibration",
    "edf": "early deadline first (the paper)",
    "recorded": "recorded starts (the paper's outlook)",
}
#: One log of 6,000 jobs teaches all there is to learn: a sweep of the curve is a short log, and
#: the steps are small.
SWEEP_JOBS, _LEARNING_RATE = 300, 0.01
_SWEEPS, _TRAINING, _VALIDATION, _LEARNERS = 16, 16, 3, 8
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
        effort = replace(effort, sweeps=_SWEEPS, training=_TRAINING, validation=_VALIDATION)
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


def claims_of_calibration(curves: Curves) -> Iterator[Claim]:
    """Whether calibration helps, paired by the learner's seed; the paper only expects it to."""
    sweeps = next(iter(curves.values())).shape[1]
    shown = EARLY if sweeps >= EARLY.stop else slice(1, sweeps)
    early = {kind: curve[:, shown].mean(axis=1) for kind, curve in curves.items()}
    for better, than in (("edf", "none"), ("recorded", "edf")):
        gain = measure(early[better] - early[than])
        yield Claim(
            cell=Cell(
                CALIBRATION,
                f"{better} - {than}",
                f"objective after {shown.start * SWEEP_JOBS} to "
                f"{(shown.stop - 1) * SWEEP_JOBS} jobs",
            ),
            measured=gain,
            baselines={kind: float(values.mean()) for kind, values in early.items()},
            judged=as_gain(gain),
        )
