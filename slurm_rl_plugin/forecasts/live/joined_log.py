"""Logs of one site joined: what accounting told, and who runs and waits now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.accounting.port import TEXTS, JobLog
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.units import FloatArray, IntArray

_NUMBERS = ("job_id", "submit", "eligible", "processors", "time_limit", "start", "run_time")
#: Columns of numbers, and the names that they index.
_NAMED = (("account", "accounts"), ("user", "users"), ("partition", "partitions"))


def joined_log(earlier: JobLog, later: JobLog) -> tuple[JobLog, IntArray]:
    """The jobs of two logs of one site in the order of their submissions.

    Args:
        earlier: any.
        later: the same; its machine's size and kind count.

    Returns:
        The log, and the place that each of its jobs had in the two behind each other.
    """
    submit = np.concatenate([earlier.submit, later.submit])
    order = np.argsort(submit, kind="stable")
    columns: dict[str, object] = {
        name: np.concatenate([getattr(earlier, name), getattr(later, name)])[order]
        for name in _NUMBERS
    }
    for column, names in _NAMED:
        known = list(getattr(earlier, names))
        renumbered = numbers_in(known, getattr(later, names), getattr(later, column))
        columns[column] = np.concatenate([getattr(earlier, column), renumbered])[order]
        columns[names] = tuple(known)
    places = order.tolist()
    for name in TEXTS:
        both = (*getattr(earlier, name), *getattr(later, name))
        columns[name] = tuple(both[place] for place in places)
    asked = joined_requests(earlier.requests, later.requests)
    columns["requests"] = None if asked is None else asked.select(order)
    # each column has its field's type
    return replace(later, **columns), order  # type: ignore[arg-type]


def numbers_in(known: list[str], names: Sequence[str], numbers: IntArray) -> IntArray:
    """Numbers of names as numbers in a list of known ones, which grows; -1 stays, shape [n]."""
    place = {name: number for number, name in enumerate(known)}
    for name in names:
        if name not in place:
            place[name] = len(known)
            known.append(name)
    table = np.array([place[name] for name in names] or [-1], dtype=np.int64)
    return np.where(numbers < 0, -1, table[np.maximum(numbers, 0)])


def joined_requests(
    earlier: ResourceRequests | None, later: ResourceRequests | None
) -> ResourceRequests | None:
    """The requests of some jobs and of others behind them; None where one side tells nothing."""
    if earlier is None or later is None:
        return None
    names = tuple(dict.fromkeys((*earlier.names, *later.names)))
    constraints = list(earlier.constraints)
    wanted = numbers_in(constraints, later.constraints, later.constraint)
    both = (earlier, later)
    return ResourceRequests(
        names=names,
        total=np.vstack([_total(each, names) for each in both]),
        nodes=np.concatenate([each.nodes for each in both]),
        cpus_per_task=np.concatenate([each.cpus_per_task for each in both]),
        memory_per_cpu=np.concatenate([each.memory_per_cpu for each in both]),
        exclusive=np.concatenate([each.exclusive for each in both]),
        constraint=np.concatenate([earlier.constraint, wanted]),
        constraints=tuple(constraints),
    )


def _total(requests: ResourceRequests, names: Sequence[str]) -> FloatArray:
    return np.column_stack([requests.of(name) for name in names])
