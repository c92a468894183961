"""A learning curve as a picture: the objective on both parts of the logs against the steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

from slurm_rl_plugin.whole_file import replacing

mpl.use("Agg")  # head nodes have no display
from matplotlib import pyplot as plt


def draw_learning_curve(
    path: Path,
    curve: Sequence[tuple[int, float, float]],
    step: str,
    name: str,
    *,
    measure: str = "objective",
) -> None:
    """Draw a curve; the file appears whole or not at all.

    Args:
        path: of the PNG; its folder is made where it does not exist.
        curve: [step, objective on the training loads, objective on the validation loads].
        step: what a step is called.
        name: of the model.
        measure: what is shown of the steps.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    steps, training, validation = (np.array(each) for each in zip(*curve, strict=True))
    best = int(np.argmax(validation))
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(steps, training, color="tab:grey", label="training loads")
    axes.plot(steps, validation, color="tab:blue", label="validation loads")
    axes.plot(steps[best], validation[best], "o", color="tab:blue", label="kept")
    axes.set_title(f"{name}: learning curve")
    axes.set_xlabel(step)
    axes.set_ylabel(measure)
    axes.legend()
    with replacing(path) as file:
        figure.savefig(file, dpi=120, format="png")
    plt.close(figure)
