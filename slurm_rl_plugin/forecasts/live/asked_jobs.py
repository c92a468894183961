"""A queue with one job more, or in which one asks for something else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from slurm_rl_plugin.domain import JobTable, PendingJobs, QueueSnapshot
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests
from slurm_rl_plugin.errors import RequestRefused
from slurm_rl_plugin.forecasts.live.joined_log import joined_requests

_BAD = "400 Bad Request"
#: Number of a job that is not submitted.
NOT_SUBMITTED = 0
#: Most that any number of a request may be.
_MOST = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedJob:
    """What a job that is not submitted asks for.

    Attributes:
        user, account, partition: names; a new one is nobody's yet, "" for any.
        processors: how many.
        nodes: how many it is spread over; 0 for as few as hold it.
        time_limit: seconds; nan for none.
        memory: MiB in all; 0 where it asks for none.
        memory_per_cpu: its memory goes with its processors; else each node gives an equal part.
        gpus: in all.
        interactive: job class.
    """

    user: str
    account: str
    partition: str
    processors: int
    nodes: int
    time_limit: float
    memory: float
    memory_per_cpu: bool
    gpus: float
    interactive: bool

    @classmethod
    def of_document(cls, given: Mapping[str, Any]) -> AskedJob:
        """What a document asks for; what it does not name is the least.

        Raises:
            RequestRefused: a name or a value that is not understood.
        """
        known = {each.name for each in fields(cls)}
        unknown = sorted(set(given) - known)
        if unknown:
            raise RequestRefused(
                _BAD, f"{unknown[0][:40]!r} is no part of a job: give {', '.join(sorted(known))}."
            )
        return cls(
            user=_name(given, "user"),
            account=_name(given, "account"),
            partition=_name(given, "partition"),
            processors=int(_number(given, "processors", 1.0, least=1.0)),
            nodes=int(_number(given, "nodes", 0.0)),
            time_limit=_number(given, "time_limit", math.nan, least=1.0),
            memory=_number(given, "memory", 0.0),
            memory_per_cpu=given.get("memory_per_cpu") is True,
            gpus=_number(given, "gpus", 0.0),
            interactive=given.get("interactive") is True,
        )


def _name(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str) or len(value) > 200:
        raise RequestRefused(_BAD, f"{name} is no name: give a short text.")
    return value


def _number(given: Mapping[str, Any], name: str, default: float, *, least: float = 0.0) -> float:
    value = given.get(name)
    if value is None:
        return default
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # before it is made a float, which holds no number of hundreds of digits
    if not is_number or not least <= value <= _MOST:
        raise RequestRefused(_BAD, f"{name} is no number from {least:g} to {_MOST:g}.")
    return float(value)


def with_job(snapshot: QueueSnapshot, asked: AskedJob) -> QueueSnapshot:
    """The queue with this job as the last of its pending ones, submitted now."""
    names = {
        column: _placed(getattr(snapshot, names), getattr(asked, column))
        for column, names in (("account", "accounts"), ("user", "users"))
    }
    first = snapshot.partitions[0] if snapshot.partitions else ""
    partitions, partition = _placed(snapshot.partitions, asked.partition or first)
    jobs = snapshot.pending.jobs
    added: dict[str, Any] = {
        "job_id": NOT_SUBMITTED,
        "submit": snapshot.now,
        "eligible": snapshot.now,
        "processors": asked.processors,
        "time_limit": asked.time_limit,
        "account": names["account"][1],
        "user": names["user"][1],
        "partition": partition,
        "interactive": asked.interactive,
    }
    columns = {name: np.append(getattr(jobs, name), value) for name, value in added.items()}
    requests = _with_request(jobs.requests, asked)
    accounts = names["account"][0]
    more = len(accounts) - len(snapshot.accounts)
    return replace(
        snapshot,
        pending=_longer(snapshot.pending, JobTable(**columns, requests=requests)),
        accounts=accounts,
        users=names["user"][0],
        partitions=partitions,
        shares=np.append(snapshot.shares, np.zeros(more)),
        usage=np.append(snapshot.usage, np.zeros(more)),
    )


def _placed(names: tuple[str, ...], name: str) -> tuple[tuple[str, ...], int]:
    if name in names:
        return names, names.index(name)
    return (*names, name), len(names)


def _with_request(requests: ResourceRequests | None, asked: AskedJob) -> ResourceRequests | None:
    total = np.array([[float(asked.processors), asked.memory, asked.gpus]])
    own = ResourceRequests.of_totals(
        total, names=BASIC_RESOURCES, nodes=np.array([asked.nodes], dtype=np.int64)
    )
    goes = np.array([asked.memory_per_cpu])
    return joined_requests(requests, replace(own, memory_per_cpu=goes))


#: What stands in a column of pending jobs for one more, where not 0.
_NEW: Mapping[str, Any] = {"tasks": 1, "expected": np.nan, "for_processors": True}


def _longer(pending: PendingJobs, jobs: JobTable) -> PendingJobs:
    columns: dict[str, Any] = {}
    for each in fields(pending):
        value = getattr(pending, each.name)
        if isinstance(value, np.ndarray):
            columns[each.name] = np.append(value, value.dtype.type(_NEW.get(each.name, 0)))
    return replace(pending, jobs=jobs, **columns)


def asking_for(
    snapshot: QueueSnapshot,
    place: int,
    *,
    time_limit: float | None = None,
    processors: int | None = None,
) -> QueueSnapshot:
    """The queue where one pending job asks for something else.

    Args:
        snapshot: the queue.
        place: of the job among the pending ones.
        time_limit: seconds.
        processors: how many; memory and GPUs go with them.
    """
    jobs = snapshot.pending.jobs
    changed = jobs
    if time_limit is not None:
        limits = jobs.time_limit.copy()
        limits[place] = time_limit
        changed = replace(changed, time_limit=limits)
    if processors is not None:
        part = processors / float(jobs.processors[place])
        counts = jobs.processors.copy()
        counts[place] = processors
        requests = jobs.requests
        if requests is not None:
            total, nodes = requests.total.copy(), requests.nodes.copy()
            total[place] *= part
            nodes[place] = math.ceil(nodes[place] * part)
            requests = replace(requests, total=total, nodes=nodes)
        changed = replace(changed, processors=counts, requests=requests)
    return replace(snapshot, pending=replace(snapshot.pending, jobs=changed))
