"""How many processors batch queues may use together: `max_run_res.ncpus` of each of them.

PBS limits a queue, or everybody; there is no limit over some of the queues. So each batch queue
gets a part: what its jobs run on, and of the rest as much as it has of the jobs that wait.
Only the entry `o:PBS_ALL` is touched; what a site limits for users, groups and projects stays.
PBS looks at its queue when a job comes or ends, but not when a limit rises (seen on 23.06): then
scheduling, where it is on, is set on once more, which starts a look.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.kept_record import UNREADABLE, KeptRecord
from slurm_rl_plugin.batch_systems.kind import LimitKeys
from slurm_rl_plugin.batch_systems.pbs.answers.fields import parse_count, text
from slurm_rl_plugin.batch_systems.pbs.answers.nodes import QSTAT_QUEUES
from slurm_rl_plugin.batch_systems.pbs.lever.look import look_now
from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands, failure, section
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, ChangeRejected

MAX_RUN_RES = "max_run_res"
LIMIT = f"{MAX_RUN_RES}.ncpus"
_VERSION = 1
_ALL = re.compile(r"\[o:PBS_ALL=(\d+)\]")


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """What a queue's limit was before us, and every value that we may have put in its place.

    Several: a write that no look has confirmed may have been lost.
    """

    own: int | None
    ours: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class QueueUse:
    """A queue as `qstat -Q` tells it: processors in use, jobs that wait."""

    in_use: int
    waiting: int


class PbsBatchLimit:
    """Limits the batch queues, and gives the site's own limits back.

    Args:
        commands: of PBS.
        limit: names the queues that are batch; may be none.
        path: file that keeps the site's own limits while ours stand; None keeps none.
    """

    def __init__(self, commands: PbsCommands, limit: LimitKeys, path: Path | None) -> None:
        self._commands = commands
        self._queues = limit.queues if limit.mechanism == MAX_RUN_RES else ()
        self._path = path
        #: Queues that may be ours to limit, also while the mechanism is off.
        self._configured = frozenset(limit.queues) if limit.is_known else None
        self._known: dict[str, QueueLimit] = {}

    def go_on_from(self, earlier: PbsBatchLimit) -> None:
        """What was ours to limit before a reload is ours to give back after it."""
        if self._configured is not None and earlier._configured is not None:
            self._configured |= earlier._configured

    def set(self, processors: int | None) -> None:
        """Limit the batch queues to so many processors in all, or give the site's own limits back.

        Each queue gets a part by what runs and waits in it. None gives back; a queue that is batch
        no longer gets its own limit back too.

        Raises:
            BatchSystemUnavailable: no answer in time; the limit may be either.
            BatchSystemError: an answer that cannot be understood.
            ChangeRejected: it cannot be set, or the record of the site's own cannot be trusted.
        """
        self._known = self._read_record()
        self._refuse_strangers()
        if processors is not None and not self._queues:
            raise ChangeRejected("no batch queue is named whose processors could be limited")
        wanted = {} if processors is None else self._parts(processors)
        rose, refused = self._give_back_all([name for name in self._known if name not in wanted])
        rose += [self._limit(queue, part) for queue, part in wanted.items()]
        if any(rose):
            look_now(self._commands, "batch_limit=raised")
        if refused is not None:
            raise refused

    def _refuse_strangers(self) -> None:
        """Refuse a file that names other queues: who writes it must not choose what PBS is told."""
        strange = [] if self._configured is None else sorted(set(self._known) - self._configured)
        if strange:
            what = ", ".join(strange)
            raise ChangeRejected(
                f"{self._path} names queue {what}, which [reserve] queues does not name, so "
                f"nothing was changed: if the daemon limited {what}, name it there (mechanism may "
                "stay off) and run `slurm-rl release`, else remove the file"
            )

    def _parts(self, processors: int) -> dict[str, int]:
        if len(self._queues) == 1:
            return {self._queues[0]: processors}
        told = section(self._commands.read_json([*QSTAT_QUEUES, *self._queues]), "Queue")
        return parts_of(processors, {name: queue_use(told.get(name, {})) for name in self._queues})

    def _limit(self, queue: str, part: int) -> bool:
        """Write the limit where it differs, never above the site's own; whether it rose."""
        now = self._read_limit(queue)
        known = self._known.get(queue)
        own = known.own if known is not None and now in known.ours else now
        wanted = part if own is None else min(part, own)
        if now == wanted:
            return False
        ours = frozenset({wanted}) | ({now} if now is not None and now != own else frozenset())
        self._record(queue, QueueLimit(own=own, ours=ours))
        self._write(f"set queue {queue} {LIMIT} += [o:PBS_ALL={wanted}]", queue, wanted)
        return now is not None and now < wanted

    def _give_back_all(self, queues: Sequence[str]) -> tuple[list[bool], ChangeRejected | None]:
        """Whether limits rose, and the first refusal: a queue that refuses holds up no other."""
        rose: list[bool] = []
        refused: ChangeRejected | None = None
        for queue in queues:
            try:
                rose.append(self._give_back(queue))
            except ChangeRejected as error:
                refused = refused or error
        return rose, refused

    def _give_back(self, queue: str) -> bool:
        """Bring the site's own limit back where ours stands; whether the queue's limit rose."""
        known = self._known[queue]
        try:
            now = self._read_limit(queue)
        except ChangeRejected:  # the queue is gone, and its limit with it
            now = None
        if now is not None and now in known.ours:
            change = f"-= [o:PBS_ALL={now}]" if known.own is None else f"+= [o:PBS_ALL={known.own}]"
            self._write(f"set queue {queue} {LIMIT} {change}", queue, known.own)
        self._record(queue, None)
        return now is not None

    def _read_limit(self, queue: str) -> int | None:
        answer = self._commands.call(["qmgr", "-c", f"list queue {queue} max_run_res"])
        words = answer.errors or answer.output
        if answer.status and "nknown queue" in words:
            raise ChangeRejected(f"PBS has no queue {queue!r} to limit: name its batch queues")
        if answer.status:
            raise failure("qmgr", words)
        return limit_of(answer.output)

    def _write(self, command: str, queue: str, wanted: int | None) -> None:
        answer = self._commands.call(["qmgr", "-c", command])
        if answer.status:
            raise _refusal(failure("qmgr", answer.errors), queue)
        if (now := self._read_limit(queue)) != wanted:
            raise ChangeRejected(
                f"the limit {LIMIT} of queue {queue} is {now} where {wanted} was set: see who else "
                "changes it"
            )

    def _read_record(self) -> dict[str, QueueLimit]:
        if self._path is None:
            return self._known
        try:
            return KeptRecord(self._path).read(_parse_record)
        except FileNotFoundError:
            return {}
        except UNREADABLE as error:
            raise ChangeRejected(
                f"the record of the site's own limits, {self._path}, cannot be read ({error}): see "
                f"`qmgr -c 'list queue @default {LIMIT}'`, mend the limits, then remove the file"
            ) from None

    def _record(self, queue: str, limit: QueueLimit | None) -> None:
        """Keep on disk, before the limit is written, what it was."""
        if limit is None:
            self._known.pop(queue, None)
        else:
            self._known[queue] = limit
        if self._path is None:
            return
        try:
            if self._known:
                KeptRecord(self._path).write(_record_of(self._known))
            else:
                KeptRecord(self._path).remove()
        except OSError as error:
            raise ChangeRejected(
                f"{self._path} cannot be written ({error.strerror}): make its folder writable for "
                "this user; without it the site's own limits could not be given back"
            ) from None


