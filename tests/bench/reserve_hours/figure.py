"""Waits of both classes in the real runs, and the prediction as a thin line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.whole_file import replacing
from tests.bench.reserve_hours.prediction import SOON
from tests.bench.reserve_hours.replay import ReplayedJob
from tests.bench.reserve_hours.runs import ORDER, PLAIN, RESERVE, Runs

mpl.use("Agg")
from matplotlib import pyplot as plt

_WORDS = {PLAIN: "Slurm alone", ORDER: "our order", RESERVE: "our order and a reserve"}
_COLOURS = {PLAIN: "#767676", ORDER: "#0072B2", RESERVE: "#D55E00"}
#: Waits below this are drawn here, so that an immediate start shows on a logarithmic axis.
_LEAST = 4.0


def draw_hours(path: Path, real: Runs, simulated: Runs) -> None:
    """One panel a class: which part of its jobs has started after so many seconds."""
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.8), sharey=True, layout="constrained")
    for axis, interactive in zip(axes, (True, False), strict=True):
        for side in (PLAIN, ORDER, RESERVE):
            for runs, style in ((real, {"lw": 2.0}), (simulated, {"lw": 0.9, "ls": "--"})):
                waits = _waits(
                    [job for key in runs if key[1] == side for job in runs[key]], interactive
                )
                part = np.arange(1, len(waits) + 1) / len(waits)
                label = _WORDS[side] if runs is real else None
                axis.step(
                    np.maximum(waits, _LEAST),
                    part,
                    color=_COLOURS[side],
                    where="post",
                    label=label,
                    **style,
                )
        axis.set_xscale("log")
        axis.set_xlabel("wait, seconds of the hour")
        axis.set_title("interactive jobs" if interactive else "batch jobs")
        axis.grid(alpha=0.3)
    axes[0].axvline(SOON, color="black", lw=0.8, ls=":")
    axes[0].annotate("120 s", (SOON, 0.02), xytext=(4, 0), textcoords="offset points")
    axes[0].set_ylabel("part of the jobs that has started")
    axes[1].plot([], [], color="black", lw=0.9, ls="--", label="predicted by the simulator")
    axes[0].set_ylim(0.0, 1.02)
    axes[1].legend(loc="lower right", fontsize="small")
    with replacing(path) as file:
        figure.savefig(file, dpi=150, format="png")
    plt.close(figure)


def _waits(jobs: Sequence[ReplayedJob], interactive: bool) -> FloatArray:
    counted = [job for job in jobs if job.interactive == interactive and job.submit > 0.0]
    return np.sort(np.array([job.wait for job in counted]))
