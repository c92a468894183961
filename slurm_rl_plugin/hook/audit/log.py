"""The audit log: a JSON line for each cycle with its order, one for each write; and its reader."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.batch_systems.port import FactorChange
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan
from slurm_rl_plugin.hook.rails.reserve import processors_of
from slurm_rl_plugin.units import IntArray
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
    """Whether the value is a limit line's amounts of resources other than processors."""
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
