"""A busy day of a real log, in accelerated time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.swf.reader import SwfReader
from slurm_rl_plugin.units import DAY, HOUR

#: Interactive, in the log's own seconds; the papers' rule.
SHORT = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakJob:
    """A job as it is submitted; seconds of the run, not of the log.

    Attributes:
        submit: from the beginning.
        seconds: that it sleeps; at least one.
        account: index of one of two.
        interactive: of that class.
    """

    submit: float
    seconds: float
    account: int
    interactive: bool


def busiest_day(path: Path, speed: float, least: int) -> list[SoakJob]:
    """The jobs of the 24 hours with the fewest jobs of those with at least `least`.

    Args:
        path: of a log in SWF.
        speed: seconds of the log in one second of the run.
        least: jobs.

    Raises:
        ValueError: no day of the log has so many.
    """
    log, _ = SwfReader().read(path)
    begin = _begin(log.submit, least)
    chosen = np.flatnonzero((log.submit >= begin) & (log.submit < begin + DAY))
    largest = np.bincount(log.account[chosen]).argmax()
    return [
        SoakJob(
            submit=float(log.submit[job] - begin) / speed,
            seconds=max(float(log.run_time[job]) / speed, 1.0),
            account=int(log.account[job] != largest),
            interactive=bool(log.run_time[job] < SHORT),
        )
        for job in chosen
    ]


def day_after_day(day: Sequence[SoakJob], rounds: int, length: float) -> list[SoakJob]:
    """The same day several times, each beginning `length` seconds after the one before."""
    return [
        replace(job, submit=job.submit + number * length) for number in range(rounds) for job in day
    ]


def _begin(submit: Sequence[float] | np.ndarray, least: int) -> float:  # type: ignore[type-arg]
    times = np.asarray(submit)
    begins = np.arange(0.0, max(times[-1] - DAY, 1.0), HOUR)
    counts = np.searchsorted(times, begins + DAY) - np.searchsorted(times, begins)
    enough = np.flatnonzero(counts >= least)
    if not len(enough):
        raise ValueError(f"no day of this log has {least} jobs: take another log")
    return float(begins[enough[counts[enough].argmin()]])
