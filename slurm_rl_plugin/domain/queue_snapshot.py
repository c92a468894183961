"""What a policy sees: one instant of the queue, the same in the simulator and on a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from slurm_rl_plugin.domain.jobs import (
    EndedJobs,
    JobTable,
    PendingJobs,
    RunningJobs,
    StartedJobs,
)
from slurm_rl_plugin.domain.resources import (
    ResourcesNow,
    weighed_processors,
)
from slurm_rl_plugin.units import BoolArray, FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    """The queue at one instant; immutable."""

    now: float  #: seconds since the epoch at which the snapshot was taken
    pending: PendingJobs  #: waiting jobs, held ones included
    running: RunningJobs  #: jobs that occupy processors
    started: StartedJobs  #: jobs that started since the previous snapshot (for wait metrics only)
    capacity: int  #: usable processors
    accounts: tuple[str, ...]  #: account names; `JobTable.account` indexes them
    partitions: tuple[str, ...]  #: partition names; `JobTable.partition` indexes them
    shares: FloatArray  #: configured share of each account, shape [accounts], sum 1
    #: Fraction of the (decayed) consumed service of each account: processor-seconds, or what the
    #: site bills; shape [accounts]; sums to 1, or to 0 while nothing was consumed.
    usage: FloatArray
    ended: EndedJobs = field(default_factory=EndedJobs.none)  #: ended since the previous one
    users: tuple[str, ...] = ()  #: user names; `JobTable.user` indexes them
    qos: tuple[str, ...] = ()  #: names of QOS; `PendingJobs.qos` indexes them
    reasons: tuple[str, ...] = ()  #: why jobs wait, as sentences; `PendingJobs.reason` indexes them
    #: What the machine has in addition to processors; None if unknown.
    resources: ResourcesNow | None = None

    @property
    def accrued_wait(self) -> FloatArray:
        """Seconds of waiting that count in favour of each pending job, shape [pending].

        What the batch system counts, so that age cannot be banked by a hold or a dependency; where
        it counts nothing of its own, all since the job was eligible.
        """
        accrued = self.pending.accrued
        since = self.now - self.pending.jobs.eligible if accrued is None else accrued
        return np.maximum(since, 0.0)

    @property
    def unserved_wait(self) -> FloatArray:
        """The same, of an array only since one of its tasks last started, shape [pending]."""
        last_start = self.pending.last_start
        if last_start is None:
            return self.accrued_wait
        return np.fmin(self.accrued_wait, np.maximum(self.now - last_start, 0.0))

    @property
    def counted_wait(self) -> FloatArray:
        """Seconds of waiting as a policy counts them: lifted jobs have waited longer; [pending]."""
        counts = self.pending.wait_counts
        return self.unserved_wait if counts is None else self.unserved_wait * counts

    @property
    def waits_for_machine(self) -> BoolArray:
        """Which pending jobs could start if there were room, shape [pending].

        Not who is held, not eligible yet, or waits by his own doing.
        """
        pending = self.pending
        eligible = ~(pending.jobs.eligible > self.now)
        return eligible & ~pending.held & ~pending.each_own_doing

    @property
    def each_waits_as(self) -> FloatArray:
        """How many jobs each pending row counts as in the queue, shape [pending].

        A row may be the waiting tasks of an array. A job that could not start counts as none, since
        a log has jobs from when they were eligible.
        """
        tasks = self.pending.tasks
        return np.where(self.waits_for_machine, 1 if tasks is None else tasks, 0).astype(np.float64)

    @property
    def each_runs(self) -> FloatArray:
        """How often the waiting tasks of each array fill the machine, at least 1; [pending].

        1 for any other job.
        """
        tasks = self.pending.tasks
        if tasks is None:
            return np.ones(len(self.pending))
        size = self.weighed(self.pending.jobs).size
        return np.maximum(tasks * size / max(self.capacity, 1), 1.0)

    def weighed(self, jobs: JobTable) -> JobTable:
        """Jobs of this queue with the processors that they weigh on this machine.

        As they are if only processors are known, of the machine or of the jobs.
        """
        if self.resources is None or jobs.requests is None:
            return jobs
        weighed = weighed_processors(
            jobs.processors.astype(np.float64),
            jobs.requests,
            self.resources.names,
            self.resources.capacity,
            self.resources.beside,
        )
        return replace(jobs, weighed=weighed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """One resource; memory in MiB."""

    name: str  #: one of the snapshot's resources
    usable: float  #: what usable nodes have of it
    running: float  #: what running jobs have of it
    pending: float  #: what pending jobs ask for, a pending array as one job


def resource_use(snapshot: QueueSnapshot) -> tuple[ResourceUse, ...]:
    """Each resource of the machine; none if only processors are known."""
    machine = snapshot.resources
    waiting, having = snapshot.pending.jobs.requests, snapshot.running.jobs.requests
    if machine is None:
        return ()
    return tuple(
        ResourceUse(
            name=name,
            usable=usable,
            running=0.0 if having is None else float(having.of(name).sum()),
            pending=0.0 if waiting is None else float(waiting.of(name).sum()),
        )
        for name, usable in zip(machine.names, machine.capacity.tolist(), strict=True)
    )
