"""Hours that groups of jobs waited under the site's order and under ours, and who gains by it.

In two replays of a log, or in the blocks of an experiment. There each second of a wait belongs to
the order that was in force then. Pairs of blocks are the same hours of two days, each with a coin
of its own: so pairs are drawn again. A replay of each block by both orders takes away what the load
alone did; a replay that is wrong does not bend the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.domain.switchback import ARMS, OURS, SITE, Declaration, Pairs, TurnBlock
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.evaluation.group_waits import LEAST_LOSS, groupings_of_workload
from slurm_rl_plugin.measure.intervals import Blocks
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import HOUR, FloatArray, IntArray
from slurm_rl_plugin.utility.summary import ScheduledJobs
from slurm_rl_plugin.what_if.effects import ALL, Effect, judged_effect, members
from slurm_rl_plugin.what_if.switchback.block_costs import JobTimes, ReplayedCluster

#: What jobs are grouped by, in the order of the report; users do not choose classes.
GROUPED_BY = ("account", "width", "limit", "resource")
#: Groups of fewer jobs are not reported: their waits are those of a day or two.
FEWEST_IN_GROUP = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHours:
    """What one group of jobs waited."""

    by: str  #: ALL, or one of GROUPED_BY
    group: str
    jobs: int
    before: float  #: hours, of what `HoursWaited` says
    after: float  #: hours, of what `HoursWaited` says
    longest_before: float  #: hours that the job waited that waited longest
    longest_after: float  #: hours that the job waited that waited longest
    ratio: float | None  #: after over before; None if no job waited before
    ratio_ci95: tuple[float, float] | None  #: its 95 % interval; None for none
    word: str  #: its verdict; see `measure.intervals`

    @classmethod
    def of(
        cls,
        named: tuple[str, str],
        jobs: int,
        effect: Effect,
        longest: tuple[float, float],
        hour: float = 1.0,
    ) -> GroupHours:
        """The group of a kind and a name; an hour is `hour` of the unit of effect and waits."""
        return cls(
            by=named[0],
            group=named[1],
            jobs=jobs,
            before=effect.before / hour,
            after=effect.after / hour,
            longest_before=longest[0] / hour,
            longest_after=longest[1] / hour,
            ratio=effect.ratio,
            ratio_ci95=effect.ratio_ci95,
            word=effect.verdict,
        )

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
    """What every group waited."""

    everybody: GroupHours
    groups: tuple[GroupHours, ...]  #: by GROUPED_BY, and accounts with most jobs first
    #: whether hours are those of a job in the mean; else they are those that all jobs of the group
    #: waited together in an hour
    each: bool
    stretches: int  #: number of stretches from which intervals are drawn
    unit: str  #: of a stretch, such as weeks or days
    has_intervals: bool  #: whether there were enough of them

    @classmethod
    def of(cls, rows: list[GroupHours], blocks: Blocks, *, each: bool) -> HoursWaited:
        """Rows in any order; one is ALL."""
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


def hours_in_replays(
    prepared: PreparedLog,
    before: ScheduledJobs,
    after: ScheduledJobs,
    counted: slice,
    rng: np.random.Generator,
) -> HoursWaited:
    """Mean hours that a job of each group waits, with intervals over weeks or days drawn again.

    `before` and `after` have all jobs; `counted` are places of those that are measured, at least
    one.
    """
    blocks = Blocks.over(prepared.log.submit[counted], rng)
    waits = before.wait[counted], after.wait[counted]
    places = np.arange(len(before.wait))[counted]
    groups = [(ALL, ALL, np.arange(len(places))), *members(prepared, places)]
    rows = []
    for by, group, jobs in groups:
        old, new = waits[0][jobs], waits[1][jobs]
        drawn = blocks.means(old, jobs), blocks.means(new, jobs)
        means = float(old.mean()), float(new.mean())
        effect = judged_effect("mean_wait", means, drawn, blocks, LEAST_LOSS)
        longest = float(old.max()), float(new.max())
        rows.append(GroupHours.of((by, group), len(jobs), effect, longest, HOUR))
    return HoursWaited.of(rows, blocks, each=True)


#: What the stretches that are drawn again are called.
_UNIT = "pairs of stretches"
#: Smaller changes, in hours per hour, do not matter: a job's wait of 36 s.
_LEAST = 0.01


def hours_in_blocks(
    declared: Declaration,
    times: JobTimes,
    cluster: ReplayedCluster | None,
    accounts: Sequence[str],
    rng: np.random.Generator,
    *,
    now: float,
    resources: Sequence[str] = (),
    progress: Callable[[int], None] = lambda _: None,
) -> HoursWaited:
    """Hours that each group waited in an hour of our order, and would have by the site's order.

    Without replays the latter are those of the site's blocks of the same pairs.

    Args:
        cluster: to play each block again; None for no replays.
        accounts: names; `times.jobs.account` counts in them.
        now: seconds since the epoch; pairs whose both blocks are over by then count.
        resources: names of the columns of `times.jobs.asked`, if a resource is reported.
    """
    pairs = Pairs.closed(declared, declared.closed(now))
    if len(pairs.first) == 0:
        raise ConfigurationError("no pair of blocks has ended yet, so nothing is known of groups.")
    groups = _Groups.of(times, tuple(accounts), tuple(resources))
    counted = np.sort(np.concatenate([pairs.first, pairs.second])).tolist()
    hours, unexplained = (np.zeros((len(declared.blocks), len(groups.names))) for _ in range(2))
    seen = np.zeros(len(times.start), dtype=np.bool_)  # jobs that waited or came in any of them
    waited = {arm: np.zeros(len(times.start)) for arm in ARMS}  # hours that each had at most
    for place in counted:
        block = declared.blocks[place]
        hours[place] = unexplained[place] = groups.hours(times, block)
        if cluster is not None:  # the mean of both orders in replays
            played = [groups.hours(cluster.played(block, arm), block) for arm in ARMS]
            unexplained[place] = hours[place] - np.mean(played, axis=0)
        submit = times.jobs.submit
        pending = times.pending(block.counted_from, block.end) > 0.0
        seen |= pending | ((submit >= block.counted_from) & (submit < block.end))
        until = np.where(np.isfinite(times.start), np.minimum(times.start, block.end), block.end)
        here = np.where(pending, until - submit, 0.0) / HOUR
        waited[block.arm] = np.maximum(waited[block.arm], here)
        progress(1)
    ours = np.where(pairs.ours_first, pairs.first, pairs.second)
    differences = np.column_stack([pairs.ours_less_site(each) for each in unexplained.T])
    lengths = [(each.end - each.counted_from) / HOUR for each in declared.blocks]
    length, every = np.array(lengths)[ours], np.arange(len(ours))
    blocks = Blocks.of_stretches(every, _UNIT, rng)

    def in_an_hour(values: FloatArray) -> tuple[float, FloatArray]:
        """What happened in an hour, and that of each draw."""
        drawn = blocks.means(values, every) / blocks.means(length, every)
        return float(values.sum() / length.sum()), drawn

    jobs = groups.sums(times.jobs, seen.astype(np.float64))
    longest = {arm: groups.longest(times.jobs, waited[arm]).tolist() for arm in ARMS}
    rows = []
    for place, named in enumerate(groups.names):
        if jobs[place] or named == (ALL, ALL):
            after, drawn = in_an_hour(hours[ours, place])
            less, drawn_less = in_an_hour(differences[:, place])
            values = max(after - less, 0.0), after
            effect = judged_effect("hours", values, (drawn - drawn_less, drawn), blocks, _LEAST)
            both = longest[SITE][place], longest[OURS][place]
            rows.append(GroupHours.of(named, int(jobs[place]), effect, both))
    return HoursWaited.of(rows, blocks, each=False)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Every group of every kind in a row, all jobs first."""

    accounts: tuple[str, ...]  #: by which jobs are grouped
    resources: tuple[str, ...]  #: by which jobs are grouped
    capacity: int  #: by which jobs are grouped
    names: tuple[tuple[str, str], ...]  #: kind and name of each
    kinds: dict[str, int]  #: kind -> how many groups it has, in the order of `names`

    @classmethod
    def of(cls, times: JobTimes, accounts: tuple[str, ...], resources: tuple[str, ...]) -> _Groups:
        found = groupings_of_workload(times.jobs, times.capacity, accounts, resources)
        told = {by: found[by].names for by in GROUPED_BY if by in found}
        names = ((ALL, ALL), *((by, name) for by, each in told.items() for name in each))
        kinds = {by: len(each) for by, each in told.items()}
        return cls(accounts, resources, times.capacity, names, kinds)

    def sums(self, jobs: Workload, values: FloatArray) -> FloatArray:
        """Sum over the jobs of each group, shape [groups]."""
        parts = [np.bincount(place, values, size) for place, size in self._places(jobs)]
        return np.concatenate([[values.sum()], *parts])

    def longest(self, jobs: Workload, values: FloatArray) -> FloatArray:
        """The largest value of each group, 0 at least, shape [groups]."""
        found = [np.array([values.max(initial=0.0)])]
        for place, size in self._places(jobs):
            part = np.zeros(size)
            np.maximum.at(part, place, values)
            found.append(part)
        return np.concatenate(found)

    def hours(self, times: JobTimes, block: TurnBlock) -> FloatArray:
        """Hours that the jobs of each group waited in a block's counted time, shape [groups]."""
        here = times.present(block.counted_from, block.end)
        return self.sums(here.jobs, here.pending(block.counted_from, block.end) / HOUR)

    def _places(self, jobs: Workload) -> Iterator[tuple[IntArray, int]]:
        found = groupings_of_workload(jobs, self.capacity, self.accounts, self.resources)
        for by, size in self.kinds.items():
            # where no job asks for anything else there is no such kind: all ask for the first
            nobody = np.zeros(len(jobs.submit), dtype=np.int64)
            yield (found[by].place if by in found else nobody), size
