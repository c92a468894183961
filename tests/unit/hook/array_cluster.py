"""A simulated cluster that shows one user's short jobs as one job array, as Slurm does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.batch_systems.port import ApplyReport, FactorChange
from slurm_rl_plugin.batch_systems.simulated import SimulatedCluster
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.units import FloatArray, IntArray


def log_of(
    submit: FloatArray, run_time: FloatArray, account: IntArray, names: Sequence[str], capacity: int
) -> JobLog:
    """Jobs of one processor; their limits are their run times; each account is one user."""
    count = len(submit)
    return JobLog(
        job_id=np.arange(1, count + 1),
        submit=submit,
        eligible=submit,
        start=np.full(count, np.nan),
        run_time=run_time,
        processors=np.ones(count, dtype=np.int64),
        time_limit=run_time,
        account=account,
        user=account,
        partition=np.zeros(count, dtype=np.int64),
        accounts=tuple(names),
        users=tuple(names),
        partitions=("",),
        processors_available=capacity,
        kind="swf",
    )


class ArrayCluster(SimulatedCluster):
    """Jobs of the account `array` are tasks of one array: one pending row, one factor."""

    tasks: Sequence[int] = ()

    def snapshot(self) -> QueueSnapshot:
        """The queue with all waiting tasks in the row of the first one."""
        found = super().snapshot()
        pending = found.pending
        is_task = pending.jobs.account == found.accounts.index("array")
        self.tasks = pending.jobs.job_id[is_task].tolist()
        if not self.tasks:
            return found
        first = int(np.flatnonzero(is_task)[0])
        rows = np.sort(np.append(np.flatnonzero(~is_task), first))
        last_start = np.full(len(pending), np.nan)
        last_start[first] = self._last_start(found)
        whole = replace(
            pending,
            tasks=np.where(np.arange(len(pending)) == first, len(self.tasks), 1),
            last_start=last_start,
        )
        return replace(found, pending=whole.select(rows))

    def apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        """Write an array's factor to every waiting task of it."""
        spread = []
        for change in changes:
            jobs = self.tasks if change.job_id in self.tasks else [change.job_id]
            spread += [replace(change, job_id=job) for job in jobs]
        report = super().apply(spread)
        asked = {change.job_id for change in changes}
        return replace(report, accepted=report.accepted & asked)

    def _last_start(self, found: QueueSnapshot) -> float:
        tasks = np.flatnonzero(self._jobs.account == found.accounts.index("array"))
        starts = self.start[tasks]
        return float(np.nanmax(starts)) if np.isfinite(starts).any() else np.nan
