"""The reserve as a live batch system keeps it: a limit on what the batch class uses together.

The papers' hold action starts a batch job only where so many processors stay free behind it. A
batch system knows no such thing; it knows a limit on a class (Slurm: GrpTRES of a QOS; PBS:
max_run_res). It is changed seldom, jobs at the limit are passed over without standing in anybody's
way, and wide jobs starve below it unless it is lifted for them. The rules are those of the hook's
guard rail of the reserve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.kernel.best_first import best_first
from slurm_rl_plugin.simulator.kernel.cluster import (
    CAME,
    CHANGE_INTERVAL,
    IDLE_AFTER,
    IN_FORCE,
    LAST_CAME,
    LIFT_AFTER,
    LIMITED,
    MOST,
    NARROW_FIRST,
    NEXT_ARRIVAL,
    NOW,
    PENDING,
    RUNNING_INTERACTIVE,
    SET_AT,
    STARVING,
    WAKE,
    WANTED,
    WIDEST,
    Cluster,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import DAY, HOUR, FloatArray, IntArray

#: Ways to keep a reserve, as `--reserve-as` names them.
FREE, LIMIT = "free", "limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLimit:
    """How the limit of the batch class follows the wanted reserve; see [reserve].

    Attributes:
        widest_batch_job: processors; batch jobs up to this width always fit into the limit.
        change_interval: seconds between two changes of the limit; lifting it does not wait.
        lift_after: a batch job of several processors that has waited for so many seconds lifts the
            limit until it starts, and goes first; inf for none.
        idle_after: seconds since the last interactive job came, after which there is no limit; inf
            for ever.
        narrow_first: below the limit batch jobs wider than `widest_batch_job` go behind the others,
            which a wide one would only keep from the processors that it is not let have.
        most: processors kept free at most, whatever the policy wants.
        most_resources: of what else is kept free at most, on nodes, by resource; memory in MiB. As
            much of it is kept as of `most` processors.
        widest_batch_resources: what of these a batch job may ask for and always fits; 1 where
            nothing is said.

    Raises:
        ConfigurationError: a negative number, or no bound after which a wide job starts.
    """

    widest_batch_job: int = 1
    change_interval: float = 60.0
    lift_after: float = DAY
    idle_after: float = HOUR
    narrow_first: bool = False
    most: float = math.inf
    most_resources: Mapping[str, float] = field(default_factory=dict)
    widest_batch_resources: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = ("change_interval", "lift_after", "idle_after", "most", "widest_batch_job")
        for name, least in zip(names, (0, 0, 0, 0, 1), strict=True):
            if not getattr(self, name) >= least:
                raise ConfigurationError(
                    f"{name} is {getattr(self, name):g}: give a number of at least {least}."
                )
        if math.isinf(self.change_interval):
            raise ConfigurationError("change_interval is inf: give a finite number.")
        self._check_that_all_start()
        if self.most_resources and not 0.0 < self.most < math.inf:
            raise ConfigurationError(
                f"most is {self.most:g}: other resources are kept free in the measure of "
                "processors: give a finite number above 0."
            )

    def _check_that_all_start(self) -> None:
        """Refuse bounds under which a wide batch job might wait for ever."""
        if math.isinf(min(self.lift_after, self.idle_after)):
            raise ConfigurationError(
                "lift_after and idle_after are inf: below a limit that is never lifted a wide "
                "batch job may never start: give a finite one."
            )
        if self.narrow_first and math.isinf(self.lift_after):
            raise ConfigurationError(
                "lift_after is inf: behind narrow ones a wide batch job may never start: "
                "narrow_first needs a finite one."
            )

    def entry(self) -> dict[str, Any]:
        """As reports and manifests hold it; other resources only where any is kept free."""
        return {name: value for name, value in asdict(self).items() if value != {}}


def limit_state(rule: ClassLimit | None) -> FloatArray:
    """`Cluster.limit` before the first decision; all 0 where processors are kept free."""
    state = np.zeros(WANTED + 1)
    if rule is not None:
        state[LIMITED] = 1.0
        state[WIDEST], state[CHANGE_INTERVAL] = rule.widest_batch_job, rule.change_interval
        state[LIFT_AFTER], state[IDLE_AFTER] = rule.lift_after, rule.idle_after
        state[NARROW_FIRST], state[MOST] = rule.narrow_first, rule.most
        state[SET_AT], state[LAST_CAME], state[WAKE] = -np.inf, -np.inf, np.inf
    return state


@compiled_borrowing
def reserve_in_force(workload: Workload, cluster: Cluster, wanted: int) -> int:
    """The reserve that a decision uses, after what the hook changes now.

    Args:
        workload: the jobs.
        cluster: its limit is changed in place, and when to look again is noted.
        wanted: processors that the policy wants to keep free of batch work.

    Returns:
        `wanted` where processors are kept free; else the capacity less what batch jobs may use.
    """
    limit, now = cluster.limit, cluster.clock[NOW]
    if limit[LIMITED] == 0.0:
        return wanted
    _note_arrivals(workload, cluster)
    wanted = min(wanted, int(min(limit[MOST], cluster.capacity[0])))
    starves_at = _starves_at(workload, cluster)
    nobody_at = limit[LAST_CAME]  # -inf where none has ever come
    if not np.isinf(nobody_at):
        nobody_at += limit[IDLE_AFTER]
    kept = 0
    if wanted > 0 and starves_at > now and nobody_at > now:
        room = cluster.capacity[0] - cluster.counts[RUNNING_INTERACTIVE] - wanted
        kept = cluster.capacity[0] - max(room, int(limit[WIDEST]))
    starving = wanted > 0 and nobody_at > now and starves_at <= now
    limit[STARVING] = 1.0 if starving else 0.0
    limit[WANTED] = wanted if starves_at > now and nobody_at > now else 0.0
    may_change = limit[SET_AT] + limit[CHANGE_INTERVAL]
    if kept != limit[IN_FORCE] and (starving or now >= may_change):
        limit[IN_FORCE], limit[SET_AT] = kept, now
    limit[WAKE] = may_change if kept != limit[IN_FORCE] else np.inf
    for time in (starves_at, nobody_at):
        if time > now:
            limit[WAKE] = min(limit[WAKE], time)
    return int(limit[IN_FORCE])


@compiled_borrowing
def _note_arrivals(workload: Workload, cluster: Cluster) -> None:
    limit = cluster.limit
    for job in range(int(limit[CAME]), cluster.counts[NEXT_ARRIVAL]):
        if workload.interactive[job]:
            limit[LAST_CAME] = workload.submit[job]
    limit[CAME] = cluster.counts[NEXT_ARRIVAL]


@compiled_borrowing
def _may_starve(workload: Workload, cluster: Cluster, job: int) -> bool:
    """Narrower jobs take all that becomes free below the limit before such a job."""
    if workload.interactive[job]:
        return False
    if len(cluster.limit) > WANTED + 1 and cluster.limit[WANTED + 1 + job] > 0.0:
        return True
    return workload.processors[job] > 1


@compiled_borrowing
def _starves_at(workload: Workload, cluster: Cluster) -> float:
    """When the longest waiting batch job that may starve has waited for too long."""
    first = np.inf
    for place in range(cluster.counts[PENDING]):
        job = cluster.pending[place]
        if _may_starve(workload, cluster, job):
            first = min(first, workload.submit[job] + cluster.limit[LIFT_AFTER])
    return first


@compiled_borrowing
def _starving_now(workload: Workload, cluster: Cluster, job: int) -> bool:
    limit = cluster.limit
    if limit[STARVING] == 0.0 or not _may_starve(workload, cluster, job):
        return False
    return workload.submit[job] + limit[LIFT_AFTER] <= cluster.clock[NOW]


@compiled_borrowing
def step_of(workload: Workload, cluster: Cluster, job: int) -> int:
    """Jobs of a higher step go before all others: starving ones, or interactive below a limit."""
    limit = cluster.limit
    if limit[STARVING] > 0.0:
        return 2 if _starving_now(workload, cluster, job) else 0
    if limit[IN_FORCE] == 0.0:
        return 0
    if workload.interactive[job]:
        return 2
    return 1 if limit[NARROW_FIRST] > 0.0 and workload.processors[job] <= limit[WIDEST] else 0


@compiled_borrowing
def rail_orders(cluster: Cluster) -> bool:
    """Whether the rail of the reserve puts anybody first, after `reserve_in_force`."""
    return cluster.limit[STARVING] != 0.0 or cluster.limit[IN_FORCE] != 0.0


@compiled
def score_by_rail(workload: Workload, cluster: Cluster, scores: FloatArray, jobs: IntArray) -> None:
    """Raise the scores of those whom the rail of the reserve puts first, in place.

    Args:
        workload: the jobs.
        cluster: read only, where `rail_orders`.
        scores: of the pending jobs, shape [pending].
        jobs: pending job numbers in order of submission.
    """
    limit, count = cluster.limit, cluster.counts[PENDING]
    # ranks, because a score may be too large for anything to be added
    order = best_first(scores, count)
    for rank in range(count):
        scores[order[rank]] = float(count - rank)
    for place in range(count):
        step = step_of(workload, cluster, jobs[place])
        if step > 0 and limit[STARVING] > 0.0:
            scores[place] = 2 * count - place  # who waits longest
        else:
            scores[place] += step * count


@compiled
def order_by_rail(workload: Workload, cluster: Cluster, order: IntArray) -> IntArray:
    """As `score_by_rail`, for pending jobs that already stand in order.

    Returns:
        The order, a copy where the rail changes it.
    """
    limit = cluster.limit
    if limit[STARVING] == 0.0 and limit[IN_FORCE] == 0.0:
        return order
    changed, last = np.empty_like(order), 0
    for step in (2, 1, 0):
        for job in order:
            if step_of(workload, cluster, job) == step:
                changed[last] = job
                last += 1
        if step == 2 and limit[STARVING] > 0.0:
            changed[:last].sort()  # by submission: who waits longest
    return changed
