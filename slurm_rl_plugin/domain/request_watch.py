"""What jobs ask for, remembered with their places: a place is not kept for another request.

A user may raise a limit after the job was ranked as a short one. The next decision scores the new
request; this module detects it, and says which jobs must lose their place first.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain.queue_snapshot import QueueSnapshot
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.units import BoolArray, IntArray

logger = logging.getLogger(__name__)

#: What is watched; a closed list, since a metric's label takes these values. `resources` are all
#: that have no part of their own, such as types of GPUs.
REQUEST_PARTS = ("time_limit", "processors", "memory", "gpus", "resources", "partition", "qos")
#: Parts that every look has.
_ALWAYS_TOLD = frozenset({"time_limit", "processors", "partition", "qos"})
_PARTS_OF = {MEMORY: "memory", GPUS: "gpus"}
#: By part, and what has none of its own by the name of the resource.
Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestChange:
    """One job asks for something else than when it was ranked."""

    job_id: int  #: of the job or array
    part: str  #: one of REQUEST_PARTS
    #: old, new: seconds (None for no limit), processors, MiB, GPUs, a name, a resource's amount.
    old: float | str | None
    new: float | str | None


@dataclass(frozen=True, slots=True)
class ChangedRequests:
    """What ranked jobs ask for otherwise than at the look before."""

    #: Pending jobs of the snapshot whose place was for another request, shape [n]; None for none.
    lost: BoolArray | None = None
    #: Pending jobs that are ranked now and were not before, shape [n]; None without a look before.
    new: BoolArray | None = None
    changes: tuple[RequestChange, ...] = ()  #: one for each part of a job, of `resources` for each

    @property
    def parts(self) -> Mapping[str, int]:
        """Part -> how many jobs changed it."""
        return Counter(part for _, part in {(each.job_id, each.part) for each in self.changes})

    @property
    def first(self) -> BoolArray | None:
        """Pending jobs whose places are written before all others, shape [n]; None for none."""
        if self.lost is None or self.new is None:
            return self.new if self.lost is None else self.lost
        return self.lost | self.new


@dataclass(slots=True)
class RequestWatch:
    """Compares what ranked jobs ask for with what they asked for when they were last ordered.

    A cycle calls `compare`, sends its writes and then calls `commit`. If the writes get no answer,
    the next cycle finds the same changes again. A restart forgets everything.
    """

    #: Jobs whose places were decided and not sent; the next look counts them again.
    left: frozenset[int] = frozenset()

    _job_id: IntArray | None = None
    _columns: Columns = field(default_factory=dict)
    _names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _compared: tuple[IntArray, Columns, Mapping[str, tuple[str, ...]]] | None = None

    def compare(self, snapshot: QueueSnapshot, ranked: BoolArray) -> ChangedRequests:
        """Find what has changed since the last commit."""
        columns, names = _columns(snapshot), {"partition": snapshot.partitions, "qos": snapshot.qos}
        job_id = snapshot.pending.jobs.job_id
        found = self._changed(job_id, columns, names, ranked)
        places = np.flatnonzero(ranked)
        places = places[np.argsort(job_id[places])]
        self._compared = job_id[places], self._remembered(job_id, columns, places), names
        for part, count in found.parts.items():
            first = next(each for each in found.changes if each.part == part)
            words = (part, count, first.job_id, first.old, first.new)
            logger.info("request=changed what=%s jobs=%d first=%d was=%s is=%s", *words)
        return found

    def commit(self, left: frozenset[int] = frozenset()) -> None:
        """Remember what the last compared jobs ask for: they have been ordered by it."""
        if self._compared is None:
            return
        job_id, columns, self._names = self._compared
        known = () if self._job_id is None else self._job_id.tolist()
        kept = ~np.isin(job_id, list(left.difference(known)))
        self._job_id = job_id[kept]
        self._columns = {key: column[kept] for key, column in columns.items()}
        self._compared, self.left = None, left

    def forget(self) -> None:
        """Forget every place that was ours."""
        self._job_id = self._compared = None
        self.left = frozenset()

    def _changed(
        self,
        job_id: IntArray,
        columns: Columns,
        names: Mapping[str, tuple[str, ...]],
        ranked: BoolArray,
    ) -> ChangedRequests:
        if self._job_id is None:
            return ChangedRequests()
        if len(self._job_id) == 0 or len(job_id) == 0:
            return ChangedRequests(new=ranked)
        row, known = self._rows_of(self._job_id, job_id)
        lost = np.isin(job_id, list(self.left)) & known & ranked
        changes: list[RequestChange] = []
        for key in columns.keys() & self._columns.keys():
            before, now = self._columns[key][row], columns[key]
            same_number = before
            if key in names:  # each snapshot numbers names anew
                now_of = {name: place for place, name in enumerate(names[key])}
                numbers = [now_of.get(name, -1) for name in self._names[key]]
                same_number = np.array(numbers or [0])[before]
            differs = known & (now != same_number)
            if key not in _ALWAYS_TOLD:  # an unknown part is no change
                differs &= ~(np.isnan(now) | np.isnan(before))
            lost |= differs
            for place in np.flatnonzero(differs).tolist():
                part = key if key in REQUEST_PARTS else "resources"
                old, new = _told(key, before[place], self._names), _told(key, now[place], names)
                number = int(job_id[place])
                changes.append(RequestChange(job_id=number, part=part, old=old, new=new))
        changes.sort(key=lambda each: REQUEST_PARTS.index(each.part))
        return ChangedRequests(lost if lost.any() else None, ranked & ~known, tuple(changes))

    @staticmethod
    def _rows_of(remembered: IntArray, job_id: IntArray) -> tuple[IntArray, BoolArray]:
        """Where each job was remembered, and whether it was; both of shape [n]."""
        row = np.minimum(np.searchsorted(remembered, job_id), len(remembered) - 1)
        return row, remembered[row] == job_id

    def _remembered(self, job_id: IntArray, columns: Columns, places: IntArray) -> Columns:
        """The columns of these places; what this look lacks stays as it was.

        Else a job could be changed behind a look at which the nodes gave no answer.
        """
        kept = {key: column[places] for key, column in columns.items()}
        if self._job_id is None or len(self._job_id) == 0 or len(places) == 0:
            return kept
        row, known = self._rows_of(self._job_id, job_id[places])
        for key in self._columns.keys() - _ALWAYS_TOLD:
            before = np.where(known, self._columns[key][row], np.nan)
            now = kept.get(key, before)
            kept[key] = np.where(np.isnan(now), before, now)
        return kept


def _columns(snapshot: QueueSnapshot) -> Columns:
    """Of each pending job, shape [n]; NaN for an unknown amount."""
    jobs, qos = snapshot.pending.jobs, snapshot.pending.qos
    told: dict[str, NDArray[Any]] = {}
    if jobs.requests is not None:
        for name in set(jobs.requests.names) - {CPUS}:
            told[_PARTS_OF.get(name, name)] = jobs.requests.of(name)
    return told | {
        "time_limit": np.nan_to_num(jobs.time_limit, nan=np.inf),  # NaN differs from itself
        "processors": jobs.processors,
        "partition": jobs.partition,
        "qos": np.zeros(len(jobs), dtype=np.int64) if qos is None else qos,
    }


def _told(key: str, value: Any, names: Mapping[str, tuple[str, ...]]) -> float | str | None:
    if key in names:
        return names[key][int(value)]
    if key not in REQUEST_PARTS:
        return f"{key} {float(value):g}"
    return float(value) if np.isfinite(value) else None
