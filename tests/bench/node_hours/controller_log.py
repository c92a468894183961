"""What slurmctld's log tells of its own delays, to the millisecond."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from slurm_rl_plugin.units import FloatArray

_LINE = re.compile(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})\] (.*)")
#: What the lines say that tell of each, as Slurm 24.11 and 26.05 write them.
_SAYS = {
    "loaded": "Priority MULTIFACTOR plugin loaded",
    "submitted": "_slurm_rpc_submit_batch_job: JobId=",
    "ended": " done",
    "main pass": "sched: Running job scheduler for",
    "backfill": "sched/backfill: _attempt_backfill: beginning",
}
#: Seconds that time() of Linux may be behind the log's clock: a tick, 250 of which are a second.
#: Main passes begin as a second does, mostly within a tick, and accounting tells the one before.
_TICK = 0.004
_ENDED = re.compile(r"_job_complete: JobId=\d+ done$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Of one run; seconds, as accounting would tell them: it keeps whole ones.

    Attributes:
        notice: mean from a submission to the next look at the queue, of either scheduler.
        handover: mean from a job's end to the next look.
        calculated: when priorities were calculated first, since the epoch.
        looks: how many there were.
    """

    notice: float
    handover: float
    calculated: float
    looks: int


def delays_of(path: Path) -> Delays:
    """What a log, gzip, tells; written with SlurmctldDebug=debug or above.

    Raises:
        ValueError: it lacks one of the lines.
    """
    moments = _moments(path)
    missing = [name for name, times in moments.items() if len(times) == 0]
    if missing:
        raise ValueError(f"{path} has no line that tells of: {', '.join(missing)}")
    looks = np.sort(np.concatenate([moments["main pass"], moments["backfill"]]))
    return Delays(
        notice=_until_next(moments["submitted"], looks),
        handover=_until_next(moments["ended"], looks),
        calculated=float(moments["loaded"][0]),
        looks=len(looks),
    )


def _until_next(times: FloatArray, looks: FloatArray) -> float:
    """Mean of whole seconds to the next look, of those that have one."""
    times = times[times < looks[-1]]
    behind = looks[np.searchsorted(looks, times, side="right")]
    return float((_told(behind) - _told(times)).mean()) if len(times) else 0.0


def _told(times: FloatArray) -> FloatArray:
    """The seconds that accounting tells of moments of the log."""
    seconds: FloatArray = np.floor(times - _TICK)
    return seconds


def _moments(path: Path) -> Mapping[str, FloatArray]:
    """Seconds since the epoch at which each happened, rising."""
    found: dict[str, list[float]] = {name: [] for name in _SAYS}
    with gzip.open(path, "rt", errors="replace") as lines:
        for line in lines:
            name = next((name for name, words in _SAYS.items() if words in line), None)
            told = _LINE.match(line) if name else None
            if name is None or told is None or (name == "ended" and not _ENDED.search(told[2])):
                continue
            found[name].append(datetime.fromisoformat(told[1]).timestamp())  # local, as the log
    return {name: np.array(times) for name, times in found.items()}
