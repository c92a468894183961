"""Limits of PBS queues in the words of `qmgr` and `qstat`, their parts, and the record of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slurm_rl_plugin.batch_systems.pbs.answers.fields import parse_count, text
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY

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
    """The limit over all jobs of one queue, in the words of qmgr; None where there is none.

    Args:
        words: of `list queue`.
        resource: of NAMES; of memory the limit is in kb, rounded up.
    """
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
    """What a queue has in use of a resource, and how many of its jobs wait.

    Args:
        values: of the queue.
        resource: of NAMES.
        gpus: of the queue's running jobs. A queue tells of GPUs only where the site made `ngpus`
            with flag q; for chunks of jobs it needs no more than `nh`.
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
