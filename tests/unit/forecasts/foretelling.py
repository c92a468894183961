"""A forecaster of the small live site."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from slurm_rl_plugin.forecasts.live.forecaster import Forecaster
from slurm_rl_plugin.forecasts.live.kept_forecasts import KeptForecasts
from slurm_rl_plugin.forecasts.live.sources import ReplaySource, rule_order
from slurm_rl_plugin.units import DAY, FloatArray
from tests.unit.forecasts.live_site import LiveSite


def replay_source() -> ReplaySource:
    """Plays a first come, first served queue forward."""
    return ReplaySource(
        order=rule_order("fifo"),
        backfilling="easy",
        on_nodes="slurm",
        half_life=7.0 * DAY,
    )


def forecaster(folder: Path, *, draws: int = 8) -> Forecaster:
    """Foretells a first come, first served queue."""
    return Forecaster(
        source=replay_source(),
        kept=KeptForecasts(folder / "forecasts.sqlite"),
        draws=draws,
        seconds=60.0,
        kept_days=42.0,
        monotonic=time.monotonic,
    )


def looked_back(folder: Path, site: LiveSite, now: float) -> Forecaster:
    """One that has foretold the site's past."""
    made = forecaster(folder)
    made.look_back(site.history(now), site.queue(now, now), lambda done, of: None)
    return made


def busy_look(site: LiveSite, looks: FloatArray) -> float:
    """Of some times the first at which several jobs wait."""
    waiting = [
        np.count_nonzero((site.log.submit <= now) & (site.log.start > now))
        for now in looks.tolist()
    ]
    return float(looks[int(np.argmax(np.array(waiting) >= 4))])
