"""The audit log: a JSON line for each cycle with its order, one for each write; and its reader.

Weeks of it are summed up in memory that does not grow with the log.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.batch_systems.port import FactorChange
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan
from slurm_rl_plugin.hook.rails.reserve import STARVING, processors_of
from slurm_rl_plugin.units import BoolArray, IntArray
from slurm_rl_plugin.whole_file import PRIVATE, append_whole, plain_file, unwritable


@dataclass(frozen=True, slots=True)
class AuditLog:
    """Appends to a JSONL file; opened for each cycle, so that logrotate may move it."""

    path: Path | None  #: None keeps no audit
    order_limit: int = 1000  #: jobs of the decided order in a cycle line, at most

    def record(
        self,
        report: CycleReport,
        plan: QueuePlan,
        changes: Sequence[FactorChange],
        *,
        guard_rails: Sequence[str] = (),
        failed: Sequence[str] = (),
        new_jobs: bool = False,
    ) -> None:
        """Append a line for the cycle, each changed request, each write and a changed limit.

        The `changes` are about to be written, or would be in active mode; `failed` are the failed
        cycles since the last line. A cycle of `new_jobs` only has no line of its own.
        ConfigurationError if the file cannot be written: nothing may be changed unaudited.
        """
        if self.path is None:
            return
        pending, event = plan.snapshot.pending, "write"
        if report.mode == "shadow":
            event = "would_write"
        order = np.asarray(plan.order, dtype=np.int64)
        order = order[np.argsort(-pending.each_tier[order], kind="stable")]  # as jobs are tried
        job_ids = pending.jobs.job_id[order].tolist()
        shared = {
            "time": plan.snapshot.now,
            "mode": report.mode,
            "policy": report.policy,
            "model": report.model_sha256,
            "reason": report.fallback_reason or "policy",
        }
        lines = list[dict[str, Any]]()
        if not new_jobs:
            rails = {"guard_rails": list(guard_rails), "failed": list(failed)}
            first = _first(plan, order, self.order_limit)
            lines.append({"event": "cycle", **shared, "jobs": len(job_ids), **first, **rails})
        for each in plan.requests.changes[: self.order_limit]:
            values = {"job": each.job_id, "old": each.old, "new": each.new}
            lines.append({"event": "request", **shared, "reason": each.part, **values})
        place = {job: index for index, job in enumerate(job_ids)}
        for change in changes:
            rank = place.get(change.job_id)  # None for a job that is exempt from now on
            values = {"job": change.job_id, "old": change.old, "new": change.new, "rank": rank}
            score = None if rank is None else float(plan.decision.scores[order[rank]])
            lines.append({"event": event, **shared, **values, "score": score})
        limit = plan.limit
        if not new_jobs and limit.change is not None:
            # the cycle's own reason is the policy's; here it is the limit's
            words = {**shared, "reason": limit.reason, "change": limit.change}
            old, new = processors_of(limit.before), limit.processors
            limits = {"old": old, "new": new, "resources": limit.others}
            lines.append({"event": event.replace("write", "limit"), **words, **limits})
        self._append("".join(json.dumps(line) + "\n" for line in lines))

    def record_turn(self, time: float, mode: str, policy: str, reason: str) -> None:
        """Append whose turn it is in an experiment, or why the site has the queue."""
        if self.path is None:
            return
        line = {"event": "experiment", "time": time, "mode": mode, "policy": policy, "model": ""}
        self._append(json.dumps({**line, "reason": reason}) + "\n")

    def _append(self, text: str) -> None:
        assert self.path is not None
        try:
            with open(self.path, "a+b", buffering=0, opener=_opened) as file:
                append_whole(file, text.encode())
        except OSError as error:
            raise unwritable("audit log", self.path, error) from None


def _first(plan: QueuePlan, order: IntArray, count: int) -> dict[str, Any]:
    """The first jobs of the order, and what the site itself makes of them.

    `site_rank` counts from 0 among all orderable jobs, as the place in `order` does;
    `interactive` holds places in `order`; `account` one index into `accounts` a job.
    """
    pending = plan.snapshot.pending
    jobs, tier = pending.jobs, pending.each_tier
    site = np.lexsort((jobs.job_id[order], -pending.native_priority[order], -tier[order]))
    rank = np.empty(len(site), dtype=np.int64)
    rank[site] = np.arange(len(site))
    first = order[:count]
    used, account = np.unique(jobs.account[first], return_inverse=True)
    return {
        "order": jobs.job_id[first].tolist(),
        "site_rank": rank[:count].tolist(),
        "interactive": np.flatnonzero(jobs.interactive[first]).tolist(),
        "account": account.tolist(),
        "accounts": [plan.snapshot.accounts[index] for index in used],
    }


def _opened(path: str, flags: int) -> int:
    """A new file is private, since it names jobs and accounts; an existing one keeps its mode.

    A link, such as /dev/stdout, is followed only in a folder of this user or of root.
    """
    follows = Path(path).parent.stat().st_uid in {0, os.geteuid()}
    return os.open(path, flags | (0 if follows else os.O_NOFOLLOW), PRIVATE)


#: Values of `event`.
EVENTS = ("cycle", "write", "would_write", "limit", "would_limit", "request", "experiment")
#: Events that are not of a single job.
WITHOUT_JOB = ("cycle", "limit", "would_limit", "experiment")
#: Key of a limit's line: amounts of resources other than processors, by name.
AMOUNTS = "resources"
#: The daemon writes no longer line; a cycle line names at most 1000 jobs.
LONGEST_LINE = 1_000_000
#: Largest number of a line, up to which jobs of OpenPBS go.
_LARGEST = 2**63 - 1
#: Lines between two calls of `progress`.
_REPORT_EACH = 200
#: logrotate's endings: a number, the higher the older, or a date.
_ROTATED = re.compile(r"(?:\.(?P<number>\d{1,6})|-(?P<date>\d{8}(?:-?\d+)?))(?:\.gz)?")

AuditLine = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which lines of the audit log are wanted, by job, time and event."""

    #: One of them must be in a line of a write; empty for every line.
    jobs: frozenset[int] = frozenset()
    events: frozenset[str] = frozenset()  #: some of EVENTS; empty for all
    since: float = -math.inf  #: seconds since the epoch, included
    until: float = math.inf  #: the same

    def takes(self, line: Mapping[str, Any]) -> bool:
        """Whether a line is asked for."""
        if not self.since <= line["time"] <= self.until:
            return False
        if self.events and line["event"] not in self.events:
            return False
        return not self.jobs or line.get("job") in self.jobs


