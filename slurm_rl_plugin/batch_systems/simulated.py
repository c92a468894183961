"""A simulated cluster behind the batch-system port: for the demo, and for tests without Slurm.

Its own priority is age alone, one point a second, so without our factors the order is FIFO. As in
Slurm, priorities below 1 count as 1. It knows no hold.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slurm_rl_plugin.batch_systems.port import (
    ApplyReport,
    BatchSystem,
    FactorChange,
    SchedulerFacts,
    SchedulerLoad,
)
from slurm_rl_plugin.domain import JobTable, PendingJobs, QueueSnapshot
from slurm_rl_plugin.simulator.kernel.cluster import advance, empty_cluster, next_event
from slurm_rl_plugin.simulator.kernel.dispatch import BACKFILLING, dispatch_in_order
from slurm_rl_plugin.simulator.schedules.policy_driver import snapshot_of
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import HOUR, FloatArray, IntArray


class SimulatedCluster(BatchSystem):
    """Replays a log on a simulated machine whose queue can be read and reordered."""

    name = "simulated"

    def __init__(self, prepared: PreparedLog, settings: SimulationSettings) -> None:
        self._prepared = prepared
        self._jobs: JobTable = prepared.jobs()
        # a real scheduler backfills by requested limits, not by real run times
        self._workload = prepared.workload(None)
        self._settings = settings
        self._cluster = empty_cluster(self._workload, settings.capacity, settings.half_life)
        count = len(self._jobs)
        self._place_of = {int(job): place for place, job in enumerate(self._jobs.job_id)}
        self._factor: IntArray = np.zeros(count, dtype=np.int64)
        self._reported = np.zeros(count, dtype=np.bool_)
        self._ends_reported = 0

    @property
    def now(self) -> float:
        """The simulation's clock: seconds since its beginning."""
        return self._cluster.now

    @property
    def start(self) -> FloatArray:
        """Start of each job of the log, NaN before it started; shape [n]."""
        return self._cluster.start

    @property
    def finished(self) -> bool:
        """Whether every job has started and ended."""
        return bool(np.isinf(next_event(self._cluster)))

    def advance(self, until: float) -> None:
        """Let the cluster run up to a time, scheduling at every event as a real one does."""
        while (event := next_event(self._cluster)) <= until:
            advance(self._cluster, event)
            self._schedule()
        if until > self.now:
            advance(self._cluster, until)

    def _native(self, waiting: IntArray) -> IntArray:
        return 1 + np.floor(self.now - self._workload.submit[waiting]).astype(np.int64)

    def _schedule(self) -> None:
        if self._cluster.state[0].idle == 0:
            return
        waiting = self._cluster.waiting
        priority = np.maximum(self._native(waiting) + self._factor[waiting], 1)
        order = waiting[np.lexsort((waiting, -priority))]
        dispatch_in_order(
            self._cluster,
            order,
            len(order),
            BACKFILLING[self._settings.backfilling],
            self._settings.reserve,
        )

    def facts(self) -> SchedulerFacts:
        """Age alone, a point a second; every event is a scheduling pass."""
        return SchedulerFacts(
            release="simulated",
            lever="factor",
            harm=None,
            points_an_hour=HOUR,
            pass_interval=0.0,
            in_charge=True,
        )

    def load(self) -> SchedulerLoad:
        """Numbers of submitted, started and ended jobs."""
        started = int(np.count_nonzero(~np.isnan(self._cluster.start)))
        come = int(np.count_nonzero(self._workload.submit <= self.now))
        return SchedulerLoad(struggles=None, events=(come, started, self._cluster.state[0].ended))

    def snapshot(self) -> QueueSnapshot:
        """Read the queue at the simulated time."""
        waiting = np.sort(self._cluster.waiting)
        started = np.flatnonzero(~np.isnan(self._cluster.start) & ~self._reported)
        self._reported[started] = True
        ended = self._cluster.ended[self._ends_reported : self._cluster.state[0].ended]
        self._ends_reported += len(ended)
        never = np.zeros(len(waiting), dtype=np.bool_)
        pending = PendingJobs(
            jobs=self._jobs.select(waiting),
            native_priority=self._native(waiting),
            factor=self._factor[waiting],
            held=never,
            admin_set=never,
            nice=np.zeros(len(waiting), dtype=np.int64),
        )
        return snapshot_of(self._prepared, self._jobs, self._cluster, pending, started, ended)

    def apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        """Set factors of pending jobs; others are reported as rejected."""
        waiting = set(self._cluster.waiting.tolist())
        rejected: dict[int, str] = {}
        for change in changes:
            place = self._place_of.get(change.job_id)
            if place is None or place not in waiting:
                rejected[change.job_id] = "Invalid job id specified"
            else:
                self._factor[place] = change.new
        self._schedule()
        asked = {change.job_id for change in changes}
        return ApplyReport(accepted=frozenset(asked - rejected.keys()), rejected=rejected)

    def release(self, job_ids: IntArray | None = None) -> ApplyReport:
        """Set factors back to 0."""
        if job_ids is None:
            waiting = self._cluster.waiting
            job_ids = self._jobs.job_id[waiting[self._factor[waiting] != 0]]
        return self.apply([FactorChange(job_id=int(job), old=0, new=0) for job in job_ids])
