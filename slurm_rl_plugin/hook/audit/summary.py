"""Sums up weeks of an audit log, in memory that does not grow with the log."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slurm_rl_plugin.hook.rails.reserve import STARVING
from slurm_rl_plugin.units import BoolArray, IntArray

#: Highest number of a Slurm job; the bits above it name the cluster of a federation.
HIGHEST_JOB = 0x03FF_FFFF
#: Accounts, reasons and other names that are counted separately; all others count as one.
MOST_NAMES = 500
REST = "(others)"
LIMIT_EVENTS = ("limit", "would_limit")
#: Seconds between two cycles beyond which the state in between is unknown.
LONGEST_GAP = 900.0
#: Moves up to this number of ranks are counted exactly, longer ones in steps of 10 %.
_EXACT = 100
_STEPS = _EXACT * 1.1 ** np.arange(1, 120)
#: Upper edges of the bins of a move's length; what is longer counts as the last.
_EDGES = np.unique(np.concatenate([np.arange(_EXACT + 1), _STEPS.astype(np.int64)]))
#: Ranks that each bin of moves counts, backward ones below 0.
_RANKS = np.concatenate([-_EDGES[:0:-1], _EDGES])


def kendall_tau(site_rank: IntArray) -> float | None:
    """Kendall's tau of our order and the site's different ranks of its jobs, shape [n]."""
    count = len(site_rank)
    if count < 2:
        return None
    return 1.0 - 4.0 * inversions(site_rank) / (count * (count - 1))


def inversions(values: IntArray) -> int:
    """Number of pairs of different values in the wrong order, bit by bit of their ranks."""
    rank = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    found = 0
    for bit in range(max(len(rank) - 1, 1).bit_length()):
        # pairs equal above the bit differ in it for the first time: a 1 before a 0 is inverted
        order = np.argsort(rank >> (bit + 1), kind="stable")
        group, one = rank[order] >> (bit + 1), (rank[order] >> bit) & 1
        ones = np.cumsum(one)
        begins = np.flatnonzero(np.diff(group, prepend=-1))
        before = np.repeat((ones - one)[begins], np.diff(np.append(begins, len(group))))
        found += int(((ones - before) * (1 - one)).sum())
    return found


@dataclass(slots=True)
class RankMoves:
    """Ranks that jobs would move, forward counted positive; each job once in every cycle."""

    #: Moves of each of _RANKS.
    counts: IntArray = field(default_factory=lambda: np.zeros(len(_RANKS), dtype=np.int64))

    def add(self, moves: IntArray) -> None:
        """Count the moves of one cycle."""
        length = np.minimum(np.searchsorted(_EDGES, np.abs(moves)), len(_EDGES) - 1)
        place = np.sign(moves) * length + len(_EDGES) - 1
        self.counts += np.bincount(place, minlength=len(_RANKS))

    @property
    def count(self) -> int:
        """Moves counted, those of 0 ranks too."""
        return int(self.counts.sum())

    def shares(self, further_than: int) -> tuple[float | None, float | None]:
        """Parts that move over `further_than` <= 100 ranks earlier, and later; None for no job."""
        if not self.count:
            return None, None
        earlier = self.counts[further_than < _RANKS].sum()
        later = self.counts[-further_than > _RANKS].sum()
        return float(earlier / self.count), float(later / self.count)

    def median(self) -> float | None:
        """Median move; exact up to 100 ranks, and within 10 % beyond; None without any."""
        if not self.count:
            return None
        place = int(np.searchsorted(np.cumsum(self.counts), (self.count + 1) // 2))
        return float(_RANKS[place])

    def document(self, further_than: int) -> dict[str, Any]:
        """Its figures, as a part of the report."""
        earlier, later = self.shares(further_than)
        return {
            "job_cycles": self.count,
            "earlier": earlier,
            "later": later,
            "median_move": self.median(),
        }


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
        """A cycle ran; a gap of more than `longest` seconds, such as a stop, is not counted."""
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
    """Takes the lines of an audit log, oldest first; `document` gives the summary."""

    first: float = math.inf  #: time of the first line, seconds since the epoch
    last: float = -math.inf  #: the same of the last line
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
    #: Whether each job number was seen; the system gives memory only where one was.
    _seen: BoolArray = field(default_factory=lambda: np.zeros(HIGHEST_JOB + 1, dtype=np.bool_))
    all_moves: RankMoves = field(default_factory=RankMoves)
    by_class: dict[str, RankMoves] = field(default_factory=dict)
    by_account: dict[str, RankMoves] = field(default_factory=dict)
    _tau: list[float] = field(default_factory=lambda: [0.0, 0.0])
    _last_cycle: float = math.nan
    _known: tuple[Any, float | None] = (None, None)

    def add(self, line: Mapping[str, Any]) -> None:
        """Take one line of any release; fields that an old one lacks are not counted."""
        time = float(line["time"])
        self.first, self.last = min(self.first, time), max(self.last, time)
        if line["event"] in LIMIT_EVENTS:
            self.limits.add(line)
            return
        if line["event"] in ("request", "experiment"):
            return
        if line["event"] != "cycle":
            self.writes[line["event"]] += 1
            self._seen[line["job"] & HIGHEST_JOB] = True
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
        self._seen[order & HIGHEST_JOB] = True
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
        if key != self._known[0]:  # it rarely changes between two cycles
            self._known = (key, kendall_tau(site))
        if self._known[1] is not None:
            self._tau[0] += self._known[1]
            self._tau[1] += 1

    @property
    def jobs_seen(self) -> int:
        """How many different jobs an order or a write has named."""
        return int(np.count_nonzero(self._seen))

    def document(self, further_than: int) -> dict[str, Any]:
        """The shadow part of the report."""
        by_class, by_account = self.by_class.items(), sorted(self.by_account.items())
        return {
            "first": self.first if self.cycles else None,
            "last": self.last if self.cycles else None,
            "cycles": self.cycles,
            "cycles_with_jobs": self.decided,
            "cycles_without_site_order": self.without_site_order,
            "longest_gap_seconds": self.longest_gap,
            "modes": dict(self.modes),
            "models": dict(self.models),
            "jobs_seen": self.jobs_seen,
            "would_be_writes": self.writes["would_write"],
            "writes": self.writes["write"],
            "fallbacks": dict(self.fallbacks.most_common()),
            "failures": dict(self.failures.most_common()),
            "guard_rails": dict(self.guard_rails.most_common()),
            "batch_limit": self.limits.document(),
            "kendall_tau": self._tau[0] / self._tau[1] if self._tau[1] else None,
            "moved_further_than": further_than,
            "moves": self.all_moves.document(further_than),
            "classes": {name: each.document(further_than) for name, each in by_class},
            "accounts": {name: each.document(further_than) for name, each in by_account},
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
