"""How much batch queues may use together: `max_run_res.ncpus` of each, also `ngpus` and `mem`.

PBS limits a queue, or everybody; there is no limit over some of the queues. So each batch queue
gets a part: what its jobs run on, and of the rest as much as it has of the jobs that wait.
Only the entry `o:PBS_ALL` is touched; what a site limits for users, groups and projects stays.
PBS looks at its queue when a job comes or ends, but not when a limit rises (seen on 23.06): then
scheduling, where it is on, is set on once more, which starts a look.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.kept_record import UNREADABLE, KeptRecord
from slurm_rl_plugin.batch_systems.kind import LimitKeys
from slurm_rl_plugin.batch_systems.pbs.answers.fields import parse_count, text
from slurm_rl_plugin.batch_systems.pbs.answers.server import QSTAT_SERVER, parse_server
from slurm_rl_plugin.batch_systems.pbs.process import QSTAT_QUEUES, PbsCommands, failure, section
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, ChangeRejected

MAX_RUN_RES = "max_run_res"
#: What PBS calls the resources that can be limited; of memory amounts are kept in kb, as PBS does.
NAMES = {CPUS: "ncpus", GPUS: "ngpus", MEMORY: "mem"}
KB_IN_MIB = 1024
#: The first knows processors alone; it is still written where nothing else is limited.
_PROCESSORS, _RESOURCES = 1, 2
_ALL = re.compile(r"\[o:PBS_ALL=(\d+)([kmgt]?b?)\]", re.ASCII | re.IGNORECASE)
_ENTRY = re.compile(r"\[\w:")
_KB = {"kb": 1.0, "mb": 1024.0, "gb": 1024.0**2, "tb": 1024.0**3}


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """A queue's limit of a resource before us, and every value that we may have put in its place.

    Several: a write that no look has confirmed may have been lost.
    """

    own: int | None
    ours: frozenset[int] = frozenset()


#: A queue, and a resource of it.
Limited = tuple[str, str]


@dataclass(frozen=True, slots=True)
class QueueUse:
    """A queue as `qstat -Q` tells it: what of a resource is in use, jobs that wait."""

    in_use: int
    waiting: int


def limit_of(words: str, resource: str = CPUS) -> int | None:
    """The limit over all jobs of one queue, in kb of memory; None where there is none."""
    for line in words.splitlines():
        name, sign, value = line.strip().partition("=")
        found = _ALL.search(value)
        if not sign or found is None or name.rstrip(" +") != f"{MAX_RUN_RES}.{NAMES[resource]}":
            continue
        if resource == MEMORY:
            return kilobytes(found[1] + found[2])
        return None if found[2] else int(found[1])
    return None


def stands_alone(words: str, resource: str) -> bool:
    """Whether the limit over all jobs is the only one of this resource, in the words of qmgr."""
    name = f"{MAX_RUN_RES}.{NAMES[resource]}"
    entries = [
        entry
        for line in words.splitlines()
        if line.partition("=")[0].rstrip(" +").strip() == name
        for entry in _ENTRY.findall(line)
    ]
    return len(entries) == 1


def kilobytes(size: str) -> int:
    """A size such as 4022272kb or 3gb, rounded up; 0 where it is none."""
    found = re.fullmatch(r"(\d{1,18})([kmgt]?b?)", size, re.ASCII | re.IGNORECASE)
    return math.ceil(int(found[1]) * _KB.get(found[2].lower(), 1.0 / 1024)) if found else 0


def queue_use(values: Mapping[str, Any], resource: str = CPUS, gpus: int = 0) -> QueueUse:
    """What a queue has in use of a resource of NAMES, and how many of its jobs wait.

    A queue tells of GPUs only where the site made `ngpus` with flag q, and jobs need no more than
    `nh`: so `gpus` is counted from its running jobs.
    """
    assigned = values.get("resources_assigned")
    told = assigned.get(NAMES[resource]) if isinstance(assigned, dict) else None
    in_use = kilobytes(text(told)) if resource == MEMORY else parse_count(told)
    if resource == GPUS and told is None:
        in_use = gpus
    counts = dict(word.partition(":")[::2] for word in text(values.get("state_count")).split())
    # an array of which a subjob has begun is no longer Queued, however many of them wait
    waiting = parse_count(counts.get("Queued")) + parse_count(counts.get("Begun"))
    return QueueUse(in_use, waiting)


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


def parse_record(document: Any) -> dict[Limited, QueueLimit]:
    """The limits in the record of a file; raises what KeptRecord takes for unreadable."""
    if document["version"] not in (_PROCESSORS, _RESOURCES):
        raise ValueError(f"version {document['version']}")
    found: dict[Limited, QueueLimit] = {}
    for queue, told in document["queues"].items():
        of_each = told if document["version"] == _RESOURCES else {CPUS: told}
        for resource, each in of_each.items():
            if resource not in NAMES:
                raise ValueError(f"resource {resource}")
            found[str(queue), str(resource)] = QueueLimit(
                own=None if each["own"] is None else int(each["own"]),
                ours=frozenset(int(value) for value in each["ours"]),
            )
    return found


def record_of(known: Mapping[Limited, QueueLimit]) -> dict[str, Any]:
    """What a file is to keep of limits."""
    by_queue: dict[str, dict[str, Any]] = {}
    for (queue, resource), at in known.items():
        by_queue.setdefault(queue, {})[resource] = {"own": at.own, "ours": sorted(at.ours)}
    if all(resource == CPUS for _, resource in known):
        queues = {queue: each[CPUS] for queue, each in by_queue.items()}
        return {"version": _PROCESSORS, "queues": queues}
    return {"version": _RESOURCES, "queues": by_queue}


logger = logging.getLogger(__name__)


class PbsBatchLimit:
    """Limits the batch queues, and gives the site's own limits back."""

    def __init__(self, commands: PbsCommands, limit: LimitKeys, path: Path | None) -> None:
        self._commands = commands
        self._queues = limit.queues if limit.mechanism == MAX_RUN_RES else ()
        self._path = path
        #: Queues that may be ours to limit, also while the mechanism is off.
        self._configured = frozenset(limit.queues) if limit.is_known else None
        self._known: dict[Limited, QueueLimit] = {}

    def go_on_from(self, earlier: PbsBatchLimit) -> None:
        """What was ours to limit before a reload is ours to give back after it."""
        if self._configured is not None and earlier._configured is not None:
            self._configured |= earlier._configured

    def set(self, amounts: Mapping[str, int] | None, gpus: Mapping[str, int] | None = None) -> None:
        """Limit the batch queues to so much in all, or give the site's own limits back.

        Each queue gets a part by what runs and waits in it. None gives back; a queue that is batch
        no longer, and a resource that is limited no longer, get their own limits back too.
        """
        self._known = self._read_record()
        self._refuse_strangers()
        if amounts is not None and not self._queues:
            raise ChangeRejected("no batch queue is named whose processors could be limited")
        wanted = {} if amounts is None else self._parts(amounts, gpus or {})
        rose, refused = self._give_back_all([each for each in self._known if each not in wanted])
        rose += [self._limit(limited, part) for limited, part in wanted.items()]
        if any(rose):
            self._look_now()
        if refused is not None:
            raise refused

    def _look_now(self) -> None:
        """Have pbs_sched look at its queue; where that fails it looks at the next event."""
        try:
            if parse_server(self._commands.read_json(QSTAT_SERVER)).scheduling:
                self._commands.read(["qmgr", "-c", "set server scheduling = True"])
        except BatchSystemError as error:
            logger.warning("batch_limit=raised look=none reason=%s", error)

    def _refuse_strangers(self) -> None:
        """Refuse a file that names other queues: who writes it must not choose what PBS is told."""
        named = {queue for queue, _ in self._known}
        strange = [] if self._configured is None else sorted(named - self._configured)
        if strange:
            what = ", ".join(strange)
            raise ChangeRejected(
                f"{self._path} names queue {what}, which [reserve] queues does not name, so "
                f"nothing was changed: if the daemon limited {what}, name it there (mechanism may "
                "stay off) and run `slurm-rl release`, else remove the file"
            )

    def _parts(self, amounts: Mapping[str, int], gpus: Mapping[str, int]) -> dict[Limited, int]:
        """The part of each queue in each resource."""
        told: Mapping[str, Any] = {}
        if len(self._queues) > 1:
            # all queues: of several that are named JSON holds the first alone (23.06)
            told = section(self._commands.read_json(QSTAT_QUEUES), "Queue")
        parts: dict[Limited, int] = {}
        for resource, amount in amounts.items():
            whole = amount * KB_IN_MIB if resource == MEMORY else amount
            uses = {
                name: queue_use(told.get(name, {}), resource, gpus.get(name, 0))
                for name in self._queues
            }
            for queue, part in parts_of(whole, uses).items():
                parts[queue, resource] = part
        return parts

    def _limit(self, limited: Limited, part: int) -> bool:
        """Write the limit where it differs, never above the site's own; whether it rose."""
        now = self._read_limit(limited)
        known = self._known.get(limited)
        own = known.own if known is not None and now in known.ours else now
        wanted = part if own is None else min(part, own)
        if now == wanted:
            return False
        ours = frozenset({wanted}) | ({now} if now is not None and now != own else frozenset())
        self._record(limited, QueueLimit(own=own, ours=ours))
        self._write(limited, wanted, now)
        return now is not None and now < wanted

    def _give_back_all(self, all_of: Sequence[Limited]) -> tuple[list[bool], ChangeRejected | None]:
        """Whether limits rose, and the first refusal: a queue that refuses holds up no other."""
        rose: list[bool] = []
        refused: ChangeRejected | None = None
        for limited in all_of:
            try:
                rose.append(self._give_back(limited))
            except ChangeRejected as error:
                refused = refused or error
        return rose, refused

    def _give_back(self, limited: Limited) -> bool:
        """Bring the site's own limit back where ours stands; whether the queue's limit rose."""
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
        """The queue's limits in the words of qmgr."""
        answer = self._commands.call(["qmgr", "-c", f"list queue {queue} max_run_res"])
        words = answer.errors or answer.output
        if answer.status and "nknown queue" in words:
            raise ChangeRejected(f"PBS has no queue {queue!r} to limit: name its batch queues")
        if answer.status:
            raise failure("qmgr", words)
        return answer.output

    def _write(self, limited: Limited, wanted: int | None, now: int | None) -> None:
        """Put an amount, or none, in the place of that of now, and see that it stands then."""
        queue, resource = limited
        name = f"{MAX_RUN_RES}.{NAMES[resource]}"
        amount = now if wanted is None else wanted
        said = f"{amount}kb" if resource == MEMORY else str(amount)
        command = f"set queue {queue} {name} {'-' if wanted is None else '+'}= [o:PBS_ALL={said}]"
        if wanted is None and stands_alone(self._limits_of(queue), resource):
            # the last of a resource that goes by -= is back when pbs_server starts again (23.06)
            command = f"unset queue {queue} {name}"
        answer = self._commands.call(["qmgr", "-c", command])
        if answer.status:
            raise _refusal(failure("qmgr", answer.errors), name, queue)
        if (now := self._read_limit(limited)) != wanted:
            raise ChangeRejected(
                f"the limit {name} of queue {queue} is {now} where {wanted} was set: see who else "
                "changes it"
            )

    def _read_record(self) -> dict[Limited, QueueLimit]:
        if self._path is None:
            return self._known
        try:
            return KeptRecord(self._path).read(parse_record)
        except FileNotFoundError:
            return {}
        except UNREADABLE as error:
            raise ChangeRejected(
                f"the record of the site's own limits, {self._path}, cannot be read ({error}): see "
                f"`qmgr -c 'list queue @default {MAX_RUN_RES}'`, mend them, then remove the file"
            ) from None

    def _record(self, limited: Limited, limit: QueueLimit | None) -> None:
        """Keep on disk, before the limit is written, what it was."""
        if limit is None:
            self._known.pop(limited, None)
        else:
            self._known[limited] = limit
        if self._path is None:
            return
        try:
            if self._known:
                KeptRecord(self._path).write(record_of(self._known))
            else:
                KeptRecord(self._path).remove()
        except OSError as error:
            raise ChangeRejected(
                f"{self._path} cannot be written ({error.strerror}): make its folder writable for "
                "this user; without it the site's own limits could not be given back"
            ) from None


def _refusal(error: BatchSystemError, limit: str, queue: str) -> BatchSystemError:
    if isinstance(error, BatchSystemUnavailable):
        return error
    return ChangeRejected(
        f"PBS does not let us set {limit} of queue {queue} ({error}): make the user of this "
        "daemon an operator, and let the queue have no limits of the old style (max_user_res, ...)"
    )
