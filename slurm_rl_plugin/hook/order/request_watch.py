"""What jobs ask for, remembered with their places: a place is not kept for another request.

A user may raise a limit after the job was ranked as a short one. The next decision scores what is
asked for by then; this tells of it, and says whose place is to be taken away before all else.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.units import BoolArray, IntArray

logger = logging.getLogger(__name__)

#: What is watched; a closed list, since a metric's label takes these values.
REQUEST_PARTS = ("time_limit", "processors", "partition", "qos")
Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestChange:
    """One job asks for something else than when it was ranked.

    Attributes:
        job_id: of the job or array.
        part: one of REQUEST_PARTS.
        old, new: seconds (None for no limit), processors, or a name.
    """

    job_id: int
    part: str
    old: float | str | None
    new: float | str | None


@dataclass(frozen=True, slots=True)
class ChangedRequests:
    """What ranked jobs ask for otherwise than at the look before.

    Attributes:
        lost: pending jobs of the snapshot whose place was for another request, shape [n]; None
            for none.
        changes: a job has one for each part.
    """

    lost: BoolArray | None = None
    changes: tuple[RequestChange, ...] = ()

    @property
    def parts(self) -> Mapping[str, int]:
        """Part -> how many jobs changed it."""
        return Counter(each.part for each in self.changes)


@dataclass(slots=True)
class RequestWatch:
    """Compares what ranked jobs ask for from one look to the next; a restart forgets it."""

    _job_id: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    _columns: Columns = field(default_factory=dict)
    _names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def look(self, snapshot: QueueSnapshot, ranked: BoolArray) -> ChangedRequests:
        """What has changed; then remember those that get a place now.

        Args:
            snapshot: the queue.
            ranked: which pending jobs we order, shape [n].
        """
        columns, names = _columns(snapshot), {"partition": snapshot.partitions, "qos": snapshot.qos}
        found = self._changed(snapshot.pending.jobs.job_id, columns, names)
        places = np.flatnonzero(ranked)
        places = places[np.argsort(snapshot.pending.jobs.job_id[places])]
        self._job_id = snapshot.pending.jobs.job_id[places]
        self._columns = {part: column[places] for part, column in columns.items()}
        self._names = names
        for part, count in found.parts.items():
            first = next(each for each in found.changes if each.part == part)
            words = (part, count, first.job_id, first.old, first.new)
            logger.info("request=changed what=%s jobs=%d first=%d was=%s is=%s", *words)
        return found

    def forget(self) -> None:
        """Forget every place that was ours."""
        self._job_id = np.empty(0, dtype=np.int64)

    def _changed(
        self, job_id: IntArray, columns: Columns, names: Mapping[str, tuple[str, ...]]
    ) -> ChangedRequests:
        if len(self._job_id) == 0 or len(job_id) == 0:
            return ChangedRequests()
        row = np.minimum(np.searchsorted(self._job_id, job_id), len(self._job_id) - 1)
        known = self._job_id[row] == job_id
        lost = np.zeros(len(job_id), dtype=np.bool_)
        changes: list[RequestChange] = []
        for part in REQUEST_PARTS:
            before, now = self._columns[part][row], columns[part]
            same_number = before
            if part in names:  # each snapshot numbers names anew
                same_number = _numbers_now(self._names[part], names[part])[before]
            differs = known & (now != same_number)
            lost |= differs
            for place in np.flatnonzero(differs).tolist():
                old = _told(part, before[place], self._names)
                new = _told(part, now[place], names)
                changes.append(
                    RequestChange(job_id=int(job_id[place]), part=part, old=old, new=new)
                )
        return ChangedRequests(lost if changes else None, tuple(changes))


def _columns(snapshot: QueueSnapshot) -> Columns:
    jobs, qos = snapshot.pending.jobs, snapshot.pending.qos
    return {
        "time_limit": np.nan_to_num(jobs.time_limit, nan=np.inf),  # NaN differs from itself
        "processors": jobs.processors,
        "partition": jobs.partition,
        "qos": np.zeros(len(jobs), dtype=np.int64) if qos is None else qos,
    }


def _numbers_now(before: tuple[str, ...], now: tuple[str, ...]) -> IntArray:
    """Of each name that was known before its number now; -1 where it has none."""
    number = {name: place for place, name in enumerate(now)}
    return np.array([number.get(name, -1) for name in before] or [0], dtype=np.int64)


def _told(part: str, value: Any, names: Mapping[str, tuple[str, ...]]) -> float | str | None:
    if part in names:
        return names[part][int(value)]
    return float(value) if np.isfinite(value) else None
