"""Service of accounts in the last fortnight, and its effects: lifts and lost classes.

Each cycle adds the resources of running jobs times the seconds since the cycle before; the queue
shows how much more an account could have used (docs/research/definitions.md#who-got-what). An
account that is short of its entitlement and has jobs that wait gains a lift, and so does a group of
jobs whose mean wait is above its target: a given one, or the wait under the site's own order,
measured while an experiment gives that order its turns.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.domain import JobTable, QueueSnapshot
from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.domain.job_groups import (
    GROUPS,
    WIDTHS,
    Grouping,
    grouped_by_limit,
    grouped_by_width,
)
from slurm_rl_plugin.features.history.run_history import user_key
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, FloatArray
from slurm_rl_plugin.utility.fairness import FORTNIGHT, SMALL, entitled_service
from slurm_rl_plugin.whole_file import JsonRecord, as_json, typed

#: Seconds: the longest time between two cycles that counts as observed; the observed time after
#: which figures are reported; the time between two writes of the file.
_LONGEST_GAP, _ENOUGH, _KEPT_EVERY = 10 * MINUTE, 7 * DAY, HOUR
_DAYS = round(FORTNIGHT / DAY)
#: Doublings by which a lift moves in a day. It follows a mean over a fortnight: eight days to the
#: bound give that mean time to move first.
A_DAY = 0.25
#: Doublings at most: a quarter of the usage. If a lift of two is not enough, a person must act.
MOST = 2.0
#: Part of its entitlement below which an account is short. Running jobs do not stop at a share, so
#: 0.9 is usual under an order that keeps shares (docs/research/order-measured.md: 5 % quantile
#: 0.87).
SHORT = 0.9
#: Standard deviations by which an account of small entitlement must be short before it is lifted: a
#: single job is a large part of its service.
SURE = 2.0
#: Multiple of its target above which a group waits too long, and the starts in a fortnight that are
#: needed: the mean of a hundred waits that differ much is known within a fifth.
LATE, ENOUGH_STARTS = 1.2, 100
#: Seconds: a shorter mean wait under the site's own order counts as this.
LEAST_TARGET = 5 * MINUTE
#: A limit of fifteen minutes makes a job interactive. If such limits end more than ALLOWED runs of
#: a user in PERIOD, and more than ALLOWED_PART of them, the user's jobs with such limits count as
#: batch for another PERIOD.
PERIOD, ALLOWED, ALLOWED_PART = 7 * DAY, 3, 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifts:
    """Lifts in one cycle."""

    #: Doublings, shape [accounts of the snapshot]; empty where shares do not count.
    accounts: FloatArray = field(default_factory=lambda: np.empty(0))
    #: Doublings of each group of jobs that has a target.
    groups: Mapping[str, float] = field(default_factory=dict)
    #: Mean waits of groups with ENOUGH_STARTS in the last fortnight, seconds.
    group_waits: Mapping[str, float] = field(default_factory=dict)

    def seen(self, snapshot: QueueSnapshot) -> QueueSnapshot:
        """The snapshot as the policy sees it: less usage of lifted accounts, longer waits."""
        if self.accounts.any():
            snapshot = replace(snapshot, usage=snapshot.usage * np.exp2(-self.accounts))
        if any(self.groups.values()):
            counts = np.exp2(self._of_jobs(snapshot))
            snapshot = replace(snapshot, pending=replace(snapshot.pending, wait_counts=counts))
        return snapshot

    def _of_jobs(self, snapshot: QueueSnapshot) -> FloatArray:
        """Doublings of each pending job, shape [pending]: the greater lift of its two groups."""
        by_width, by_limit = (
            np.array([self.groups.get(name, 0.0) for name in each.names])[each.place]
            for each in groupings(snapshot.pending.jobs, snapshot.capacity)
        )
        return np.asarray(np.maximum(by_width, by_limit))


def groupings(jobs: JobTable, capacity: int) -> tuple[Grouping, Grouping]:
    """Jobs by width and by time limit."""
    width = grouped_by_width(jobs.processors, max(capacity, 1))
    return width, grouped_by_limit(jobs.time_limit)


def moved(lifts: Mapping[str, float], rising: Collection[str], seconds: float) -> dict[str, float]:
    """The lifts above 0 after some time: higher for rising names, lower for all others."""
    step = A_DAY * seconds / DAY
    found = {name: lift - step for name, lift in lifts.items() if name not in rising}
    found |= {name: min(lifts.get(name, 0.0) + step, MOST) for name in rising}
    return {name: lift for name, lift in found.items() if lift > 0.0}


class Overrun(NamedTuple):
    """Why and until when the jobs of a user count as batch."""

    until: float  #: seconds since the epoch
    #: Jobs that were interactive by their limits and ended by them, in the week before.
    timed_out: int
    runs: int  #: all that were interactive by their limits, in that week


@dataclass(slots=True, kw_only=True)
class Overruns:
    """Runs of a week by day and user, and users that have lost the class; users are hashes."""

    days: dict[int, dict[str, tuple[int, int]]] = field(default_factory=dict)
    lost: dict[str, Overrun] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many users have lost the class."""
        return len(self.lost)

    def count(self, snapshot: QueueSnapshot) -> None:
        """Count the runs that have ended, and note which users lose the class by them."""
        now, today = snapshot.now, int(snapshot.now // DAY)
        self._forget(now)
        ended = snapshot.ended
        if ended.jobs.by_limit is None or ended.timed_out is None:
            return
        counted = np.flatnonzero(ended.jobs.by_limit & (ended.jobs.user >= 0))
        for place in counted.tolist():
            user = _key(snapshot.users[int(ended.jobs.user[place])])
            day = self.days.setdefault(today, {})
            runs, timed_out = day.get(user, (0, 0))
            day[user] = runs + 1, timed_out + int(ended.timed_out[place])
            self._judge(user, now)

    def of_users(self, snapshot: QueueSnapshot) -> dict[int, Overrun]:
        """Number in the snapshot of each user that has lost the class -> why."""
        found = {}
        for number, name in enumerate(snapshot.users if self.lost else ()):
            overrun = self.lost.get(_key(name))
            if overrun is not None and overrun.until > snapshot.now:
                found[number] = overrun
        return found

    def _judge(self, user: str, now: float) -> None:
        week = [day[user] for day in self.days.values() if user in day]
        runs, timed_out = (sum(column) for column in zip(*week, strict=True))
        if user not in self.lost and timed_out > max(ALLOWED, ALLOWED_PART * runs):
            self.lost[user] = Overrun(until=now + PERIOD, timed_out=timed_out, runs=runs)

    def _forget(self, now: float) -> None:
        """Drop what has expired or has a time in the future, which a wrong clock wrote."""
        today, week = int(now // DAY), round(PERIOD / DAY)
        self.days = {day: n for day, n in self.days.items() if today - week < day <= today}
        self.lost = {
            user: each for user, each in self.lost.items() if now < each.until <= now + PERIOD
        }


def _key(user: str) -> str:
    return f"{user_key(user):.0f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSeen:
    """Service of each account over its entitlement, in the days that were seen."""

    delivered: FloatArray  #: processor-seconds, shape [accounts of the snapshot]
    entitled: FloatArray  #: the same; see `entitled_service`

    @property
    def ratios(self) -> FloatArray:
        """Delivered over entitled, shape [accounts]; NaN if the entitlement is too small."""
        judged = self.entitled > SMALL * self.delivered.sum()
        found = np.full(len(self.entitled), math.nan)
        np.divide(self.delivered, self.entitled, out=found, where=judged)
        return found

    @property
    def misdelivered(self) -> float:
        """Part of the delivered service that went to the wrong account."""
        whole = float(self.delivered.sum())
        lacking = float(np.maximum(self.entitled - self.delivered, 0.0).sum())
        return lacking / whole if whole > 0.0 else 0.0


@dataclass(slots=True, kw_only=True)
class _Day:
    """What was seen of one day."""

    seen: float = 0.0  #: seconds
    service: dict[str, float] = field(default_factory=dict)  #: account -> processor-seconds
    #: Group of jobs -> starts, and their waits in seconds.
    starts: dict[str, tuple[float, float]] = field(default_factory=dict)
    site_seen: float = 0.0  #: seconds of `seen` with the site's own order in force
    #: Group -> seconds its jobs waited then.
    site_waits: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        waits = (each for start in self.starts.values() for each in start)
        amounts = (self.seen, self.site_seen, *self.service.values(), *self.site_waits.values())
        _check(*amounts, *waits)
        self.site_seen = min(self.site_seen, self.seen)  # a part of it, also in a damaged file


@dataclass(slots=True, kw_only=True)
class _KeptLifts:
    """Doublings."""

    accounts: dict[str, float] = field(default_factory=dict)
    groups: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _Kept:
    """What the file holds; an earlier release kept days alone."""

    days: dict[int, _Day]
    lifts: _KeptLifts = field(default_factory=_KeptLifts)
    #: Group of jobs -> mean wait under the site's own order, seconds.
    site_waits: dict[str, float] = field(default_factory=dict)
    overruns: Overruns = field(default_factory=Overruns)

    def __post_init__(self) -> None:
        lifts = (*self.lifts.accounts.values(), *self.lifts.groups.values())
        _check(*self.site_waits.values(), *lifts)
        for each in (self.lifts.accounts, self.lifts.groups):
            each |= {name: MOST for name, lift in each.items() if lift > MOST}


def _check(*amounts: float) -> None:
    if not all(each >= 0.0 for each in amounts):
        raise ValueError("an amount below 0")


@dataclass(slots=True, kw_only=True)
class AccountService:
    """Service by day and account; losing the file costs a week of figures, and lifts."""

    path: Path
    goals: Goals = AS_TRAINED  #: accounts are lifted where shares count
    #: Group of jobs -> wanted mean wait, seconds; replaces what an experiment has measured.
    wait_targets: Mapping[str, float] = field(default_factory=dict)
    counts_overruns: bool = False  #: users may lose an interactive class
    _kept: _Kept = field(default_factory=lambda: _Kept(days={}))
    _last: float = math.nan
    _written: float = -math.inf
    _is_read: bool = False

    def look(self, snapshot: QueueSnapshot, *, sites_turn: bool = False) -> ServiceSeen | None:
        """Count what has run since the last cycle; None until a week has been seen."""
        self._read()
        now = snapshot.now
        since = now - self._last
        self._last = now
        is_seen = 0.0 < since <= _LONGEST_GAP
        if is_seen:
            sizes = snapshot.weighed(snapshot.running.jobs).size
            of_running = _of_accounts(snapshot, snapshot.running.jobs, sizes)
            day = self._kept.days.setdefault(int(now // DAY), _Day())
            day.seen += since
            for place in np.flatnonzero(of_running):
                name = snapshot.accounts[place]
                day.service[name] = day.service.get(name, 0.0) + float(of_running[place]) * since
        self._count_starts(snapshot)
        known = len(self._kept.overruns)
        if is_seen and sites_turn:
            self._count_sites_turn(snapshot, since)
        if self.counts_overruns:
            self._kept.overruns.count(snapshot)
        self._forget(int(now // DAY))
        found = self.served(snapshot)
        if is_seen:
            lifts = self._kept.lifts
            lifts.accounts = moved(lifts.accounts, self._robbed(snapshot, found), since)
            lifts.groups = moved(lifts.groups, self._late_groups(), since)
        if now - self._written >= _KEPT_EVERY or len(self._kept.overruns) != known:
            self.keep(now)  # `explain` reads in the file which users have lost the class
        return found

    def keep(self, now: float) -> None:
        """Replace the file; a cycle does not wait for the disk."""
        if not self._is_read:
            return  # a file that was not read must stay
        self._written = now
        self._record.keep(as_json(self._kept))

    def served(self, snapshot: QueueSnapshot) -> ServiceSeen | None:
        """Service and entitlement as counted so far; None until a week has been seen."""
        self._read()
        seen = sum(day.seen for day in self._kept.days.values())
        if seen < _ENOUGH or not snapshot.shares.any():
            return None
        delivered = np.array(
            [
                sum(day.service.get(name, 0.0) for day in self._kept.days.values())
                for name in snapshot.accounts
            ]
        )
        demand = np.minimum(delivered + _still_wanted(snapshot), snapshot.capacity * seen)
        demand = np.maximum(demand, delivered)
        entitled = entitled_service(snapshot.shares, demand, float(delivered.sum()))
        return ServiceSeen(delivered=delivered, entitled=entitled)

    def lifts(self, snapshot: QueueSnapshot) -> Lifts:
        """Lifts of accounts, where shares count, and of the groups of jobs that have a target."""
        self._read()
        counted = snapshot.accounts if self._shares_count(snapshot) else ()
        return Lifts(
            accounts=np.array([self._kept.lifts.accounts.get(name, 0.0) for name in counted]),
            groups={name: self._kept.lifts.groups.get(name, 0.0) for name in self._targets()},
            group_waits=self._group_waits(),
        )

    def overruns(self, snapshot: QueueSnapshot) -> dict[int, Overrun]:
        """Number of each user that has lost an interactive class -> why."""
        self._read()
        return self._kept.overruns.of_users(snapshot) if self.counts_overruns else {}

    @property
    def overrunners(self) -> int:
        """How many users have lost an interactive class."""
        return len(self._kept.overruns) if self.counts_overruns else 0

    def _shares_count(self, snapshot: QueueSnapshot) -> bool:
        return self.goals.resolved(snapshot.shares).points_a_doubling > 0.0

    def _robbed(self, snapshot: QueueSnapshot, found: ServiceSeen | None) -> set[str]:
        """Accounts that are short of their entitlement while jobs of theirs could start."""
        if found is None or not self._shares_count(snapshot):
            return set()
        could_start = snapshot.waits_for_machine.astype(np.float64)
        waiting = _of_accounts(snapshot, snapshot.pending.jobs, could_start) > 0.0
        lacks = found.entitled - found.delivered
        short = waiting & (lacks > (1.0 - SHORT) * found.entitled)
        lifted = self._kept.lifts.accounts
        is_lifted = np.array([name in lifted for name in snapshot.accounts], dtype=np.bool_)
        by_chance = SURE * np.sqrt(found.entitled * _work_of_a_job(snapshot))
        short &= (lacks >= by_chance) | is_lifted | np.isfinite(found.ratios)
        return {snapshot.accounts[place] for place in np.flatnonzero(short).tolist()}

    def _count_starts(self, snapshot: QueueSnapshot) -> None:
        """Count the jobs that have started since the last look, and their waits."""
        started = snapshot.started
        wait = np.maximum(started.start - started.jobs.eligible, 0.0)
        is_known = np.isfinite(wait)
        if not is_known.any():
            return
        day = self._kept.days.setdefault(int(snapshot.now // DAY), _Day())
        for grouping in groupings(started.jobs, snapshot.capacity):
            place, length = grouping.place[is_known], len(grouping.names)
            jobs, waits = np.bincount(place, minlength=length), np.bincount(place, wait[is_known])
            for group in np.flatnonzero(jobs).tolist():
                name = grouping.names[group]
                before = day.starts.get(name, (0.0, 0.0))
                day.starts[name] = before[0] + float(jobs[group]), before[1] + float(waits[group])

    def _count_sites_turn(self, snapshot: QueueSnapshot, since: float) -> None:
        """Count the waits under the site's own order, and measure each group's mean wait.

        By Little's law the mean wait is the pending time of jobs over the number of jobs that came,
        or started. So each second of a wait counts for the order that was in force then.
        """
        day, jobs = self._kept.days[int(snapshot.now // DAY)], snapshot.pending.jobs
        day.site_seen += since
        tasks = snapshot.pending.tasks
        count = np.ones(len(jobs)) if tasks is None else tasks.astype(np.float64)
        count[(jobs.eligible > snapshot.now) | snapshot.pending.held] = 0.0
        for grouping in groupings(jobs, snapshot.capacity):
            of_group = np.bincount(grouping.place, count, minlength=len(grouping.names))
            for name, pending in zip(grouping.names, of_group.tolist(), strict=True):
                day.site_waits[name] = day.site_waits.get(name, 0.0) + pending * since
        measured = [each for each in self._kept.days.values() if each.site_seen > 0.0]
        for name in GROUPS:
            waits = math.fsum(each.site_waits.get(name, 0.0) for each in measured)
            starts = math.fsum(
                each.starts.get(name, (0.0, 0.0))[0] * each.site_seen / each.seen
                for each in measured
            )
            if starts >= ENOUGH_STARTS:
                self._kept.site_waits[name] = waits / starts

    def _starts(self) -> dict[str, tuple[float, float]]:
        """Group with ENOUGH_STARTS in the last fortnight -> starts, and their waits in seconds."""
        starts: dict[str, tuple[float, float]] = {}
        for day in self._kept.days.values():
            for name, (jobs, waits) in day.starts.items():
                before = starts.get(name, (0.0, 0.0))
                starts[name] = (before[0] + jobs, before[1] + waits)
        return {name: each for name, each in starts.items() if each[0] >= ENOUGH_STARTS}

    def _group_waits(self) -> dict[str, float]:
        return {name: waits / jobs for name, (jobs, waits) in self._starts().items()}

    def _targets(self) -> dict[str, float]:
        """Mean wait that each group should have, seconds: as given, else as measured.

        Measured targets grow with the load: by the factor by which all jobs together wait longer
        now, for the widths that start now.
        """
        now = {name: each for name, each in self._starts().items() if name in WIDTHS}
        now = {name: each for name, each in now.items() if name in self._kept.site_waits}
        waits = math.fsum(waits for _, waits in now.values())
        by_site = math.fsum(jobs * self._kept.site_waits[name] for name, (jobs, _) in now.items())
        load = max(waits / by_site, 1.0) if by_site > 0.0 else 1.0
        measured = {n: load * max(wait, LEAST_TARGET) for n, wait in self._kept.site_waits.items()}
        return measured | dict(self.wait_targets)

    def _late_groups(self) -> set[str]:
        waits = self._group_waits()
        late = {name: LATE * target for name, target in self._targets().items()}
        return {name for name, target in late.items() if waits.get(name, 0.0) > target}

    def _forget(self, today: int) -> None:
        """Drop days outside the fortnight, and days in the future, which a wrong clock wrote."""
        for day in [each for each in self._kept.days if not today - _DAYS < each <= today]:
            del self._kept.days[day]

    @property
    def _record(self) -> JsonRecord:
        return JsonRecord(self.path, "service")

    def _read(self) -> None:
        if self._is_read:
            return
        self._is_read = True
        with suppress(FileNotFoundError):
            found = self._record.read(partial(typed, _Kept))
            self._kept = found or self._kept


def _still_wanted(snapshot: QueueSnapshot) -> FloatArray:
    """Processor-seconds more that each account could have used, shape [accounts]."""
    running, pending = snapshot.running, snapshot.pending
    sizes = snapshot.weighed(running.jobs).size
    limit = np.nan_to_num(running.jobs.time_limit, nan=math.inf)
    left = np.maximum(limit - (snapshot.now - running.start), 0.0)
    lost = np.clip(running.start - running.jobs.eligible, 0.0, FORTNIGHT)
    limit = np.nan_to_num(pending.jobs.time_limit, nan=math.inf)
    could = np.minimum(limit, np.minimum(snapshot.accrued_wait, FORTNIGHT))
    waiting = snapshot.weighed(pending.jobs).size * snapshot.each_waits_as
    of_running = _of_accounts(snapshot, running.jobs, sizes * np.minimum(left, lost))
    return of_running + _of_accounts(snapshot, pending.jobs, waiting * could)


def _work_of_a_job(snapshot: QueueSnapshot) -> FloatArray:
    """Requested processor-seconds of a job of each account, [accounts]; 0 for no job.

    Each job counts by its work in this mean. If the number of such jobs is Poisson distributed, the
    variance of their service is its mean times this.
    """
    sums = np.zeros((2, len(snapshot.accounts)))
    running, pending = snapshot.running.jobs, snapshot.pending.jobs
    for jobs, times in ((running, np.ones(len(running))), (pending, snapshot.each_waits_as)):
        limit = np.minimum(np.nan_to_num(jobs.time_limit, nan=math.inf), FORTNIGHT)
        work = snapshot.weighed(jobs).size * limit
        sums += [_of_accounts(snapshot, jobs, times * work**power) for power in (2, 1)]
    found: FloatArray = np.zeros_like(sums[0])
    np.divide(sums[0], sums[1], out=found, where=sums[1] > 0.0)
    return found


def _of_accounts(snapshot: QueueSnapshot, jobs: JobTable, values: FloatArray) -> FloatArray:
    """Values of jobs summed up by account, shape [accounts]; jobs of no account do not count."""
    known = jobs.account >= 0
    count = len(snapshot.accounts)
    return np.bincount(jobs.account[known], values[known], minlength=count).astype(np.float64)
