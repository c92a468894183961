"""Protected jobs inside the compiled loop: who was overtaken by how much, and goes first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.policies import protection as plain
from slurm_rl_plugin.policies.protection import FOR_GOOD, Protection
from slurm_rl_plugin.simulator.kernel.cluster import (
    ENDED,
    NOW,
    PENDING,
    RUNNING,
    Cluster,
)
from slurm_rl_plugin.simulator.kernel.compilation import (
    compiled_borrowing,
    compiled_copy,
)
from slurm_rl_plugin.simulator.kernel.workload import (
    Workload,
    dominant_of,
    resources_of,
    share_of,
    size_of,
)
from slurm_rl_plugin.units import FloatArray, IntArray

longest_wait = compiled_copy(plain.longest_wait)
_protected_after = compiled_copy(plain.protected_after)
_borne_by = compiled_copy(plain.borne_by)

#: Indices into `ProtectedQueue.site`.
_COUNTED_TO, _LONGEST = 0, 1


class UnprotectedQueue(NamedTuple):
    """A queue that protects nobody: a type of its own, so that the loop for it carries nothing."""

    jobs: int = 0

    def copy(self) -> UnprotectedQueue:
        """Itself: it counts nothing."""
        return self

    def counted(self, workload: Workload, cluster: Cluster) -> UnprotectedQueue:  # noqa: ARG002
        """Itself: it counts nothing."""
        return self

    def resume(self, told: ProtectedQueue | UnprotectedQueue, jobs: IntArray) -> None:
        """Nothing was counted."""


class ProtectedQueue(NamedTuple):
    """How a queue protects jobs, and what it has counted.

    Attributes:
        jobs: protected at a time, at least 1.
        of_one_user: so many of them are one user's at most.
        users: space for the users of those that are protected, shape [jobs].
        after: part of the longest wait.
        site: time up to which is counted, and the longest wait lately, seconds.
        ended: how many jobs that ended are counted, shape [1].
        overtaken: seconds by which each job was overtaken while it waited, shape [n].
        charged: space for what jobs used that came behind each pending one, of processors, or of
            each resource of a machine one after the other, shape [(n + 1) * resources].
    """

    jobs: int
    of_one_user: int
    users: IntArray
    after: float
    site: FloatArray
    ended: IntArray
    overtaken: FloatArray
    charged: FloatArray

    def copy(self) -> ProtectedQueue:
        """The same with counts of its own, to be changed."""
        columns = ("site", "ended", "overtaken")
        return self._replace(**{name: getattr(self, name).copy() for name in columns})

    def counted(self, workload: Workload, cluster: Cluster) -> ProtectedQueue:
        """A copy that has counted what was done up to now, before anybody else comes."""
        copied = self.copy()
        pending = cluster.counts[PENDING]
        if pending > 0:
            count_up_to_now(workload, cluster, copied, cluster.pending[:pending])
        return copied

    def resume(self, told: ProtectedQueue | UnprotectedQueue, jobs: IntArray) -> None:
        """Take over what another simulation has counted until now, none of whose ends is ours.

        Args:
            told: the other; one that protects nobody tells nothing.
            jobs: numbers there of our first jobs, shape [m].
        """
        if isinstance(told, ProtectedQueue):
            self.site[:] = told.site
            self.overtaken[: len(jobs)] = told.overtaken[jobs]


def protected_queue(
    protection: Protection | None, places: int, resources: int = 0
) -> ProtectedQueue | UnprotectedQueue:
    """Before the first decision.

    Args:
        protection: None for a queue that protects nobody.
        places: how many jobs there may ever be.
        resources: of the machine, as `resources_of` tells; 0 for processors alone.
    """
    if protection is None or protection.jobs == 0:
        return UnprotectedQueue()
    return ProtectedQueue(
        jobs=protection.jobs,
        of_one_user=protection.of_one_user,
        users=np.zeros(protection.jobs, dtype=np.int64),
        after=protection.after,
        site=np.array([-np.inf, 0.0]),
        ended=np.zeros(1, dtype=np.int64),
        overtaken=np.zeros(places),
        charged=np.zeros((places + 1) * max(resources, 1)),
    )


@compiled_borrowing
def _has_place(workload: Workload, protection: ProtectedQueue, job: int, taken: int) -> bool:
    """Whether the job's user may have one more place; if so it is noted as the next one's."""
    if len(workload.past.user) == 0:
        return True
    user, mine = workload.past.user[job], 0
    for place in range(taken):
        mine += protection.users[place] == user
    protection.users[taken] = user
    return mine < protection.of_one_user


@compiled_borrowing
def protect(
    workload: Workload,
    cluster: Cluster,
    protection: ProtectedQueue,
    scores: FloatArray,
    jobs: IntArray,
) -> None:
    """Put the protected jobs before all others, the oldest first.

    Args:
        workload: the jobs.
        cluster: read only.
        protection: what it has counted is brought up to now.
        scores: of the pending jobs, changed in place.
        jobs: pending job numbers in order of submission.
    """
    count = cluster.counts[PENDING]
    count_up_to_now(workload, cluster, protection, jobs)
    limit = _protected_after(protection.site[_LONGEST], protection.after)
    taken = 0
    for place in range(count):
        job = jobs[place]
        if protection.overtaken[job] <= limit:  # nobody bears less
            continue
        borne = _borne_by(workload.time_limit[job], limit, protection.site[_LONGEST])
        if protection.overtaken[job] > borne and _has_place(workload, protection, job, taken):
            scores[place] = np.inf  # ties go to the job submitted first
            protection.overtaken[job] = max(protection.overtaken[job], FOR_GOOD)
            taken += 1
            if taken == protection.jobs:
                break


@compiled_borrowing
def _came_before(workload: Workload, jobs: IntArray, count: int, job: int) -> int:
    """How many of the first `count` of `jobs`, in order of submission, came before another."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if jobs[middle] < job:  # their numbers lie together, when they came lies apart
            low = middle + 1
        else:
            high = middle
    while low > 0 and workload.submit[jobs[low - 1]] == workload.submit[job]:
        low -= 1
    return low


