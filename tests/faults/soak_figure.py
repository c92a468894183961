"""Memory, open files and length of the queue over the soak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

from slurm_rl_plugin.whole_file import replacing

mpl.use("Agg")
from matplotlib import pyplot as plt

#: Series, what its axis says, what a unit of it is, colour.
_PANELS = (
    ("memory", "resident memory, MB", 1e6, "#0072B2"),
    ("files", "open files", 1.0, "#D55E00"),
    ("pending", "pending jobs", 1.0, "#009E73"),
)


def draw_soak(path: Path, samples: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """One panel a series, above each other."""
    figure, axes = plt.subplots(
        len(_PANELS), 1, figsize=(8.0, 6.0), sharex=True, layout="constrained"
    )
    begin = samples["memory"][0][0]
    for axis, (name, words, unit, colour) in zip(axes, _PANELS, strict=True):
        at, values = np.array(samples[name]).T
        axis.plot((at - begin) / 60.0, values / unit, color=colour, lw=1.2)
        axis.set_ylabel(words)
        axis.set_ylim(0.0, max(1.1 * float(values.max()) / unit, 1.0))
        axis.grid(alpha=0.3)
    axes[-1].set_xlabel("minutes of the run")
    with replacing(path) as beside:
        figure.savefig(beside, dpi=150, format="png")
    plt.close(figure)
