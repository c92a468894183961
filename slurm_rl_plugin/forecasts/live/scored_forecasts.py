"""How good the forecasts of the last weeks have been, by class, partition and horizon."""

from __future__ import annotations

from typing import Any

import numpy as np

from slurm_rl_plugin.forecasts.forecast import Forecasts
from slurm_rl_plugin.forecasts.live.joining import FEWEST_SCORED
from slurm_rl_plugin.forecasts.live.kept_forecasts import GivenRows
from slurm_rl_plugin.forecasts.live.sources import OWN, SOURCES
from slurm_rl_plugin.forecasts.scores import HORIZONS, horizon_of, log_waits, scores_by, scores_of
from slurm_rl_plugin.units import DAY, BoolArray

#: Forecasts of so many seconds are scored together.
LATELY = 28.0 * DAY


def scores_document(rows: GivenRows, now: float) -> dict[str, Any]:
    """Scores of the last weeks' forecasts whose jobs have started.

    Args:
        rows: forecasts that were given.
        now: seconds since the epoch.
    """
    lately = rows.moment >= now - LATELY
    over = lately & rows.known
    found: dict[str, Any] = {
        "given": _number(rows, lately),
        "started": _number(rows, over),
        "gone": _number(rows, lately & rows.gone),
        "enough": int(over.sum()) >= FEWEST_SCORED,
    }
    if not over.any():
        return found
    told, wait = rows.forecasts.select(over), rows.wait_by(now)[over]
    names = list(HORIZONS)
    labels = {
        "class": np.where(rows.interactive[over], "interactive", "batch"),
        "partition": np.array(rows.partition)[over],
        "horizon": np.array([names[each] for each in horizon_of(told)]),
    }
    found["all"] = scores_of(told, wait).as_json()
    for what, each in labels.items():
        found[what] = {name: one.as_json() for name, one in scores_by(each, told, wait).items()}
    found["sources"] = _of_sources(rows, over, now)
    return found


def _number(rows: GivenRows, which: BoolArray) -> int:
    """How many forecasts some rows stand for."""
    return round(float(rows.stands_for[which].sum()))


def _of_sources(rows: GivenRows, over: BoolArray, now: float) -> dict[str, Any]:
    """Median error of each source, and of what was told of the same jobs."""
    found = {}
    for place, name in enumerate(SOURCES):
        spoke = over & np.isfinite(rows.sources[:, place])
        if not spoke.any():
            continue
        truth = log_waits(rows.wait_by(now)[spoke])
        found[name] = {
            "jobs": int(spoke.sum()),
            "median_error": float(np.median(np.abs(rows.sources[spoke, place] - truth))),
            "told_median_error": _median_error(rows.forecasts.select(spoke), truth),
        }
    started = int(over.sum())
    if OWN in found:
        found[OWN]["part_of_jobs"] = found[OWN]["jobs"] / started
    return found


def _median_error(told: Forecasts, truth: Any) -> float:
    return float(np.median(np.abs(log_waits(told.median) - truth)))
