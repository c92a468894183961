"""What an audit log tells of weeks in shadow, in memory that does not grow with the log."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.hook.audit.rank_moves import RankMoves, kendall_tau
from slurm_rl_plugin.hook.rails.reserve import STARVING
from slurm_rl_plugin.units import IntArray

#: Highest number of a Slurm job; the bits above it name the cluster of a federation.
HIGHEST_JOB = 0x03FF_FFFF
#: Ones in each byte.
_ONES = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)
#: Accounts, reasons and other names told apart; the rest is one more.
MOST_NAMES = 500
REST = "(others)"
LIMIT_EVENTS = ("limit", "would_limit")
#: Seconds between two cycles beyond which nobody knows what stood in between.
LONGEST_GAP = 900.0


@dataclass(slots=True)
class JobsSeen:
    """Which job numbers were met: a bit for each, so 8 MB at most."""

    _bits: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(1 << 13, dtype=np.uint8))

    def add(self, jobs: IntArray) -> None:
        """Count these job numbers, shape [n]; one that was counted before counts no more."""
        if not len(jobs):
            return
        known = np.unique(jobs & HIGHEST_JOB)
        needed = int(known[-1] >> 3) + 1
        if needed > len(self._bits):
            self._bits = np.append(self._bits, np.zeros(needed, dtype=np.uint8))
        np.bitwise_or.at(self._bits, known >> 3, (1 << (known & 7)).astype(np.uint8))

    @property
    def count(self) -> int:
        """How many different jobs were added."""
        return int(_ONES[self._bits].sum(dtype=np.int64))


@dataclass(slots=True)
class LimitsSeen:
    """Fed with the limit lines of an audit log, oldest first, and with the time of each cycle."""

    _changes: Counter[str] = field(default_factory=Counter)
    _lifted_for_wide_jobs: int = 0
    _lowest: float = math.inf
    _limited: float = 0.0
    _stands: bool = False
    _since: float = math.nan

    def add(self, line: Mapping[str, Any]) -> None:
        """Take one line of a limit that changed, or would have."""
        self._changes[str(line.get("change"))] += 1
        self._lifted_for_wide_jobs += line.get("reason") == STARVING
        new = line.get("new")
        self._stands = isinstance(new, int)
        if isinstance(new, int):
            self._lowest = min(self._lowest, new)

    def pass_time(self, now: float, longest: float) -> None:
        """A cycle was run; a gap of more than `longest` seconds, a stop perhaps, is not counted."""
        gap = now - self._since
        if self._stands and 0.0 < gap <= longest:
            self._limited += gap
        self._since = now

    def document(self) -> dict[str, Any]:
        """Numbers of changes, seconds below a limit, processors of the lowest."""
        return {
            "changes": dict(self._changes),
            "lifted_for_wide_jobs": self._lifted_for_wide_jobs,
            "limited_seconds": self._limited,
            "lowest_limit": None if math.isinf(self._lowest) else int(self._lowest),
        }


@dataclass(slots=True)
class AuditSummary:
    """Fed with the lines of an audit log, oldest first; see `document` for what it tells.

    Attributes:
        first, last: times of the first and the last line, seconds since the epoch.
    """

    first: float = math.inf
    last: float = -math.inf
    cycles: int = 0
    decided: int = 0
    without_site_order: int = 0
    longest_gap: float = 0.0
    modes: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    writes: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    guard_rails: Counter[str] = field(default_factory=Counter)
    limits: LimitsSeen = field(default_factory=LimitsSeen)
    jobs: JobsSeen = field(default_factory=JobsSeen)
    all_moves: RankMoves = field(default_factory=RankMoves)
    by_class: dict[str, RankMoves] = field(default_factory=dict)
    by_account: dict[str, RankMoves] = field(default_factory=dict)
    _tau: list[float] = field(default_factory=lambda: [0.0, 0.0])
    _last_cycle: float = math.nan
    _known: tuple[Any, float | None] = (None, None)

    def add(self, line: Mapping[str, Any]) -> None:
        """Take one line of any release; what an old one does not say is not counted."""
        time = float(line["time"])
        self.first, self.last = min(self.first, time), max(self.last, time)
        if line["event"] in LIMIT_EVENTS:
            self.limits.add(line)
            return
        if line["event"] in ("request", "experiment"):
            return
        if line["event"] != "cycle":
            self.writes[line["event"]] += 1
            self.jobs.add(np.array([line["job"]]).astype(np.int64))
            return
        self.cycles += 1
        gap = time - self._last_cycle
        self.longest_gap = max(self.longest_gap, gap) if gap > 0 else self.longest_gap
        self._last_cycle = time
        self.limits.pass_time(time, LONGEST_GAP)
        _count(self.modes, line.get("mode"))
        _count(self.models, line.get("model") or line.get("policy"))
        if line.get("reason") != "policy":
            _count(self.fallbacks, line.get("reason"))
        for name in _names(line, "failed"):
            _count(self.failures, name)
        for name in _names(line, "guard_rails"):
            _count(self.guard_rails, name)
        self._add_order(line)

    def _add_order(self, line: Mapping[str, Any]) -> None:
        order, site = _numbers(line, "order"), _numbers(line, "site_rank")
        self.jobs.add(order)
        if not len(order):
            return
        self.decided += 1
        if len(site) != len(order):
            self.without_site_order += 1
            return
        moves = site - np.arange(len(site))
        self.all_moves.add(moves)
        quick = np.zeros(len(order), dtype=np.bool_)
        places = _numbers(line, "interactive")
        quick[places[(places >= 0) & (places < len(order))]] = True
        for name, mine in (("interactive", quick), ("batch", ~quick)):
            self.by_class.setdefault(name, RankMoves()).add(moves[mine])
        account, names = _numbers(line, "account"), _names(line, "accounts")
        for index, name in enumerate(names if len(account) == len(order) else ()):
            _of(self.by_account, name).add(moves[account == index])
        self._add_tau(site)

    def _add_tau(self, site: IntArray) -> None:
        key = site.tobytes()
        if key != self._known[0]:  # from one cycle to the next mostly nothing changes
            self._known = (key, kendall_tau(site))
        if self._known[1] is not None:
            self._tau[0] += self._known[1]
            self._tau[1] += 1

    def document(self, further_than: int) -> dict[str, Any]:
        """The shadow part of the report.

        Args:
            further_than: ranks that a job must move to count as moved, at most 100.
        """
        ranked = {name: self.by_account[name] for name in sorted(self.by_account)}
        return {
            "first": self.first if self.cycles else None,
            "last": self.last if self.cycles else None,
            "cycles": self.cycles,
            "cycles_with_jobs": self.decided,
            "cycles_without_site_order": self.without_site_order,
            "longest_gap_seconds": self.longest_gap,
            "modes": dict(self.modes),
            "models": dict(self.models),
            "jobs_seen": self.jobs.count,
            "would_be_writes": self.writes["would_write"],
            "writes": self.writes["write"],
            "fallbacks": dict(self.fallbacks.most_common()),
            "failures": dict(self.failures.most_common()),
            "guard_rails": dict(self.guard_rails.most_common()),
            "batch_limit": self.limits.document(),
            "kendall_tau": self._tau[0] / self._tau[1] if self._tau[1] else None,
            "moved_further_than": further_than,
            "moves": _moves(self.all_moves, further_than),
            "classes": {name: _moves(each, further_than) for name, each in self.by_class.items()},
            "accounts": {name: _moves(each, further_than) for name, each in ranked.items()},
        }


def _moves(moves: RankMoves, further_than: int) -> dict[str, Any]:
    earlier, later = moves.shares(further_than)
    return {
        "job_cycles": moves.count,
        "earlier": earlier,
        "later": later,
        "median_move": moves.median(),
    }


def _count(counter: Counter[str], name: Any) -> None:
    text = str(name)
    counter[text if text in counter or len(counter) < MOST_NAMES else REST] += 1


def _of(known: dict[str, RankMoves], name: str) -> RankMoves:
    return known.setdefault(name if name in known or len(known) < MOST_NAMES else REST, RankMoves())


def _numbers(line: Mapping[str, Any], key: str) -> IntArray:
    """A list of whole numbers; empty where the line has none, or something else."""
    values = line.get(key)
    whole = isinstance(values, list) and all(type(each) is int for each in values)
    try:
        return np.array(values if whole else [], dtype=np.int64)
    except OverflowError:
        return np.array([], dtype=np.int64)


def _names(line: Mapping[str, Any], key: str) -> list[str]:
    values = line.get(key)
    return [str(each) for each in values] if isinstance(values, list) else []
