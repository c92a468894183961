"""How much is kept free of batch work, whatever the policy wishes; and which jobs go first.

The reserve is counted as in training: processors that stay idle next to all running jobs. So batch
jobs may use the capacity less the reserve and less the processors of running interactive jobs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from slurm_rl_plugin.domain import Decision, JobTable, QueueSnapshot
from slurm_rl_plugin.domain.resources import CPUS, MEMORY
from slurm_rl_plugin.units import BoolArray, IntArray

#: Why the reserve is what it is; a closed list, since a metric's label takes these values.
KEPT, UNWANTED, NOBODY, STARVING = "kept", "unwanted", "nobody_came", "starving"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveSettings:
    """How much a policy may keep free for interactive jobs, and how often that may change.

    Attributes:
        most: processors kept free at most, and always for a policy that asks for no number.
        widest_batch_job: processors; batch jobs up to this width always fit into the limit.
        change_interval: seconds between two changes of the limit; lifting it does not wait.
        lift_after: a batch job of several processors that has waited for so many seconds lifts the
            limit until it starts; inf for none.
        idle_after: seconds since the last interactive job came, after which nothing is kept free;
            inf for ever.
        most_resources: of what else is kept free at most, by resource; whole, memory in MiB.
        widest_batch_resources: what of these a batch job may ask for and always fits; 1 where
            nothing is said.
        narrow_first: while something is kept, batch jobs wider than `widest_batch_job` go behind
            the other batch jobs.
        account_share, user_share: part of `most` that the interactive jobs of one account, and of
            one user, hold at most; see `claims`. 1 for no bound.
    """

    most: int
    widest_batch_job: int = 1
    change_interval: float = 60.0
    lift_after: float = math.inf
    idle_after: float = math.inf
    narrow_first: bool = False
    most_resources: Mapping[str, int] = field(default_factory=dict)
    widest_batch_resources: Mapping[str, int] = field(default_factory=dict)
    account_share: float = 1.0
    user_share: float = 1.0

    @property
    def account_most(self) -> float:
        """Processors that interactive jobs of one account hold at most; inf for no bound."""
        return self._part(self.account_share)

    @property
    def user_most(self) -> float:
        """The same of one user."""
        return self._part(self.user_share)

    def _part(self, share: float) -> float:
        most = math.ceil(round(share * self.most, 6))  # 0.07 * 100 is a little above 7
        return math.inf if share >= 1.0 else float(max(most, 1))


@dataclass(slots=True)
class ReserveRail:
    """Clips the reserve, ends it where nobody needs it or it harms, and puts interactive first.

    While it is above 0 every interactive job goes before every batch job: a batch job that waits
    for processors below the limit would block those behind it. A wide batch job blocks narrow ones
    too, and the limit may then keep it from starting: with `narrow_first` it waits behind them,
    until it starves.

    Attributes:
        settings: what the site allows.
        reason: of the last reserve, one of KEPT, UNWANTED, NOBODY and STARVING.
    """

    settings: ReserveSettings
    reason: str = UNWANTED
    _last_arrival: float = -math.inf

    def check(self, decision: Decision, snapshot: QueueSnapshot) -> Decision:
        """The decision with a reserve and an order within bounds; see `GuardRail.check`."""
        newest = max(self._last_arrival, newest_interactive(snapshot))
        self._last_arrival = min(newest, snapshot.now)  # no job came tomorrow: the clock was wrong
        wanted = self.settings.most if decision.reserve is None else max(decision.reserve, 0)
        reserve = min(wanted, self.settings.most, snapshot.capacity)
        starving = starving_jobs(snapshot, self.settings)
        nobody = snapshot.now - self._last_arrival > self.settings.idle_after
        if reserve == 0:
            self.reason = UNWANTED
        elif nobody or self._last_arrival == -math.inf:
            self.reason = NOBODY
        elif len(starving):
            self.reason = STARVING
        else:
            self.reason = KEPT
            steps = self._steps(snapshot.pending.jobs)
            _, rank = np.unique(decision.scores, return_inverse=True)
            scores = (rank + len(rank) * steps).astype(np.float64)
            return replace(decision, reserve=reserve, scores=scores, steps=steps)
        if self.reason == STARVING:
            decision = decision.putting_first(starving)
        return decision if decision.reserve == 0 else replace(decision, reserve=0)

    def _steps(self, jobs: JobTable) -> IntArray:
        """Interactive jobs above narrow batch jobs above wide ones, shape [n]."""
        narrow = self.settings.narrow_first & (jobs.processors <= self.settings.widest_batch_job)
        return np.where(jobs.interactive, 2, narrow).astype(np.int64)

    def go_on_from(self, earlier: ReserveRail) -> None:
        """After a reload: when the last interactive job came."""
        self._last_arrival = earlier._last_arrival


def newest_interactive(snapshot: QueueSnapshot) -> float:
    """When the newest interactive job came, seconds since the epoch; -inf where none is seen."""
    tables = (snapshot.pending.jobs, snapshot.running.jobs, snapshot.started.jobs)
    return max(float(jobs.submit[jobs.interactive].max(initial=-math.inf)) for jobs in tables)


def starving_jobs(snapshot: QueueSnapshot, settings: ReserveSettings) -> IntArray:
    """Places of the wide batch jobs that have waited beyond `settings.lift_after` seconds.

    Narrower jobs starve these below a limit, as they take each processor that becomes free. They
    ask for several processors, for several GPUs where these are limited, or for more memory than
    always fits. A job that more room would not help is not among them: it would take the reserve
    from all and not start. Nor is a job that waits for an unknown reason. The longest waiting comes
    first.
    """
    pending = snapshot.pending
    jobs = pending.jobs
    waited = snapshot.accrued_wait
    starved = ~jobs.interactive & ~pending.held & (waited > settings.lift_after)
    starved &= (jobs.processors > 1) | _asks_much(jobs, settings)
    starved &= pending.each_for_processors
    places = np.flatnonzero(starved & (jobs.processors <= snapshot.capacity))
    return places[np.argsort(-waited[places], kind="stable")]


def _asks_much(jobs: JobTable, settings: ReserveSettings) -> BoolArray:
    """Which jobs narrower ones may starve below a limit of another resource, shape [n]."""
    much = np.zeros(len(jobs), dtype=np.bool_)
    if jobs.requests is None:
        return much
    for name in settings.most_resources:
        fits = settings.widest_batch_resources.get(name, math.inf if name == MEMORY else 1)
        much |= jobs.requests.of(name) > (fits if name == MEMORY else 1)
    return much


def batch_limit(
    snapshot: QueueSnapshot, reserve: int, settings: ReserveSettings
) -> dict[str, int] | None:
    """What batch jobs may use together so that the reserve stays free; None for no limit.

    Of each resource: capacity - interactive in use - reserve, and never below what the widest batch
    job asks for. A resource that the machine lacks, or that the system does not show, is not
    limited.

    Args:
        snapshot: the queue.
        reserve: processors; 0 keeps none and so limits nothing.
        settings: what the site allows.

    Returns:
        Amounts by resource, CPUS for processors.
    """
    if reserve <= 0:
        return None
    running = snapshot.running.jobs
    in_use = int(running.processors[running.interactive].sum())
    limit = max(snapshot.capacity - in_use - reserve, settings.widest_batch_job, 1)
    limits = {CPUS: limit} if limit < snapshot.capacity else {}
    for name, most in settings.most_resources.items():
        whole, in_use = _of_resource(snapshot, name)
        kept = math.ceil(most * reserve / settings.most)
        limit = max(whole - in_use - kept, settings.widest_batch_resources.get(name, 1), 1)
        if kept and limit < whole:
            limits[name] = limit
    return limits or None


def _of_resource(snapshot: QueueSnapshot, name: str) -> tuple[int, int]:
    """What of it the machine has, and what interactive jobs use."""
    now, jobs = snapshot.resources, snapshot.running.jobs
    if now is None:
        return 0, 0
    # OpenPBS shows no requests where every running job asks for processors alone
    in_use = 0.0 if jobs.requests is None else jobs.requests.of(name)[jobs.interactive].sum()
    return math.floor(now.of(name, now.capacity)), math.ceil(in_use)
