"""The reserve as a live batch system keeps it: a limit on what the batch class uses together.

The papers' hold action starts a batch job only where the reserve stays free behind it. A batch
system has no such action; it has a limit on a class (Slurm: GrpTRES of a QOS; PBS: max_run_res).
The limit changes seldom, jobs at the limit are passed over without blocking others, and wide jobs
starve below it unless it is lifted for them. The rules are those of the hook's guard rail.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.kernel.cluster import Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.simulator.kernel.dispatch import best_first
from slurm_rl_plugin.simulator.kernel.workload import Records
from slurm_rl_plugin.units import DAY, HOUR, FloatArray, IntArray

#: Ways to keep a reserve, as `--reserve-as` names them.
FREE, LIMIT = "free", "limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLimit:
    """How the limit of the batch class follows the wanted reserve; see [reserve]."""

    widest_batch_job: int = 1  #: processors; batch jobs up to this width always fit into the limit
    change_interval: float = 60.0  #: seconds between two changes of the limit; it is lifted at once
    #: Seconds after which a waiting batch job of several processors lifts the limit until it
    #: starts, and goes first; inf for never.
    lift_after: float = DAY
    #: Seconds after the last interactive submission, from when there is no limit; inf for never.
    idle_after: float = HOUR
    #: Below the limit, batch jobs wider than `widest_batch_job` go last: they may not start, and
    #: would only keep processors from the others.
    narrow_first: bool = False
    most: float = math.inf  #: processors kept free at most, whatever the policy wants
    #: On nodes, the most that is kept free of other resources; memory in MiB. The part of it is
    #: that of `most` processors.
    most_resources: Mapping[str, float] = field(default_factory=dict)
    #: How much of each a batch job may ask for and always fits; 1 by default.
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
        """The settings for reports and manifests; other resources only where any is kept free."""
        return {name: value for name, value in asdict(self).items() if value != {}}


def limit_class(cluster: Cluster, rule: ClassLimit | None) -> None:
    """Let an empty cluster keep its reserve by this rule; without a rule processors stay free."""
    if rule is None:
        return
    state = cluster.state
    state.limited = 1.0
    state.widest, state.change_interval = rule.widest_batch_job, rule.change_interval
    state.lift_after, state.idle_after = rule.lift_after, rule.idle_after
    state.narrow_first, state.most = rule.narrow_first, rule.most
    state.set_at, state.last_came, state.wake = -np.inf, -np.inf, np.inf


@compiled_borrowing
def reserve_in_force(cluster: Cluster, wanted: int) -> int:
    """The reserve that a decision uses: `wanted`, or the capacity less what batch jobs may use.

    The limit of the cluster changes in place. `wanted`: processors to keep free of batch work.
    """
    state, now = cluster.state[0], cluster.state[0].now
    if state.limited == 0.0:
        return wanted
    for job in range(int(state.came), state.next_arrival):
        if cluster.jobs[job].interactive:
            state.last_came = cluster.jobs[job].submit
    state.came = state.next_arrival
    wanted = min(wanted, int(min(state.most, state.capacity)))
    starves_at = _starves_at(cluster)
    nobody_at = state.last_came  # -inf where none has ever come
    if not np.isinf(nobody_at):
        nobody_at += state.idle_after
    kept = 0
    if wanted > 0 and starves_at > now and nobody_at > now:
        room = state.capacity - state.running_interactive - wanted
        kept = state.capacity - max(room, int(state.widest))
    starving = wanted > 0 and nobody_at > now and starves_at <= now
    state.starving = 1.0 if starving else 0.0
    state.wanted = wanted if starves_at > now and nobody_at > now else 0.0
    may_change = state.set_at + state.change_interval
    if kept != state.in_force and (starving or now >= may_change):
        state.in_force, state.set_at = kept, now
    state.wake = may_change if kept != state.in_force else np.inf
    for time in (starves_at, nobody_at):
        if time > now:
            state.wake = min(state.wake, time)
    return int(state.in_force)


@compiled_borrowing
def _may_starve(jobs: Records, job: int) -> bool:
    """Whether narrower jobs may take all that becomes free below the limit before this job."""
    if jobs[job].interactive:
        return False
    return jobs[job].asks_much or jobs[job].processors > 1


@compiled_borrowing
def _starves_at(cluster: Cluster) -> float:
    first = np.inf
    for place in range(cluster.state[0].pending):
        job = cluster.pending[place]
        if _may_starve(cluster.jobs, job):
            first = min(first, cluster.jobs[job].submit + cluster.state[0].lift_after)
    return first


@compiled_borrowing
def rail_step(cluster: Cluster, job: int) -> int:
    """The step of a job: higher steps go first (starving jobs; interactive ones at a limit)."""
    state = cluster.state[0]
    if state.starving > 0.0:
        starves = cluster.jobs[job].submit + state.lift_after <= state.now
        return 2 if starves and _may_starve(cluster.jobs, job) else 0
    if state.in_force == 0.0:
        return 0
    if cluster.jobs[job].interactive:
        return 2
    return 1 if state.narrow_first > 0.0 and cluster.jobs[job].processors <= state.widest else 0


@compiled_borrowing
def rail_orders(cluster: Cluster) -> bool:
    """Whether the rail of the reserve puts jobs first, after `reserve_in_force`."""
    return cluster.state[0].starving != 0.0 or cluster.state[0].in_force != 0.0


@compiled
def raise_steps(cluster: Cluster, scores: FloatArray, numbers: IntArray) -> None:
    """Make ranks of the scores of `numbers`, the pending jobs, that put higher steps first."""
    count = cluster.state[0].pending
    # ranks, because a score may be too large for anything to be added
    order = best_first(scores, count)
    for rank in range(count):
        place = order[rank]
        scores[place] = float(count - rank + rail_step(cluster, numbers[place]) * count)


@compiled
def score_by_rail(cluster: Cluster, scores: FloatArray, numbers: IntArray) -> None:
    """Raise the scores of the jobs that the rail of the reserve puts first, in place.

    Scores are those of `numbers`, the pending jobs in order of submission.
    """
    raise_steps(cluster, scores, numbers)
    count = cluster.state[0].pending
    for place in range(count if cluster.state[0].starving > 0.0 else 0):
        if rail_step(cluster, numbers[place]) > 0:
            scores[place] = 2 * count - place  # the longest wait first


@compiled_borrowing
def order_by_rail(cluster: Cluster, order: IntArray, count: int, ordered: IntArray) -> None:
    """As `score_by_rail`, for `count` pending jobs in order: fill `ordered`."""
    state, last = cluster.state[0], 0
    for step in (2, 1, 0):
        for place in range(count):
            if rail_step(cluster, order[place]) != step:
                continue
            to = last
            while state.starving > 0.0 and step == 2 and to > 0 and ordered[to - 1] > order[place]:
                ordered[to] = ordered[to - 1]  # the longest wait first
                to -= 1
            ordered[to] = order[place]
            last += 1
