"""Memory, open files and length of the queue over the soak, and its rounds above each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

from slurm_rl_plugin.whole_file import replacing

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

#: Series, what its axis says, what a unit of it is, colour.
_PANELS = (
    ("memory", "resident memory, MB", 1e6, "#0072B2"),
    ("files", "open files", 1.0, "#D55E00"),
    ("pending", "pending jobs", 1.0, "#009E73"),
)
Samples = Mapping[str, Sequence[tuple[float, float]]]


def draw_soak(path: Path, samples: Samples, began: float, rounds: int, length: float) -> None:
    """One panel a series over the run, and one with the memory of each round by its phase.

    Args:
        path: of the PNG.
        samples: name -> (time, value).
        began: time of the first round's begin.
        rounds: whole ones.
        length: of a round, seconds.
    """
    figure, axes = plt.subplots(
        len(_PANELS) + 1,
        1,
        figsize=(8.0, 8.5),
        height_ratios=[1.0] * len(_PANELS) + [1.4],
        layout="constrained",
    )
    for axis, (name, words, unit, colour) in zip(axes[:-1], _PANELS, strict=True):
        at, values = _whole(samples[name], samples["memory"]).T
        axis.plot((at - began) / 60.0, values / unit, color=colour, lw=1.0)
        axis.set_ylabel(words)
        axis.set_ylim(0.0, max(1.1 * float(values.max()) / unit, 1.0))
        for number in range(rounds + 1):
            axis.axvline(number * length / 60.0, color="0.6", lw=0.8, ls=":")
        axis.sharex(axes[0])
        axis.grid(alpha=0.3)
    axes[-2].set_xlabel("minutes of the run; dotted: a round begins")
    _draw_rounds(axes[-1], samples["memory"], began, rounds, length)
    with replacing(path) as file:
        figure.savefig(file, dpi=120, format="png", pil_kwargs={"optimize": True})
    plt.close(figure)


def _whole(
    series: Sequence[tuple[float, float]], scrapes: Sequence[tuple[float, float]]
) -> np.ndarray:
    """A value for each scrape: pending jobs have no series while there are none."""
    known = dict(series)
    return np.array([(at, known.get(at, 0.0)) for at, _ in scrapes])


def _draw_rounds(
    axis: Axes, memory: Sequence[tuple[float, float]], began: float, rounds: int, length: float
) -> None:
    """A line a round, the later the darker."""
    at, values = np.array(memory).T
    for number in range(rounds):
        since = at - began - number * length
        inside = (since >= 0.0) & (since < length)
        shade = mpl.colormaps["Blues"](0.25 + 0.75 * (number + 1) / rounds)
        words = f"round {number + 1}"
        axis.plot(since[inside] / 60.0, values[inside] / 1e6, color=shade, lw=1.2, label=words)
    axis.set_xlabel("minutes of the round")
    axis.set_ylabel("resident memory, MB")
    axis.grid(alpha=0.3)
    axis.legend(ncols=4, fontsize="small")
