"""The nice of each job as its user meant it: less what `scontrol top` books on his other jobs.

`scontrol top` moves a job by nice alone. It subtracts from the job's nice the points up to the
user's first job, and adds them, in equal parts, to the nice of his other jobs. The points are those
of that moment, so later values cannot be compared with them: the second of two jobs that were put
on top may keep the higher nice, a job that the user submits afterwards has less than those that
paid, and parts that do not divide evenly differ by a point. So a job that was put on top gets the
lowest nice of its user's jobs here, and the others keep what they had.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from slurm_rl_plugin.batch_systems.kept_record import UNREADABLE
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.hook.memory.carried_factors import REMEMBERED_AFTER_END
from slurm_rl_plugin.hook.order.said_order import own_jobs
from slurm_rl_plugin.hook.rails.guard_rails import total_priority
from slurm_rl_plugin.units import BoolArray, IntArray
from slurm_rl_plugin.whole_file import PRIVATE, owner_of_folder, read_own, write_whole

logger = logging.getLogger(__name__)
_VERSION = 1


@dataclass(slots=True, kw_only=True)
class OwnNice:
    """Compares the nice of each job with that of the look before.

    Jobs whose nice differs from what their user meant are kept in a file, so that a restart and
    the verbs that only look know them. Without the file the nice of the batch system counts.

    Attributes:
        path: of the file.
    """

    path: Path
    #: Job number, nice, nice as it was meant, and when the job was last pending or running, seconds
    #: since the epoch; a row for each job, by number. None at first.
    _seen: IntArray | None = None
    #: The rows that the file holds.
    _kept: list[list[int]] = field(default_factory=list)

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
                _without_top(found, meant, change, total_priority(pending), own)
        rows = np.column_stack([job_id, nice, found, np.full(len(job_id), now)])
        rows = np.concatenate([rows, self._away(job_id, snapshot.running.numbers, now)])
        self._seen = rows[np.argsort(rows[:, 0])]
        return found

    def _away(self, pending: IntArray, running: set[int], now: int) -> IntArray:
        """Rows of jobs that are not pending and may be again: Slurm can requeue them."""
        assert self._seen is not None
        away = self._seen[~np.isin(self._seen[:, 0], pending)]
        runs = np.isin(away[:, 0], list(running))
        away[:, 3] = np.where(runs, now, np.minimum(away[:, 3], now))
        return away[now - away[:, 3] <= REMEMBERED_AFTER_END]

    def keep(self) -> None:
        """Replace the file where it has to say something else; no cycle waits for the disk."""
        if self._seen is None:
            return
        differing = self._seen[self._seen[:, 1] != self._seen[:, 2], :3].tolist()
        if differing == self._kept:
            return
        content = json.dumps({"version": _VERSION, "jobs": differing})
        try:
            write_whole(self.path, content, sync=False, mode=PRIVATE)
        except OSError as error:
            logger.warning("own_nice=unwritable path=%s error=%s", self.path, error)
        else:
            self._kept = differing

    def _before(self, job_id: IntArray, nice: IntArray, now: int) -> tuple[IntArray, IntArray]:
        """What the nice of each job was, and was meant to be; that of now for a new job."""
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

    def _read(self) -> IntArray:
        """The rows of the file, by number; none where there is no such file."""
        try:
            content = json.loads(read_own(self.path, owners=owner_of_folder(self.path)))
            if content["version"] != _VERSION:
                raise ValueError(f"version {content['version']}")
            rows = sorted([int(job), int(now), int(own)] for job, now, own in content["jobs"])
            return np.array(rows, dtype=np.int64).reshape(-1, 3)
        except FileNotFoundError:
            pass
        except UNREADABLE as error:
            logger.warning("own_nice=unreadable path=%s error=%s", self.path, error)
        return np.empty((0, 3), dtype=np.int64)


def own_nice_path(state_path: Path) -> Path:
    """Where it lies, beside the state file."""
    return state_path.with_name(state_path.name + ".own-nice")


def _without_top(
    found: IntArray, meant: IntArray, change: IntArray, priority: IntArray, own: BoolArray
) -> None:
    """Undo what `scontrol top` did to the nice of one user's jobs, where that was what happened.

    Then the first job is one whose nice fell, and jobs below it have paid for that.

    Args:
        found: nice of each job, shape [n]; changed in place.
        meant: what it was at the look before.
        change: of the nice since then.
        priority: that the jobs have now.
        own: jobs of the user, account, partition and QOS.
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
    # those that had stood as high as the top went below it, whatever their share
    share = np.median(change[others])
    booked = others & ((change <= share + 1) | (priority + change >= lowest))
    found[booked] = meant[booked]
    first = np.flatnonzero(top)
    first = first[np.argsort(-priority[first], kind="stable")]
    found[first] = found[others].min() - np.arange(len(first), 0, -1)
