"""Hours that groups of jobs waited under the site's order and under ours, and who gains by it."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.what_if.blocks import Blocks
from slurm_rl_plugin.what_if.effects import ALL

#: What jobs are grouped by, in the order in which it is told; classes are no word of users.
GROUPED_BY = ("account", "width", "limit", "resource")
#: Groups of fewer jobs are not told of: their waits are those of a day or two.
FEWEST_IN_GROUP = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHours:
    """What one group of jobs waited.

    Attributes:
        by: ALL, or one of GROUPED_BY.
        group: its name.
        jobs: how many there are.
        before, after: hours, of what `HoursWaited` says.
        longest_before, longest_after: hours that the job waited that waited longest.
        ratio: after over before; None where nobody waited before.
        ratio_ci95: its 95 % interval; None where none can be told.
        word: its verdict; see `utility.intervals`.
    """

    by: str
    group: str
    jobs: int
    before: float
    after: float
    longest_before: float
    longest_after: float
    ratio: float | None
    ratio_ci95: tuple[float, float] | None
    word: str

    @property
    def growth(self) -> float:
        """Hours that it waits longer; below 0 for shorter."""
        return self.after - self.before

    @property
    def longest_growth(self) -> float:
        """Hours that its longest wait is longer."""
        return self.longest_after - self.longest_before


@dataclass(frozen=True, slots=True, kw_only=True)
class HoursWaited:
    """What every group waited.

    Attributes:
        everybody: all jobs.
        groups: by GROUPED_BY, and accounts with most jobs first.
        each: whether hours are those of a job in the mean; else they are those that all jobs of
            the group waited together in an hour.
        stretches, unit: over so many weeks, days or the like it was drawn again.
        has_intervals: whether there were enough of them.
    """

    everybody: GroupHours
    groups: tuple[GroupHours, ...]
    each: bool
    stretches: int
    unit: str
    has_intervals: bool

    @classmethod
    def of(cls, rows: list[GroupHours], blocks: Blocks, *, each: bool) -> HoursWaited:
        """Rows in any order, of which one is ALL."""
        (everybody,) = (row for row in rows if row.by == ALL)
        groups = [row for row in rows if row.by in GROUPED_BY and row.jobs >= FEWEST_IN_GROUP]
        accounts = sorted((row for row in groups if row.by == "account"), key=lambda row: -row.jobs)
        others = [row for by in GROUPED_BY[1:] for row in groups if row.by == by]
        return cls(
            everybody=everybody,
            groups=(*accounts, *others),
            each=each,
            stretches=blocks.count,
            unit=blocks.unit,
            has_intervals=len(blocks.drawn) > 0,
        )

    def grouped(self, by: str) -> list[GroupHours]:
        """The groups of one kind."""
        return [row for row in self.groups if row.by == by]

    def judged(self, word: str) -> list[GroupHours]:
        """The groups with a verdict, those with the largest change first."""
        found = [row for row in self.groups if row.word == word]
        return sorted(found, key=lambda row: -abs(row.growth))
