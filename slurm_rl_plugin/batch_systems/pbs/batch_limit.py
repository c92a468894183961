"""Limits what all batch queues use, by `max_run_res.ncpus` of each, also `ngpus` and `mem`.

PBS limits one queue or the whole server, but not several queues together. So each batch queue gets
a part: what its running jobs use, and a share of the rest by its number of pending jobs. Only the
entry `o:PBS_ALL` is changed; limits of users, groups and projects stay.
PBS runs a scheduling cycle when a job comes or ends, but not when a limit rises (seen on 23.06). So
scheduling, if it is on, is set on again, which starts a cycle.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from slurm_rl_plugin.accounting.pbs.records import mebibytes
from slurm_rl_plugin.batch_systems.kept_record import KeptRecord
from slurm_rl_plugin.batch_systems.pbs.answers.fields import parse_count, resources_of, text
from slurm_rl_plugin.batch_systems.pbs.answers.server import QSTAT_SERVER, parse_server
from slurm_rl_plugin.batch_systems.pbs.process import (
    QSTAT_QUEUES,
    PbsCommands,
    failure,
    section,
    sentence,
)
from slurm_rl_plugin.batch_systems.port import LimitKeys
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.errors import (
    BatchSystemError,
    BatchSystemUnavailable,
    ChangeRejected,
    ConfigurationError,
    SlurmRLError,
)
from slurm_rl_plugin.whole_file import as_json, typed

MAX_RUN_RES = "max_run_res"
#: PBS's names of the resources that can be limited; amounts of memory are in kb, as in PBS.
NAMES = {CPUS: "ncpus", GPUS: "ngpus", MEMORY: "mem"}
KB_IN_MIB = 1024
#: Versions of the record. The first has processors alone; it is written if nothing else is limited.
_PROCESSORS, _RESOURCES = 1, 2
_ALL = "o:PBS_ALL"
_ENTRY = re.compile(r"\[(\w:[^=\]]+)=([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """A queue's own limit of a resource, and every value that we may have set in its place.

    There may be several, since a write without confirmation may have been lost.
    """

    own: int | None
    ours: tuple[int, ...]


#: A queue, and a resource of it.
Limited = tuple[str, str]


class QueueUse(NamedTuple):
    """What of a resource a queue has in use, and its number of pending jobs."""

    in_use: int
    waiting: int


def limits_in(words: str, resource: str = CPUS) -> dict[str, str]:
    """Entity -> limit of one resource in the words of qmgr, such as `o:PBS_ALL` -> `4`."""
    name = f"{MAX_RUN_RES}.{NAMES[resource]}"
    lines = (line.strip().partition("=") for line in words.splitlines())
    of_resource = (value for key, _, value in lines if key.rstrip(" +") == name)
    return dict(found for value in of_resource for found in _ENTRY.findall(value))


def limit_of(words: str, resource: str = CPUS) -> int | None:
    """The limit over all jobs of one queue, in kb of memory; None if there is none."""
    found = limits_in(words, resource).get(_ALL, "")
    if resource == MEMORY:
        return kilobytes(found) if re.match(r"\d", found) else None
    return int(found) if found.isdecimal() else None


def kilobytes(size: str) -> int:
    """A size such as 4022272kb or 3gb, rounded up; 0 for other text."""
    return math.ceil(mebibytes(size) * KB_IN_MIB)


def queue_use(values: Mapping[str, Any], resource: str = CPUS, gpus: int = 0) -> QueueUse:
    """What of a resource of NAMES a queue has in use, and its number of pending jobs.

    A queue shows GPUs only if the site made `ngpus` with flag q, but jobs can use GPUs with flag
    `nh` alone: then `gpus`, counted from the running jobs, is taken.
    """
    assigned = resources_of(values, "resources_assigned").get(NAMES[resource])
    in_use = kilobytes(text(assigned)) if resource == MEMORY else parse_count(assigned)
    if resource == GPUS and assigned is None:
        in_use = gpus
    counts = dict(word.partition(":")[::2] for word in text(values.get("state_count")).split())
    # an array is Begun and not Queued once a subjob has begun, even if others wait
    waiting = parse_count(counts.get("Queued")) + parse_count(counts.get("Begun"))
    return QueueUse(in_use, waiting)


def parts_of(processors: int, queues: Mapping[str, QueueUse]) -> dict[str, int]:
    """Split all processors between queues.

    Each queue keeps what it has in use; if that is too much in total, each is cut in proportion.
    But each queue with pending jobs gets at least one processor, from the largest part: otherwise a
    busy queue that takes all that becomes free would starve the others.
    """
    in_use = sum(use.in_use for use in queues.values())
    if in_use > processors:
        shares = {name: use.in_use for name, use in queues.items()}
        kept, rest = dict.fromkeys(queues, 0), processors
    else:
        shares = {name: use.waiting for name, use in queues.items()}
        kept, rest = {name: use.in_use for name, use in queues.items()}, processors - in_use
    if not any(shares.values()):
        shares = dict.fromkeys(queues, 1)
    total = sum(shares.values())
    parts = {name: kept[name] + rest * shares[name] // total for name in queues}
    first = max(queues, key=lambda name: shares[name])
    parts[first] += processors - sum(parts.values())
    for name, use in queues.items():
        largest = max(parts, key=lambda each: parts[each])
        if use.waiting and not parts[name] and parts[largest] > 1:
            parts[name], parts[largest] = 1, parts[largest] - 1
    return parts


def parse_record(document: Any) -> dict[Limited, QueueLimit]:
    """The limits in the record; one of UNREADABLE for another document."""
    version, queues = document["version"], document["queues"]
    if version == _PROCESSORS:
        queues = {queue: {CPUS: each} for queue, each in queues.items()}
    elif version != _RESOURCES:
        raise ValueError(f"version {version}")
    found: dict[str, dict[str, QueueLimit]] = typed(dict[str, dict[str, QueueLimit]], queues)
    limits = {(queue, name): at for queue, each in found.items() for name, at in each.items()}
    if odd := {name for _, name in limits} - NAMES.keys():
        raise ValueError(f"resources {odd}")
    return limits


def record_of(known: Mapping[Limited, QueueLimit]) -> dict[str, Any]:
    """The record of these limits."""
    by_queue: dict[str, dict[str, Any]] = {}
    for (queue, resource), at in known.items():
        by_queue.setdefault(queue, {})[resource] = as_json(at)
    if all(resource == CPUS for _, resource in known):
        queues = {queue: each[CPUS] for queue, each in by_queue.items()}
        return {"version": _PROCESSORS, "queues": queues}
    return {"version": _RESOURCES, "queues": by_queue}


logger = logging.getLogger(__name__)


class PbsBatchLimit:
    """Limits the batch queues, and restores the site's own limits."""

    def __init__(self, commands: PbsCommands, limit: LimitKeys, path: Path | None) -> None:
        self._commands = commands
        self._queues = limit.queues if limit.mechanism == MAX_RUN_RES else ()
        self._file = KeptRecord(path, f"qmgr -c 'list queue @default {MAX_RUN_RES}' shows them")
        #: Queues that we may have limited, even if the mechanism is now off.
        self._configured = frozenset(limit.queues) if limit.is_known else None
        self._known: dict[Limited, QueueLimit] = {}

    def go_on_from(self, earlier: PbsBatchLimit) -> None:
        """Restore, after a reload, also limits of queues in the earlier configuration."""
        if self._configured is not None and earlier._configured is not None:
            self._configured |= earlier._configured

    def set(self, amounts: Mapping[str, int] | None, gpus: Mapping[str, int] | None = None) -> None:
        """Limit all batch queues to these amounts, split by `parts_of`; None removes our limits.

        A queue or a resource that is no longer limited gets its own limit again.
        """
        self._known = self._file.read(parse_record) or {}
        named = {queue for queue, _ in self._known}
        if self._configured is not None and (others := sorted(named - self._configured)):
            raise self._file.of_others(f"queue {', '.join(others)}", "queues")
        if amounts is not None and not self._queues:
            raise ChangeRejected("[reserve] queues names no batch queue to limit")
        wanted = {} if amounts is None else self._parts(amounts, gpus or {})
        rose: list[bool] = []
        refused: SlurmRLError | None = None
        for limited in [each for each in self._known if each not in wanted]:
            try:
                rose.append(self._restore(limited))
            except (ChangeRejected, ConfigurationError) as error:  # go on with the other queues
                refused = refused or error
        rose += [self._limit(limited, part) for limited, part in wanted.items()]
        if any(rose):
            self._start_scheduling()
        if refused is not None:
            raise refused

    def _start_scheduling(self) -> None:
        """Start a scheduling cycle; if that fails, the next event starts one."""
        try:
            if parse_server(self._commands.read_json(QSTAT_SERVER)).scheduling:
                self._commands.read(["qmgr", "-c", "set server scheduling = True"])
        except BatchSystemError as error:
            logger.warning("batch_limit=raised look=none reason=%s", error)

    def _parts(self, amounts: Mapping[str, int], gpus: Mapping[str, int]) -> dict[Limited, int]:
        queues: Mapping[str, Any] = {}
        if len(self._queues) > 1:
            # ask for all queues: of several named ones JSON holds only the first (23.06)
            queues = section(self._commands.read_json(QSTAT_QUEUES), "Queue")
        parts: dict[Limited, int] = {}
        for resource, amount in amounts.items():
            whole = amount * KB_IN_MIB if resource == MEMORY else amount
            uses = {
                name: queue_use(queues.get(name, {}), resource, gpus.get(name, 0))
                for name in self._queues
            }
            for queue, part in parts_of(whole, uses).items():
                parts[queue, resource] = part
        return parts

    def _limit(self, limited: Limited, part: int) -> bool:
        """Write a different limit, never above the site's own; returns whether it rose."""
        now = self._read_limit(limited)
        known = self._known.get(limited)
        own = known.own if known is not None and now in known.ours else now
        wanted = part if own is None else min(part, own)
        if now == wanted:
            return False
        ours = tuple({wanted} | ({now} if now is not None and now != own else set()))
        self._record(limited, QueueLimit(own=own, ours=ours))
        self._write(limited, wanted, now)
        return now is not None and now < wanted

    def _restore(self, limited: Limited) -> bool:
        """Replace our limit by the site's own; returns whether the queue's limit rose."""
        known = self._known[limited]
        try:
            now = self._read_limit(limited)
        except ChangeRejected:  # the queue is gone, and its limit with it
            now = None
        if now is not None and now in known.ours:
            self._write(limited, known.own, now)
        self._record(limited, None)
        return now is not None

    def _read_limit(self, limited: Limited) -> int | None:
        queue, resource = limited
        return limit_of(self._limits_of(queue), resource)

    def _limits_of(self, queue: str) -> str:
        answer = self._commands.call(["qmgr", "-c", f"list queue {queue} max_run_res"])
        words = answer.errors or answer.output
        if answer.status and "nknown queue" in words:
            raise ChangeRejected(sentence("no_queue", queue=queue))
        if answer.status:
            raise failure("qmgr", words)
        return answer.output

    def _write(self, limited: Limited, wanted: int | None, now: int | None) -> None:
        """Replace the present amount by another, or by none, and read it back."""
        queue, resource = limited
        name = f"{MAX_RUN_RES}.{NAMES[resource]}"
        amount = f"{now if wanted is None else wanted}{'kb' if resource == MEMORY else ''}"
        command = f"set queue {queue} {name} {'-' if wanted is None else '+'}= [{_ALL}={amount}]"
        if wanted is None and len(limits_in(self._limits_of(queue), resource)) == 1:
            # pbs_server would restore the last limit removed by -= at its next start (23.06)
            command = f"unset queue {queue} {name}"
        answer = self._commands.call(["qmgr", "-c", command])
        if answer.status:
            error = failure("qmgr", answer.errors)
            if isinstance(error, BatchSystemUnavailable):
                raise error
            raise ChangeRejected(sentence("limit_refused", limit=name, queue=queue, error=error))
        if (now := self._read_limit(limited)) != wanted:
            words = {"limit": name, "queue": queue, "now": now, "wanted": wanted}
            raise ChangeRejected(sentence("changed_back", **words))

    def _record(self, limited: Limited, limit: QueueLimit | None) -> None:
        """Store the former limit on disk before the limit is written."""
        if limit is None:
            self._known.pop(limited, None)
        else:
            self._known[limited] = limit
        self._file.write(record_of(self._known) if self._known else None)
