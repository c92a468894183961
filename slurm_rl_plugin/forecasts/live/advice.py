"""What a shorter limit or fewer processors would bring a job, from the same replays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.forecasts.live.asked_jobs import asking_for
from slurm_rl_plugin.units import HOUR, MINUTE, FloatArray

#: Chance that a job is killed at a limit that is advised, at most.
KILLED = 0.01
#: Least change of the median start that is worth a word, seconds.
_WORTH = MINUTE
#: Limits are advised in whole parts of this, seconds.
_STEP = 15.0 * MINUTE
#: Fewer draws than these are nearly all sooner by chance in one of twenty: nothing is said of them.
_FEWEST_DRAWS = 5
#: A job on half of its processors is taken to run so many times as long: as one that does the same
#: work, all of it in parallel.
_ON_HALF = 2.0
#: Draws of a run time by which a limit is chosen.
RUN_DRAWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Another request of the same job.

    Attributes:
        words: what it asks for.
        asks: of the request: name -> value.
        runs_longer: how many times as long it is taken to run.
        killed: chance that it then runs into its limit, by what is foretold of its run time.
    """

    words: str
    asks: dict[str, float]
    runs_longer: float
    killed: float

    def is_sure(self, sooner: FloatArray, run_times: FloatArray) -> bool:
        """Whether the job surely starts sooner by it, worth a word, and ends sooner too.

        How long it runs itself does not move its own start in a replay, but its end.

        Args:
            sooner: seconds in replays, at least one.
            run_times: draws of how long it may run as it stands, seconds.
        """
        ends_sooner = np.subtract.outer(sooner, (self.runs_longer - 1.0) * run_times)
        low, middle = np.quantile(sooner, [0.05, 0.5])
        return bool(low > 0.0 and middle >= _WORTH and np.quantile(ends_sooner, 0.05) > 0.0)


#: Waits of the job in a queue where it asks for something else, seconds, shape [draws]; fewer
#: of the same draws where there is no time for all.
Waits = Callable[[QueueSnapshot], FloatArray]


def variants_of(limit: float, processors: int, run_times: FloatArray) -> Iterator[Variant]:
    """Requests that might start sooner, and of which few would be killed.

    On half of the processors a job asks for up to twice its limit where it could need that.

    Args:
        limit: seconds that it asks for; nan for none.
        processors: that it asks for.
        run_times: draws of how long it may run, seconds.
    """
    safe = float(np.quantile(run_times, 1.0 - KILLED))
    advised = float(np.ceil(safe / _STEP) * _STEP)
    if np.isfinite(limit) and advised < limit:
        yield Variant(
            words=f"a limit of {_hours(advised)} instead of {_hours(limit)}",
            asks={"time_limit": advised},
            runs_longer=1.0,
            killed=float((run_times > advised).mean()),
        )
    half = (processors + 1) // 2
    if half == processors:
        return
    asks, words = {"processors": float(half)}, f"{half} processors instead of {processors}"
    longer = float(np.ceil(_ON_HALF * safe / _STEP) * _STEP)
    if longer > limit:
        longer = min(longer, _ON_HALF * limit)
        asks["time_limit"] = longer
        words += f" and a limit of {_hours(longer)} instead of {_hours(limit)}"
    killed = float((_ON_HALF * run_times > asks.get("time_limit", limit)).mean())
    if killed <= KILLED:
        words += ", its run time taken to double"
        yield Variant(words=words, asks=asks, runs_longer=_ON_HALF, killed=killed)


def advice_for(
    snapshot: QueueSnapshot, place: int, run_times: FloatArray, base: FloatArray, waits: Waits
) -> list[dict[str, Any]]:
    """What other requests of one pending job would bring; only what is sure is said.

    Args:
        snapshot: the queue.
        place: of the job among the pending ones.
        run_times: draws of how long it may run, seconds.
        base: its waits as it stands, seconds, shape [draws].
        waits: plays another queue forward, by the same draws, as far as there is time.
    """
    if len(base) < _FEWEST_DRAWS:
        return []
    jobs = snapshot.pending.jobs
    limit, processors = float(jobs.time_limit[place]), int(jobs.processors[place])
    found = []
    for each in variants_of(limit, processors, run_times):
        asks: dict[str, Any] = dict(each.asks)
        if "processors" in asks:
            asks["processors"] = int(asks["processors"])
        played = waits(asking_for(snapshot, place, **asks))
        if len(played) < _FEWEST_DRAWS:
            continue
        sooner = base[: len(played)] - played
        if each.is_sure(sooner, run_times):
            low, middle, high = np.quantile(sooner, [0.05, 0.5, 0.95])
            found.append(
                {
                    "words": each.words,
                    "asks": each.asks,
                    "sooner": float(middle),
                    "interval": [float(low), float(high)],
                    "killed": each.killed,
                }
            )
    return found


def _hours(seconds: float) -> str:
    if seconds < HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.3g} h"
