"""Foretold beside true waits, with bands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.papers.replayed_starts.experiment import ForetoldLog
from slurm_rl_plugin.units import HOUR


def coverage_figure(found: Mapping[tuple[str, str], ForetoldLog]) -> Any:
    """For each log and order the median and the 90 % band over the true wait, hours."""
    logs, orders = (list(dict.fromkeys(each[place] for each in found)) for place in (0, 1))
    figure, axes = plt.subplots(
        len(logs), len(orders), figsize=(4 * len(orders), 3.2 * len(logs)), squeeze=False
    )
    for (log, order), each in found.items():
        axis = axes[logs.index(log)][orders.index(order)]
        wait = np.maximum(each.wait, 1.0) / HOUR
        low, high = (end / HOUR for end in each.forecasts.band(0.9))
        axis.vlines(wait, low, high, color="C0", alpha=0.12)
        axis.plot(
            wait, each.forecasts.median / HOUR, ".", markersize=3, color="C0", label="replays"
        )
        axis.plot(
            wait, np.maximum(each.planned, 1.0) / HOUR, ".", markersize=2, color="C1", label="plan"
        )
        ends = [float(wait.min()), float(wait.max())]
        axis.plot(ends, ends, color="black", linewidth=0.8)
        axis.set(xscale="log", yscale="log", title=f"{log}, {order}")
        axis.set_xlabel("wait, hours")
        axis.set_ylabel("foretold, hours")
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    return figure
