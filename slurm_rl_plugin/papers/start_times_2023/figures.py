"""Error and coverage of each day over each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.papers.start_times_2023.baselines import LAST
from slurm_rl_plugin.papers.start_times_2023.claims import A_DAY, OURS, POOLED, by_day
from slurm_rl_plugin.papers.start_times_2023.experiment import Tested


def days_figure(tested: Tested) -> Any:
    """Mean square error of each day beside the last similar job's, and coverage with its goals."""
    figure, (errors, coverages) = plt.subplots(2, 1, figsize=(10, 6), layout="constrained")
    days = by_day(tested.forecasts, tested)
    places = np.arange(1, len(days) + 1)
    for name, forecasts in {OURS: tested.forecasts, LAST: tested.others[LAST]}.items():
        values = [each.square_error for each in by_day(forecasts, tested).values()]
        errors.plot(places, values, "o-", markersize=3, label=name)
    errors.set_ylabel("mean square error of log10(wait)")
    errors.set_yscale("log")
    errors.legend()
    coverages.plot(places, [each.coverage_90 for each in days.values()], "o-", markersize=3)
    for bounds, alpha in ((A_DAY, 0.15), (POOLED, 0.3)):
        coverages.axhspan(*bounds, color="grey", alpha=alpha)
    coverages.set_ylabel("coverage of the 90 % band")
    coverages.set_xlabel("day that is tested")
    return figure