@compiled_borrowing
def _charge(
    workload: Workload, cluster: Cluster, protection: ProtectedQueue, jobs: IntArray
) -> None:
    """Fill `charged` with what the jobs used since the last decision, by whom they came behind."""
    now, last = cluster.clock[NOW], protection.site[_COUNTED_TO]
    count, running = cluster.counts[PENDING], cluster.counts[RUNNING]
    first, resources = protection.ended[0], resources_of(workload)
    for place in range((count + 1) * max(resources, 1)):
        protection.charged[place] = 0.0
    for place in range(running + cluster.counts[ENDED] - first):
        job, until = cluster.expected_job[place], now
        if place >= running:
            job = cluster.ended[first + place - running]
            until = cluster.start[job] + workload.run_time[job]
        seconds = until - max(cluster.start[job], last)
        behind = _came_before(workload, jobs, count, job)
        if resources == 0:
            protection.charged[behind] += seconds * size_of(workload, job)
        for resource in range(resources):
            used = seconds * share_of(workload, job, resource, resources)
            protection.charged[(count + 1) * resource + behind] += used


@compiled_borrowing
def count_up_to_now(
    workload: Workload, cluster: Cluster, protection: ProtectedQueue, jobs: IntArray
) -> None:
    """Add what the machine did since the last decision to what each job was overtaken by.

    The sums of `policies.protection.overtaken_by` in their order, to the bit; its lines would make
    six arrays at each decision.
    """
    _charge(workload, cluster, protection, jobs)
    if resources_of(workload) > 0:
        _count_by_resource(workload, cluster.counts[PENDING], protection, jobs)
    else:
        behind = 0.0
        for place in range(cluster.counts[PENDING] - 1, -1, -1):
            behind += protection.charged[place + 1]
            protection.overtaken[jobs[place]] += behind / cluster.capacity[0]
    now, longest = cluster.clock[NOW], protection.site[_LONGEST]
    since, wait = now - protection.site[_COUNTED_TO], now - workload.submit[jobs[0]]
    protection.site[_LONGEST] = longest_wait(longest, since, wait)
    protection.ended[0] = cluster.counts[ENDED]
    protection.site[_COUNTED_TO] = now


@compiled_borrowing
def _count_by_resource(
    workload: Workload, count: int, protection: ProtectedQueue, jobs: IntArray
) -> None:
    """The same on nodes: a job is overtaken on its dominant resource."""
    resources = resources_of(workload)
    for resource in range(resources):
        first = (count + 1) * resource
        for place in range(count - 1, -1, -1):
            protection.charged[first + place] += protection.charged[first + place + 1]
    for place in range(count):
        first = (count + 1) * dominant_of(workload, jobs[place], resources)
        protection.overtaken[jobs[place]] += protection.charged[first + place + 1]