def limit_of(words: str) -> int | None:
    """The limit over all jobs of one queue, in the words of qmgr; None where there is none."""
    for line in words.splitlines():
        name, sign, value = line.strip().partition("=")
        if sign and name.rstrip(" +") == LIMIT and (found := _ALL.search(value)):
            return int(found[1])
    return None


def queue_use(values: Mapping[str, Any]) -> QueueUse:
    """What a queue has in use, and how many of its jobs wait."""
    assigned = values.get("resources_assigned")
    in_use = parse_count(assigned.get("ncpus")) if isinstance(assigned, dict) else 0
    counts = dict(word.partition(":")[::2] for word in text(values.get("state_count")).split())
    return QueueUse(in_use, parse_count(counts.get("Queued")))


def parts_of(processors: int, queues: Mapping[str, QueueUse]) -> dict[str, int]:
    """Split processors between queues: never more together, none that somebody needs left over.

    What runs is kept first; where that is too much already, each queue is cut in proportion. But
    one processor at least is for each queue where jobs wait, or a busy queue that takes whatever
    becomes free would starve the others; the largest part gives it.
    """
    in_use = sum(use.in_use for use in queues.values())
    if in_use > processors:
        shares, given, rest = {n: u.in_use for n, u in queues.items()}, dict.fromkeys(queues, 0), 0
        rest = processors
    else:
        shares = {name: use.waiting for name, use in queues.items()}
        given = {name: use.in_use for name, use in queues.items()}
        rest = processors - in_use
    if not any(shares.values()):
        shares = dict.fromkeys(queues, 1)
    total = sum(shares.values())
    parts = {name: given[name] + rest * shares[name] // total for name in queues}
    first = max(queues, key=lambda name: shares[name])
    parts[first] += processors - sum(parts.values())
    for name, use in queues.items():
        largest = max(parts, key=lambda each: parts[each])
        if use.waiting and not parts[name] and parts[largest] > 1:
            parts[name], parts[largest] = 1, parts[largest] - 1
    return parts


def _refusal(error: BatchSystemError, queue: str) -> BatchSystemError:
    if isinstance(error, BatchSystemUnavailable):
        return error
    return ChangeRejected(
        f"PBS does not let us set {LIMIT} of queue {queue} ({error}): make the user of this "
        "daemon an operator, and let the queue have no limits of the old style (max_user_res, ...)"
    )


def _parse_record(document: Any) -> dict[str, QueueLimit]:
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']}")
    return {
        str(queue): QueueLimit(
            own=None if each["own"] is None else int(each["own"]),
            ours=frozenset(int(value) for value in each["ours"]),
        )
        for queue, each in document["queues"].items()
    }


def _record_of(known: Mapping[str, QueueLimit]) -> dict[str, Any]:
    queues = {queue: {"own": at.own, "ours": sorted(at.ours)} for queue, at in known.items()}
    return {"version": _VERSION, "queues": queues}
