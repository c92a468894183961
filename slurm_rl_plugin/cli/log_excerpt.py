"""LOG@jobs=FIRST:LAST,load=L,processors=N: a part of a log, busier, or on another machine.

LOG@weeks=N,seed=S: some weeks of a log that is too large to be simulated whole.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slurm_rl_plugin.accounting.log_format import is_stored
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.cli.argument_types import LARGEST
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.workloads.resampling import scale_load
from slurm_rl_plugin.units import DAY

if TYPE_CHECKING:  # without the extra that parquet needs, other logs are read all the same
    from slurm_rl_plugin.accounting.stored.log import StoredLog

WEEK = 7 * DAY
#: Of a larger stored log `train` takes some weeks: as many as hold about this number of jobs.
MOST_JOBS = 500_000
FEWEST_WEEKS, MOST_WEEKS = 2, 26


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExcerpt:
    """What a LOG argument asks of its log.

    Attributes:
        log: the argument without the excerpt.
        first, last: jobs taken, counted from 0 in order of submission, `last` not included; None
            for all.
        load: mean fraction of the processors that the jobs ask for; None as recorded.
        processors: size of the machine; None as elsewhere given.
        weeks: so many weeks, one out of each of as many equal stretches of the log; None for all.
        seed: of the draw of weeks.
    """

    log: str
    first: int | None = None
    last: int | None = None
    load: float | None = None
    processors: int | None = None
    weeks: int | None = None
    seed: int = 1

    @classmethod
    def of(cls, argument: str) -> LogExcerpt:
        """Split a LOG argument at its `@` into the log and the part of it that is wanted."""
        log, sign, words = argument.rpartition("@")
        if not sign or "=" not in words:
            return cls(log=argument)
        found: dict[str, int | float] = {}
        for part in words.split(","):
            key, _, text = part.partition("=")
            if key == "jobs":
                first, _, last = text.partition(":")
                found["first"] = _number(argument, key, first, int, 0)
                found["last"] = _number(argument, key, last, int, int(found["first"]) + 1)
            elif key == "load":
                found[key] = _number(argument, key, text, float, 1e-6)
            elif key in ("processors", "weeks", "seed"):
                found[key] = _number(argument, key, text, int, 0 if key == "seed" else 1)
            else:
                raise ConfigurationError(
                    f"{argument!r}: unknown setting {key!r} behind the @; give jobs=FIRST:LAST, "
                    "load, processors, weeks or seed."
                )
        if "weeks" in found and "last" in found:
            raise ConfigurationError(f"{argument!r}: give either jobs or weeks behind the @.")
        return cls(log=log, **found)  # type: ignore[arg-type]

    def cut(self, log: JobLog) -> JobLog:
        """Those jobs of the log that the settings behind the `@` choose."""
        if self.weeks is not None:
            wanted = np.zeros(len(log), dtype=np.bool_)
            for begin, end in self.drawn_weeks(float(log.submit[0]), float(log.submit[-1])):
                wanted |= (log.submit >= begin) & (log.submit < end)
            return log.select(wanted)
        if self.last is None:
            return log
        self._check_jobs(len(log))
        return log.select(np.arange(self.first or 0, self.last))

    def stored(self, stored: StoredLog) -> JobLog:
        """The jobs asked for out of a parquet file, of which no others are read."""
        if self.weeks is not None and len(stored):
            return stored.stretches(self.drawn_weeks(*stored.first_and_last_submit()))
        if self.last is not None:
            self._check_jobs(len(stored))
        return stored.log(self.first or 0, self.last)

    def drawn_weeks(self, first: float, last: float) -> list[tuple[float, float]]:
        """Begin and end of each week drawn, seconds."""
        there = whole_weeks(first, last)
        if self.weeks is None or self.weeks > there:
            held = f"{there} whole {'week' if there == 1 else 'weeks'}"
            raise ConfigurationError(f"{self.log} holds {held}: weeks={self.weeks} are more.")
        edges = np.linspace(0, there, self.weeks + 1).round().astype(np.int64)
        drawn = np.random.default_rng(self.seed).integers(edges[:-1], edges[1:])
        return [(first + week * WEEK, first + (week + 1) * WEEK) for week in drawn.tolist()]

    def _check_jobs(self, jobs: int) -> None:
        if self.last is not None and self.last > jobs:
            raise ConfigurationError(
                f"{self.log} holds {jobs} jobs that ran: jobs={self.first}:{self.last} goes beyond."
            )

    def scaled(self, log: JobLog, processors: int) -> JobLog:
        """The same jobs arriving so that they ask for `load` of the processors on average."""
        if self.load is None:
            return log
        span = float(log.submit[-1] - log.submit[0])
        asked = float((log.run_time * log.processors).sum()) / (processors * max(span, 1.0))
        return scale_load(log, self.load / asked)


def whole_weeks(first: float, last: float) -> int:
    """Weeks between the first and the last submission of a log, seconds."""
    return int((last - first) // WEEK)


def sampled(argument: str) -> str:
    """The LOG argument, with the weeks that are drawn of it where the log is a large one."""
    path = Path(argument)
    if not is_stored(path):
        return argument
    from slurm_rl_plugin.accounting.stored.log import StoredLog  # noqa: PLC0415 - an extra's

    stored = StoredLog(path)
    if len(stored) <= MOST_JOBS:
        return argument
    there = whole_weeks(*stored.first_and_last_submit())
    weeks = min(max(MOST_JOBS * there // len(stored), FEWEST_WEEKS), MOST_WEEKS)
    if there <= weeks:
        return argument
    print(
        f"slurm-rl: {argument} holds {len(stored):,} jobs of {there} weeks: {weeks} weeks are "
        "drawn; @weeks=N behind it takes others.",
        file=sys.stderr,
    )
    return f"{argument}@weeks={weeks}"


def _number(
    argument: str, key: str, text: str, kind: Callable[[str], int | float], least: float
) -> int | float:
    try:
        value = kind(text)
    except ValueError:
        value = -1
    if not least <= value < float("inf"):
        raise ConfigurationError(
            f"{argument!r}: {key} has {text!r}, which is no number of at least {least:g}."
        )
    if value > LARGEST:
        raise ConfigurationError(
            f"{argument!r}: {key} has {text!r}, which is too large: give {LARGEST} at most."
        )
    return value
