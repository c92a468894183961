"""Who got what on the cluster in the last fortnight, kept on disk: service of accounts, waits.

Each cycle adds what running jobs have, times the seconds since the cycle before. The queue shows
what more an account could have used: jobs that wait, up to their limits and the time that they have
waited, and what running jobs lost by their waits (docs/definitions.md#who-got-what).
A job that starts and ends between two cycles is not seen. An account that is short of its
entitlement and has jobs that wait gains a lift (`lifts`), and so does a group of jobs whose mean
wait is above its target. While an experiment gives the site's own order its turns, the waits under
that order are measured: they are the targets of groups that are given none.
The file also keeps which users have lost an interactive class (`overruns`).
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.batch_systems.kept_record import UNREADABLE
from slurm_rl_plugin.domain import JobTable, QueueSnapshot
from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.domain.job_groups import GROUPS, WIDTHS
from slurm_rl_plugin.hook.memory.lifts import (
    ENOUGH_STARTS,
    LATE,
    LEAST_TARGET,
    MOST,
    SHORT,
    SURE,
    Lifts,
    groupings,
    moved,
)
from slurm_rl_plugin.hook.memory.overruns import Overrun, Overruns
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, FloatArray
from slurm_rl_plugin.utility.entitlement import FORTNIGHT, SMALL, entitled_service
from slurm_rl_plugin.whole_file import PRIVATE, owner_of_folder, read_own, write_whole

logger = logging.getLogger(__name__)
#: Time between two cycles of which more is not counted as seen; how long it must have been seen
#: before anything is said; and how often the file is written; seconds.
_LONGEST_GAP, _ENOUGH, _KEPT_EVERY = 10 * MINUTE, 7 * DAY, HOUR
_VERSION = 1
_DAYS = round(FORTNIGHT / DAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSeen:
    """Service of each account over its entitlement, in the days that were seen.

    Attributes:
        delivered: processor-seconds by the snapshot's accounts, shape [accounts].
        entitled: the same; see `entitled_service`.
    """

    delivered: FloatArray
    entitled: FloatArray

    @property
    def ratios(self) -> FloatArray:
        """Delivered over entitled, shape [accounts]; NaN where too little is due to judge it by."""
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
    """What was seen of one day.

    Attributes:
        seen: seconds.
        service: account -> processor-seconds.
        starts: group of jobs -> how many of it started, and their waits in seconds.
        site_seen: seconds of `seen` in which the site's own order was in force.
        site_waits: group of jobs -> seconds for which its jobs waited in that time.
    """

    seen: float = 0.0
    service: dict[str, float] = field(default_factory=dict)
    starts: dict[str, tuple[float, float]] = field(default_factory=dict)
    site_seen: float = 0.0
    site_waits: dict[str, float] = field(default_factory=dict)

    def count_start(self, group: str, jobs: int, waits: float) -> None:
        """Add the starts of one cycle."""
        before = self.starts.get(group, (0, 0.0))
        self.starts[group] = (before[0] + jobs, before[1] + waits)


@dataclass(slots=True, kw_only=True)
class AccountService:
    """Service by day and account; losing the file costs a week of figures, and lifts.

    Attributes:
        path: of the file.
        goals: what the site wants: accounts are lifted where shares count.
        wait_targets: group of jobs -> mean wait that it should have, seconds; what an experiment
            has measured does not count where one is given.
        counts_overruns: whether users may lose an interactive class.
    """

    path: Path
    goals: Goals = AS_TRAINED
    wait_targets: Mapping[str, float] = field(default_factory=dict)
    counts_overruns: bool = False
    _days: dict[int, _Day] = field(default_factory=dict)
    _lifts: dict[str, float] = field(default_factory=dict)
    _group_lifts: dict[str, float] = field(default_factory=dict)
    #: Group of jobs -> mean wait under the site's own order, seconds.
    _site_waits: dict[str, float] = field(default_factory=dict)
    _overruns: Overruns = field(default_factory=Overruns)
    _last: float = math.nan
    _written: float = -math.inf
    _is_read: bool = False

    def look(self, snapshot: QueueSnapshot, *, sites_turn: bool = False) -> ServiceSeen | None:
        """Count what has run since the last look; None until a week has been seen.

        Args:
            snapshot: the queue.
            sites_turn: whether an experiment has the site's own order in force.
        """
        self._read()
        now = snapshot.now
        since = now - self._last
        self._last = now
        is_seen = 0.0 < since <= _LONGEST_GAP
        if is_seen:
            sizes = snapshot.weighed(snapshot.running.jobs).size
            of_running = _of_accounts(snapshot, snapshot.running.jobs, sizes)
            day = self._days.setdefault(int(now // DAY), _Day())
            day.seen += since
            for place in np.flatnonzero(of_running):
                name = snapshot.accounts[place]
                day.service[name] = day.service.get(name, 0.0) + float(of_running[place]) * since
        self._count_starts(snapshot)
        known = len(self._overruns)
        if is_seen and sites_turn:
            self._count_sites_turn(snapshot, since)
        if self.counts_overruns:
            self._overruns.count(snapshot)
        self._forget(int(now // DAY))
        found = self.served(snapshot)
        if is_seen:
            self._lifts = moved(self._lifts, self._robbed(snapshot, found), since)
            self._group_lifts = moved(self._group_lifts, self._late_groups(), since)
        if now - self._written >= _KEPT_EVERY or len(self._overruns) != known:
            self.keep(now)  # `explain` reads there which users have lost the class
        return found

    def keep(self, now: float) -> None:
        """Replace the file; a cycle does not wait for the disk."""
        if not self._is_read:
            return  # never replace what nobody has read
        self._written = now
        days = {
            str(day): {
                "seen": each.seen,
                "service": each.service,
                "starts": each.starts,
                "site_seen": each.site_seen,
                "site_waits": each.site_waits,
            }
            for day, each in self._days.items()
        }
        lifts = {"accounts": self._lifts, "groups": self._group_lifts}
        overruns = self._overruns.document()
        content = json.dumps(
            {
                "version": _VERSION,
                "days": days,
                "lifts": lifts,
                "site_waits": self._site_waits,
                "overruns": overruns,
            }
        )
        try:
            write_whole(self.path, content, sync=False, mode=PRIVATE)
        except OSError as error:
            logger.warning("service=unwritable path=%s error=%s", self.path, error)

    def served(self, snapshot: QueueSnapshot) -> ServiceSeen | None:
        """Service and entitlement as counted so far; None until a week has been seen."""
        self._read()
        seen = sum(day.seen for day in self._days.values())
        if seen < _ENOUGH or not snapshot.shares.any():
            return None
        delivered = np.array(
            [
                sum(day.service.get(name, 0.0) for day in self._days.values())
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
            accounts=np.array([self._lifts.get(name, 0.0) for name in counted]),
            groups={name: self._group_lifts.get(name, 0.0) for name in self._targets()},
            group_waits=self._group_waits(),
        )

    def overruns(self, snapshot: QueueSnapshot) -> dict[int, Overrun]:
        """Number of each user that has lost an interactive class -> why."""
        self._read()
        return self._overruns.of_users(snapshot) if self.counts_overruns else {}

    @property
    def overrunners(self) -> int:
        """How many users have lost an interactive class."""
        return len(self._overruns) if self.counts_overruns else 0

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
        is_lifted = np.array([name in self._lifts for name in snapshot.accounts], dtype=np.bool_)
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
        day = self._days.setdefault(int(snapshot.now // DAY), _Day())
        for grouping in groupings(started.jobs, snapshot.capacity):
            place, length = grouping.place[is_known], len(grouping.names)
            jobs, waits = np.bincount(place, minlength=length), np.bincount(place, wait[is_known])
            for group in np.flatnonzero(jobs).tolist():
                day.count_start(grouping.names[group], int(jobs[group]), float(waits[group]))

    def _count_sites_turn(self, snapshot: QueueSnapshot, since: float) -> None:
        """Count who waited under the site's own order, and tell each group's mean wait by it.

        By Little's law the mean wait is the time for which jobs were pending over how many came, or
        started. So each second of a wait counts for the order that was in force in it.
        """
        day, jobs = self._days[int(snapshot.now // DAY)], snapshot.pending.jobs
        day.site_seen += since
        tasks = snapshot.pending.tasks
        count = np.ones(len(jobs)) if tasks is None else tasks.astype(np.float64)
        count[(jobs.eligible > snapshot.now) | snapshot.pending.held] = 0.0
        for grouping in groupings(jobs, snapshot.capacity):
            of_group = np.bincount(grouping.place, count, minlength=len(grouping.names))
            for name, pending in zip(grouping.names, of_group.tolist(), strict=True):
                day.site_waits[name] = day.site_waits.get(name, 0.0) + pending * since
        measured = [each for each in self._days.values() if each.site_seen > 0.0]
        for name in GROUPS:
            waits = math.fsum(each.site_waits.get(name, 0.0) for each in measured)
            starts = math.fsum(
                each.starts.get(name, (0.0, 0.0))[0] * each.site_seen / each.seen
                for each in measured
            )
            if starts >= ENOUGH_STARTS:
                self._site_waits[name] = waits / starts

    def _starts(self) -> dict[str, tuple[float, float]]:
        """Group with ENOUGH_STARTS in the last fortnight -> starts, and their waits in seconds."""
        starts: dict[str, tuple[float, float]] = {}
        for day in self._days.values():
            for name, (jobs, waits) in day.starts.items():
                before = starts.get(name, (0.0, 0.0))
                starts[name] = (before[0] + jobs, before[1] + waits)
        return {name: each for name, each in starts.items() if each[0] >= ENOUGH_STARTS}

    def _group_waits(self) -> dict[str, float]:
        """Mean wait of each group with ENOUGH_STARTS, seconds."""
        return {name: waits / jobs for name, (jobs, waits) in self._starts().items()}

    def _targets(self) -> dict[str, float]:
        """Mean wait that each group should have, seconds: as given, else as measured.

        What was measured grows with the load: by as much as all jobs together wait longer now, with
        the widths that start now.
        """
        now = {name: each for name, each in self._starts().items() if name in WIDTHS}
        now = {name: each for name, each in now.items() if name in self._site_waits}
        waits = math.fsum(waits for _, waits in now.values())
        by_site = math.fsum(jobs * self._site_waits[name] for name, (jobs, _) in now.items())
        load = max(waits / by_site, 1.0) if by_site > 0.0 else 1.0
        measured = {n: load * max(wait, LEAST_TARGET) for n, wait in self._site_waits.items()}
        return measured | dict(self.wait_targets)

    def _late_groups(self) -> set[str]:
        """Groups that wait longer than their targets."""
        waits = self._group_waits()
        late = {name: LATE * target for name, target in self._targets().items()}
        return {name for name, target in late.items() if waits.get(name, 0.0) > target}

    def _forget(self, today: int) -> None:
        """Drop days outside the fortnight, and those of a clock that was ahead."""
        for day in [each for each in self._days if not today - _DAYS < each <= today]:
            del self._days[day]

    def _read(self) -> None:
        if self._is_read:
            return
        self._is_read = True
        try:
            found = json.loads(read_own(self.path, owners=owner_of_folder(self.path)))
            if found["version"] != _VERSION:
                raise ValueError(f"version {found['version']}")
            for day, of_day in found["days"].items():
                self._days[int(day)] = _Day(
                    seen=_number(of_day["seen"]),
                    service=_numbers(of_day["service"]),
                    starts={
                        str(group): (_number(jobs), _number(waits))
                        for group, (jobs, waits) in of_day.get("starts", {}).items()
                    },
                    site_seen=min(_number(of_day.get("site_seen", 0.0)), _number(of_day["seen"])),
                    site_waits=_numbers(of_day.get("site_waits", {})),
                )
            lifts = found.get("lifts", {})  # an earlier release left none
            self._lifts = _bounded(lifts.get("accounts", {}))
            self._group_lifts = _bounded(lifts.get("groups", {}))
            self._site_waits = _numbers(found.get("site_waits", {}))
            self._overruns = Overruns.of_document(found.get("overruns", {}))
        except FileNotFoundError:
            pass
        except UNREADABLE as error:
            logger.warning("service=unreadable path=%s error=%s", self.path, error)
            for each in (self._days, self._lifts, self._group_lifts, self._site_waits):
                each.clear()


def service_path(state_path: Path) -> Path:
    """Where service is kept: next to the state file."""
    return state_path.with_name(state_path.name + ".service")


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
    """Processor-seconds of a job of each account as asked for, [accounts]; 0 where it has none.

    The mean in which each job counts by its work. A number of such jobs that comes by chance
    (Poisson's) makes the variance of their service its mean times this.
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
    """Values of jobs summed up by account, shape [accounts]; of no account they do not count."""
    known = jobs.account >= 0
    count = len(snapshot.accounts)
    return np.bincount(jobs.account[known], values[known], minlength=count).astype(np.float64)


def _bounded(found: Mapping[str, Any]) -> dict[str, float]:
    return {name: min(lift, MOST) for name, lift in _numbers(found).items()}


def _numbers(found: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): _number(value) for name, value in found.items()}


def _number(found: object) -> float:
    number = float(str(found))
    if not 0.0 <= number < math.inf:
        raise ValueError(f"{number} is no service")
    return number
