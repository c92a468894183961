"""When half of a gain is lost in truth, and when a watch says so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.papers.drift.experiment import LogRuns
from slurm_rl_plugin.papers.drift.watched_run import WatchedRun
from slurm_rl_plugin.units import DAY, FloatArray, IntArray
from slurm_rl_plugin.what_if.drift.evidence import drift_finding
from slurm_rl_plugin.what_if.drift.weekly_costs import WEEK, WeeklyCosts

#: Weeks over which a gain is pooled to say that half of it is lost; and fewer, to compare.
LOST_OVER, SHORTER = 26, 8
#: Weeks of a year.
YEAR = 365.25 * DAY / WEEK


def gain(run: WatchedRun) -> float:
    """Log of what all weeks cost under the model over what they cost without; less is better."""
    return float(gains_lately(run, len(run))[-1])


def gains_lately(run: WatchedRun, over: int) -> FloatArray:
    """The same of the last weeks before the end of each; NaN where there are fewer; shape [n].

    Args:
        run: its weeks.
        over: so many.
    """
    found = np.full(len(run), np.nan)
    site, ours = (np.cumsum([0.0, *each]) for each in (run.by_site, run.by_ours))
    with np.errstate(divide="ignore", invalid="ignore"):
        found[over - 1 :] = np.log(ours[over:] - ours[:-over]) - np.log(site[over:] - site[:-over])
    return found


def lost_at(run: WatchedRun, promise: float, over: int = LOST_OVER) -> int | None:
    """The week after which half of the promise was lost first; None for never.

    Args:
        run: under the model.
        promise: log of the ratio of costs in the weeks of reference.
        over: weeks that are pooled.
    """
    if len(run) < over or promise >= 0.0:
        return None  # nothing was gained that could be lost
    lost = np.flatnonzero(gains_lately(run, over) > promise / 2.0)
    return int(lost[0]) if len(lost) else None


def warnings_in(reference: WeeklyCosts, later: WeeklyCosts) -> list[int]:
    """Weeks after which a watch warns that begins anew after each warning."""
    found: list[int] = []
    begin = 0
    while begin < len(later):
        rest: IntArray = np.arange(begin, len(later))
        warned = drift_finding(reference, later.of(rest)).lost_at
        if warned is None:
            break
        found.append(begin + warned)
        begin = found[-1] + 1
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRecord:
    """What came of a run: weeks from 0 on, after which something was so.

    Attributes:
        warnings: each of them.
        lost: half of the gain, pooled over LOST_OVER weeks; None for never.
        lost_shorter: the same over SHORTER weeks.
        weeks: of the run.
        gain: of the whole run.
    """

    warnings: list[int]
    lost: int | None
    lost_shorter: int | None
    weeks: int
    gain: float

    @classmethod
    def of(cls, reference: WatchedRun, run: WatchedRun) -> WatchRecord:
        """Judge a run by the weeks of reference."""
        promise = gain(reference)
        return cls(
            warnings=warnings_in(reference.seen, run.seen),
            lost=lost_at(run, promise),
            lost_shorter=lost_at(run, promise, SHORTER),
            weeks=len(run),
            gain=gain(run),
        )

    @property
    def warned(self) -> int | None:
        """The first warning."""
        return self.warnings[0] if self.warnings else None

    def warned_by(self, week: int) -> bool:
        """Whether the first warning came then at the latest."""
        return self.warned is not None and self.warned <= week

    @property
    def in_time(self) -> bool:
        """Whether something was lost, and a warning came by then."""
        return self.lost is not None and self.warned_by(self.lost)

    @property
    def a_year(self) -> float:
        """Warnings in a year."""
        return len(self.warnings) / self.weeks * YEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLog:
    """The runs of a log, and what came of them.

    Attributes:
        runs: as they were.
        real: of the log's own history.
        changing: of histories like it.
        alike: of those in which nothing changes.
    """

    runs: LogRuns
    real: WatchRecord
    changing: list[WatchRecord]
    alike: list[WatchRecord]

    @classmethod
    def of(cls, runs: LogRuns) -> JudgedLog:
        """Judge every run."""
        real, *others = (
            WatchRecord.of(runs.reference, run) for run in (runs.real, *runs.changing, *runs.alike)
        )
        many = len(runs.changing)
        return cls(runs=runs, real=real, changing=others[:many], alike=others[many:])

    @property
    def promise(self) -> float:
        """Log of the ratio of costs in the weeks of reference."""
        return gain(self.runs.reference)

    def by_chance(self, week: int) -> float:
        """Part of the runs without change in which a warning comes by then, too."""
        return float(np.mean([each.warned_by(week) for each in self.alike]))
