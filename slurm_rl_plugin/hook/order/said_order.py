"""The site's points (of QOS, for example) and users' nice, kept in the daemon's order."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from operator import ge
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.domain import PendingJobs, QueueSnapshot
from slurm_rl_plugin.hook.memory.carried_factors import REMEMBERED_AFTER_END
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray
from slurm_rl_plugin.whole_file import JsonRecord, typed


def in_site_order(
    pending: PendingJobs,
    order: IntArray,
    span: float,
    steps: IntArray | None = None,
    kept: BoolArray | None = None,
) -> IntArray:
    """Order jobs by the points of their place in the daemon's order plus the site's own points.

    The first of m places adds `span` points, each further one 1/m of them less. Jobs pass only
    others of their step. A kept job has the points of the best of its account (see `Decision`).
    """
    if pending.standing is None:
        return order
    standing = pending.standing[order].astype(np.float64)
    if not (standing != standing[:1]).any():
        return order
    places = np.arange(len(order))
    if kept is not None:
        best = _best_of_account(pending.jobs.account[order], standing)
        standing = np.where(kept[order], best, standing)
    value = span * (len(order) - places) / len(order) + standing
    step = np.zeros(len(order), dtype=np.int64) if steps is None else steps[order]
    ordered = order.copy()
    ordered[np.argsort(step, kind="stable")] = order[np.lexsort((places, -value, step))]
    return ordered


def _best_of_account(account: IntArray, points: FloatArray) -> FloatArray:
    best = np.full(account.max() + 1, -np.inf)
    np.maximum.at(best, account, points)
    return np.asarray(best[account])


def in_own_order(
    pending: PendingJobs,
    order: IntArray,
    nice: IntArray,
    steps: IntArray | None = None,
    kept: BoolArray | None = None,
) -> IntArray:
    """Put each user's jobs in the order of their nice, lower first; equal nice changes nothing.

    The jobs of one user, account, partition and QOS exchange places, as under `scontrol top`. A job
    moves forward only to the place of a job that is at least as large and asks for at least as much
    time; otherwise the jobs of higher nice move back behind it. So no other user's job gets more
    work before it. Jobs move only among others of their step; kept jobs, and jobs of unknown users,
    keep their places (see `Decision`). `order` has shape [m], the nice of all pending jobs [n].
    """
    if not nice[order].any():
        return order
    may = pending.jobs.user >= 0 if kept is None else (pending.jobs.user >= 0) & ~kept
    places = np.flatnonzero(may[order])
    jobs = order[places]
    own, groups = nice[jobs], own_jobs(pending)[jobs]
    step = np.zeros(len(jobs), dtype=np.int64) if steps is None else steps[jobs]
    given = np.lexsort((places, step, groups))
    wanted = np.lexsort((places, own, step, groups))
    borders = np.flatnonzero(np.diff(groups[given]) | np.diff(step[given])) + 1
    edges = [0, *borders.tolist(), len(jobs)]
    place, turn, number = np.arange(len(order)), np.zeros_like(order), np.zeros_like(jobs)
    turn[places[wanted]] = number[given] = np.arange(len(jobs))
    asks = pending.jobs.size[jobs], np.nan_to_num(pending.jobs.time_limit[jobs], nan=np.inf)
    differs = np.searchsorted(borders, np.flatnonzero(given != wanted), side="right")
    for group in np.unique(differs).tolist():
        start, end = edges[group : group + 2]
        mine, sequence = given[start:end], wanted[start:end]
        slots = _slots(number[sequence] - start, *(each[mine] for each in asks))
        place[places[sequence]] = places[mine[slots]]
    return order[np.lexsort((turn, place))]


def _slots(sequence: IntArray, size: FloatArray, limit: FloatArray) -> list[int]:
    """The place of k jobs that each job gets, in their sequence; some share one.

    Jobs are numbered by place; requested processors and seconds are by place, shape [k].
    """
    asks = list(zip(size.tolist(), limit.tolist(), strict=True))
    slot_of = list(range(len(asks)))
    holder, last, found = slot_of.copy(), -1, []
    for job in sequence.tolist():
        if slot_of[job] > last:
            last += 1
            while last < slot_of[job] and not all(map(ge, asks[last], asks[job])):
                last += 1
            other, left = holder[last], slot_of[job]
            slot_of[other], holder[left] = left, other
            slot_of[job], holder[last] = last, job
        found.append(last)
    return found


def own_jobs(pending: PendingJobs) -> IntArray:
    """Number of each pending job's user, account, partition and QOS together, shape [n].

    A job that may also start in a partition of a higher tier belongs to that tier.
    """
    jobs = pending.jobs
    parts = [jobs.user, jobs.account, jobs.partition, pending.each_tier]
    if pending.qos is not None:
        parts.append(pending.qos)
    found = np.zeros(len(pending), dtype=np.int64)
    for part in parts:
        _, number = np.unique(part, return_inverse=True)
        found = found * (number.max(initial=0) + 1) + number
    return found


@dataclass(slots=True, kw_only=True)
class OwnNice:
    """The nice of each job as its user meant it, without what `scontrol top` adds to other jobs.

    `scontrol top` moves a job by nice only. It subtracts the points up to the user's first job from
    the job's nice, and adds them, in equal parts, to the nice of the user's other jobs. These are
    the points of that moment, so later values cannot be compared with them: the second of two jobs
    that were put on top may have the higher nice, a job submitted afterwards has a lower nice than
    the jobs that paid, and parts that do not divide evenly differ by a point. So a job that was put
    on top gets the lowest nice of its user's jobs here, and the others keep theirs.

    A file keeps the jobs whose nice differs from what their user meant, for a restart and for
    commands that only read. Without the file the nice of the batch system counts.
    """

    path: Path
    #: Job number, nice, nice as it was meant, and when the job was last pending or running, seconds
    #: since the epoch; a row for each job, by number. None at first.
    _seen: IntArray | None = None
    _kept: list[list[int]] = field(default_factory=list)  #: the rows that the file holds

    def look(self, snapshot: QueueSnapshot) -> IntArray:
        """Nice of each pending job as its user meant it, lower first, shape [n]."""
        pending = snapshot.pending
        job_id, nice = pending.jobs.job_id, pending.nice
        now = int(snapshot.now)
        before, meant = self._before(job_id, nice, now)
        change = nice - before
        found = np.where(change != 0, nice, meant)
        if (change < 0).any():
            groups = own_jobs(pending)
            for group in np.unique(groups[change < 0]):
                own = (groups == group) & ~pending.held
                _without_top(found, meant, change, pending.total_priority, own)
        rows = np.column_stack([job_id, nice, found, np.full(len(job_id), now)])
        rows = np.concatenate([rows, self._away(job_id, snapshot.running.numbers, now)])
        self._seen = rows[np.argsort(rows[:, 0])]
        return found

    def _away(self, pending: IntArray, running: set[int], now: int) -> IntArray:
        """Rows of jobs that are not pending but may be again, since Slurm can requeue them."""
        assert self._seen is not None
        away = self._seen[~np.isin(self._seen[:, 0], pending)]
        runs = np.isin(away[:, 0], list(running))
        away[:, 3] = np.where(runs, now, np.minimum(away[:, 3], now))
        return away[now - away[:, 3] <= REMEMBERED_AFTER_END]

    def keep(self) -> None:
        """Replace the file if its content has changed; no cycle waits for the disk."""
        if self._seen is None:
            return
        differing = self._seen[self._seen[:, 1] != self._seen[:, 2], :3].tolist()
        if differing == self._kept:
            return
        if self._record.keep({"jobs": differing}):
            self._kept = differing

    def _before(self, job_id: IntArray, nice: IntArray, now: int) -> tuple[IntArray, IntArray]:
        """The earlier nice of each job, and the intended one; the present one for a new job."""
        if self._seen is None:
            kept = self._read()
            self._seen = np.column_stack([kept, np.full(len(kept), now)])
            self._kept = kept.tolist()
        if len(self._seen) == 0:
            return nice, nice
        row = np.minimum(np.searchsorted(self._seen[:, 0], job_id), len(self._seen) - 1)
        known = self._seen[row, 0] == job_id
        was, meant = self._seen[row, 1], self._seen[row, 2]
        return np.where(known, was, nice), np.where(known, meant, nice)

    @property
    def _record(self) -> JsonRecord:
        return JsonRecord(self.path, "own_nice")

    def _read(self) -> IntArray:
        found = None
        with suppress(FileNotFoundError):
            found = self._record.read(_rows)
        return np.empty((0, 3), dtype=np.int64) if found is None else found


def _rows(found: dict[str, Any]) -> IntArray:
    rows = sorted(typed(list[tuple[int, int, int]], found["jobs"]))
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _without_top(
    found: IntArray, meant: IntArray, change: IntArray, priority: IntArray, own: BoolArray
) -> None:
    """Undo in `found` what `scontrol top` did to the nice of one user's jobs, if it did.

    If so, the nice of the first job is below the intended one, and jobs below it paid for that.
    """
    fell, paid = own & (change < 0), own & (change > 0)
    if not fell.any() or not paid.any():
        return
    fell &= priority > priority[paid].max()
    if not fell.any() or priority[fell].max() < priority[own].max():
        return
    lowest = priority[fell].min()
    top = own & (priority >= lowest)  # with those that were on top already
    others = own & ~top
    # jobs that had the priority of the top went below it, whatever their share
    share = np.median(change[others])
    booked = others & ((change <= share + 1) | (priority + change >= lowest))
    found[booked] = meant[booked]
    first = np.flatnonzero(top)
    first = first[np.argsort(-priority[first], kind="stable")]
    found[first] = found[others].min() - np.arange(len(first), 0, -1)