@dataclass(slots=True)
class AuditReader:
    """The lines of some files, oldest first; keeps no line in memory."""

    paths: Sequence[Path]  #: in the order in which they were written
    bad: int = 0  #: lines so far that are not of an audit log
    progress: Callable[[int], None] | None = None  #: given the bytes read since the last call
    unread: list[str] = field(default_factory=list)  #: about files not read to their end

    def lines(self, wanted: AuditFilter) -> Iterator[AuditLine]:
        """Lines that pass the filter, from all files in the order in which they were written."""
        for path in self.paths:
            try:
                with plain_file(path, follow=_may_follow()) as stored:
                    yield from self._lines_of(stored, wanted)
            except (OSError, EOFError, zlib.error) as error:  # a broken .gz says one of these
                what = getattr(error, "strerror", None) or error
                self.unread.append(f"{path} cannot be read to its end ({what}).")

    def _lines_of(self, stored: io.BufferedReader, wanted: AuditFilter) -> Iterator[AuditLine]:
        read = 0
        for number, raw in enumerate(_bounded_lines(_plain(stored))):
            if number % _REPORT_EACH == 0:
                read, before = stored.tell(), read
                self._report(read - before)
            line = _parsed(raw)
            if line is None:
                self.bad += 1
            elif wanted.takes(line):
                yield line
        self._report(stored.tell() - read)

    def _report(self, more: int) -> None:
        if self.progress is not None:
            self.progress(more)


def audit_files(path: Path) -> list[Path]:
    """The audit log and its rotated files, oldest first; ConfigurationError if there is none."""
    try:
        beside = [each for each in path.parent.iterdir() if each.name.startswith(path.name)]
    except OSError as error:
        raise ConfigurationError(
            f"audit log {path} cannot be read ({error.strerror}): give its path in [hook] "
            "audit_file, or run this as the daemon's user."
        ) from None
    aged = [(age, each) for each in beside if (age := _age(each.name[len(path.name) :]))]
    files = [each for _, each in sorted(aged)]
    if not files:
        raise ConfigurationError(
            f"audit log {path} does not exist: the daemon writes it from its first cycle on."
        )
    return files


def _may_follow() -> bool:
    """Whether to follow a link: root does not, since the daemon's account owns the folder."""
    return os.geteuid() != 0


def tail_of(path: Path, size: int) -> list[AuditLine]:
    """The lines in the last `size` bytes of an audit log that still grows; [] without one."""
    try:
        with plain_file(path, follow=_may_follow()) as file:
            behind = max(file.seek(0, 2) - size, 0)
            file.seek(behind)
            raw = file.read(size).splitlines()
    except OSError:
        return []
    parsed = (_parsed(each) for each in raw[bool(behind) :])  # the first one may be half a line
    return [line for line in parsed if line is not None]


def _age(ending: str) -> tuple[int, int, str] | None:
    """Sorts the oldest first; None for a file that is no part of the log."""
    if not ending:
        return 1, 0, ""
    found = _ROTATED.fullmatch(ending)
    if found is None:
        return None
    return 0, -int(found["number"] or 0), found["date"] or ""


def _plain(stored: io.BufferedReader) -> io.BufferedIOBase:
    """The content; the first bytes say whether it is compressed, because a name can be wrong."""
    compressed = stored.peek(2)[:2] == b"\x1f\x8b"
    return gzip.GzipFile(fileobj=stored) if compressed else stored


def _bounded_lines(file: io.BufferedIOBase) -> Iterator[bytes]:
    """The lines; only the beginning of one that is too long, so that memory is bounded."""
    while raw := file.readline(LONGEST_LINE):
        begin = raw
        while len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
            raw = file.readline(LONGEST_LINE)
        if begin.strip():
            yield begin


def _parsed(raw: bytes) -> AuditLine | None:
    """A line of an audit log; None for anything else."""
    try:
        line = json.loads(raw)
        time = float(line["time"])
        event, job = line["event"], line.get("job")
        amounts = line.get(AMOUNTS, {})
        flat = all(_is_flat(value) for name, value in line.items() if name != AMOUNTS)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    known = event in EVENTS and (event in WITHOUT_JOB or isinstance(job, int))
    known = known and flat and _are_amounts(amounts) and not isinstance(line["time"], str)
    return line if known and math.isfinite(time) else None


def _are_amounts(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return all(isinstance(each, int | float) for each in value.values())


def _is_flat(value: Any) -> bool:
    """Whether it is a word, a list of words or numbers, or a number of at most 64 bits."""
    if isinstance(value, list):
        return not any(isinstance(each, list | dict) for each in value)
    if isinstance(value, int):
        return -_LARGEST <= value <= _LARGEST
    return not isinstance(value, dict)


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
            is_counted = name in self.by_account or len(self.by_account) < MOST_NAMES
            own = self.by_account.setdefault(name if is_counted else REST, RankMoves())
            own.add(moves[account == index])
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
