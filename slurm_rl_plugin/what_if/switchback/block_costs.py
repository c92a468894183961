"""What blocks of time cost users by goal, measured and in replays by either order.

A job's wait is the time that it is pending, and its slowdown grows by 1 / max(run time, 10 s) in
each second of it. So waits and slowdowns are sums over time, and each second of them belongs to the
order that was in force then (Little's law).

How much users wait in a block is mostly a matter of who came and what ran. A replay of the block
under each order, of the same jobs from the same queue, takes that away, so that weeks suffice where
raw waits would need years. A replay knows no coin, so a wrong one makes intervals wider, not wrong
(control variates; Lin 2013 for the average of both).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np

from slurm_rl_plugin.domain.resources import Rows
from slurm_rl_plugin.domain.switchback import OURS, SITE, TurnBlock
from slurm_rl_plugin.forecasts.live.site_at import SiteAt, fair_share_until, usage_until
from slurm_rl_plugin.forecasts.live.sources import ReplaySource, SiteOrder, own_order
from slurm_rl_plugin.forecasts.replays import OrderOf, QueueNow, ReplayedSite, run_before
from slurm_rl_plugin.simulator.kernel.workload import Workload, WorkloadHistory, copied
from slurm_rl_plugin.simulator.nodes.machine_now import NodeMachine
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.site_priority import FairShare
from slurm_rl_plugin.simulator.workloads.recorded_runs import RecordedPast
from slurm_rl_plugin.units import HOUR, FloatArray

#: Run times count as this long at least (bounded slowdown, docs/research/definitions.md), seconds.
_SHORTEST_RUN = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTimes:
    """Jobs, and when they started; those that have not yet have NaN or inf."""

    #: in order of submission; of one that has not ended, the run time is predicted
    jobs: Workload
    start: FloatArray  #: seconds, shape [n]
    capacity: int  #: processors of the machine
    _until: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        waits = np.where(np.isfinite(self.start), self.start, np.inf)
        object.__setattr__(self, "_until", waits)

    def pending(self, begin: float, end: float) -> FloatArray:
        """Seconds for which each job was pending in a time, shape [n]."""
        return _overlap(self.jobs.submit, self._until, begin, end)

    def running(self, begin: float, end: float) -> FloatArray:
        """Seconds for which each job ran in a time, shape [n]."""
        return _overlap(self._until, self._until + self.jobs.run_time, begin, end)

    def present(self, begin: float, end: float) -> JobTimes:
        """The jobs that were there in a time."""
        here = (self.jobs.submit < end) & (self._until + self.jobs.run_time > begin)
        return JobTimes(jobs=self.jobs.select(here), start=self.start[here], capacity=self.capacity)


def _overlap(since: FloatArray, until: FloatArray, begin: float, end: float) -> FloatArray:
    return np.asarray(np.maximum(np.minimum(until, end) - np.maximum(since, begin), 0.0))


#: What costs users, less is better, in the order of GOAL_NAMES -> what it is, with its unit.
GOALS: Mapping[str, str] = {
    "bounded_slowdown": "slowdown that waiting jobs gather in an hour",
    "interactive_wait": "interactive jobs that wait, mean",
    "wait": "jobs that wait, mean",
    "longest_wait": "longest wait of a pending job, hours",
    "unused": "part of the machine that is not used",
    "unfairness": "largest part of a share that an account with waiting jobs lacks",
}


def costs(times: JobTimes, begin: float, end: float) -> FloatArray:
    """What a time cost by each of GOALS, shape [goals]; other jobs may be among `times`."""
    here = times.present(begin, end)
    jobs, span = here.jobs, end - begin
    pending, running = here.pending(begin, end), here.running(begin, end)
    grows = 1.0 / np.maximum(jobs.run_time, _SHORTEST_RUN)
    wait_on = (jobs.submit < end) & ~(here.start < end)
    used = float(running @ jobs.processors)
    return np.array(
        [
            float(pending @ grows) * HOUR / span,
            float(pending @ jobs.interactive) / span,
            float(pending.sum()) / span,
            float((end - jobs.submit[wait_on]).max(initial=0.0)) / HOUR,
            max(1.0 - used / (times.capacity * span), 0.0),
            _unfairness(jobs, pending, running),
        ]
    )


def _unfairness(jobs: Workload, pending: FloatArray, running: FloatArray) -> float:
    """The largest part of its share that an account lacked (definitions: 1 less fairness)."""
    service = np.bincount(jobs.account, running * jobs.billed, len(jobs.shares))
    if service.sum() <= 0.0:
        return 0.0
    wanted = np.bincount(jobs.account, pending, len(jobs.shares)) > 0.0
    lacks = np.where(wanted, np.maximum(jobs.shares - service / service.sum(), 0.0), 0.0)
    return float(lacks.max(initial=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCosts(Rows):
    """What blocks cost by each of GOALS, shape [blocks, goals].

    `measured` are on the cluster, the others in replays of the same blocks under either order.
    """

    measured: FloatArray
    by_site: FloatArray
    by_ours: FloatArray

    def __len__(self) -> int:
        return len(self.measured)

    @classmethod
    def none(cls) -> BlockCosts:
        """Of no block."""
        nothing = np.empty((0, len(GOALS)))
        return cls(measured=nothing, by_site=nothing, by_ours=nothing)

    def first(self, blocks: int) -> BlockCosts:
        """Those of the first blocks alone."""
        return BlockCosts(**{each.name: getattr(self, each.name)[:blocks] for each in fields(self)})

    def as_json(self) -> dict[str, list[list[float]]]:
        """What `of_json` reads."""
        return {each.name: getattr(self, each.name).tolist() for each in fields(self)}

    @classmethod
    def of_json(cls, document: Any) -> BlockCosts:
        """What `as_json` made; KeyError, TypeError or ValueError where it is no such document."""
        names = [each.name for each in fields(cls)]
        tables = [np.array(document[name], dtype=np.float64) for name in names]
        shaped = [table.reshape(-1, len(GOALS)) for table in tables]
        if len({len(each) for each in shaped}) != 1:
            raise ValueError("costs of as many blocks on the cluster as in replays")
        return cls(**dict(zip(names, shaped, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCluster:
    """A cluster whose blocks are played again."""

    times: JobTimes  #: every known job, with its real start
    orders: dict[str, OrderOf]  #: SITE and OURS -> how it orders the queue
    settings: SimulationSettings
    machine: NodeMachine | None = None  #: its nodes, for these jobs; None for a pool of processors
    #: what each account was charged until a time, decayed; None where no order asks
    usage: Callable[[float], FloatArray] | None = None
    #: the same of accounts and users; see QueueNow
    fair: Callable[[float], FairShare | None] | None = None
    #: the run history until a time; None if no order reads it, or `times` has it
    past: Callable[[float], WorkloadHistory] | None = None

    def costs(self, block: TurnBlock) -> BlockCosts:
        """What a block cost, and would have cost under either order."""
        begin, end = block.counted_from, block.end
        measured = costs(self.times, begin, end)
        by = {arm: costs(self.played(block, arm), begin, end) for arm in (SITE, OURS)}
        return BlockCosts(measured=measured[None], by_site=by[SITE][None], by_ours=by[OURS][None])

    def played(self, block: TurnBlock, arm: str) -> JobTimes:
        """The jobs of a block that is over as they would have started under one of ARMS' orders."""
        now, start, submit = block.begin, self.times.start, self.times.jobs.submit
        has_started = start <= now
        runs = np.flatnonzero(has_started & (start + self.times.jobs.run_time > now))
        waits = np.flatnonzero((submit <= now) & ~has_started)
        comes = np.flatnonzero((submit > now) & (submit < block.end))
        jobs = np.concatenate([np.sort(np.concatenate([runs, waits])), comes])
        known = self.times.jobs
        if self.past is not None:  # no order may know what came of runs only later
            known = known.having(past=self.past(now))
        chosen = known.select(jobs)
        running = runs[np.lexsort((runs, start[runs]))]
        queue = QueueNow(
            now=now,
            running=running,
            start=start[running],
            pending=waits,
            usage=np.empty(0) if self.usage is None else self.usage(now),
            fair=None if self.fair is None else self.fair(now),
        )
        order = self.orders[arm](chosen, jobs)
        run, placed = run_before(queue, chosen, jobs, order, self.settings, self.machine)
        run.resume(queue.now, placed, queue.start, queue.held, queue.looks)
        run.run_until(block.end)
        return JobTimes(jobs=chosen, start=run.cluster.start, capacity=self.times.capacity)


def costs_of_blocks(
    cluster: ReplayedCluster,
    blocks: tuple[TurnBlock, ...],
    progress: Callable[[int], None] = lambda _: None,
) -> BlockCosts:
    """What blocks that are over cost, in order of time; `progress` is called with 1 for each."""
    found = BlockCosts.none()
    for block in blocks:
        found = found.joined(cluster.costs(block))
        progress(1)
    return found


def live_cluster(
    site: SiteAt, source: ReplaySource, present: SiteOrder, ours: SiteOrder
) -> ReplayedCluster:
    """The cluster up to the instant of a look.

    `source` says how its queue is played forward; its order is not looked at. `present` is the
    order that `ours` is compared with.
    """
    start = site.prepared.log.start.copy()
    start[site.pending] = np.inf
    played, queue = replace(source, order=own_order).at(site)
    jobs = played.jobs.having(run_time=_run_times(played, queue))

    recorded, last = RecordedPast(site.prepared), -np.inf

    def past(time: float) -> WorkloadHistory:
        """The run history before a time; in order of time all calls cost no more than one."""
        nonlocal recorded, last
        if time < last:
            recorded = RecordedPast(site.prepared)
        recorded.run(time)
        last = time
        return copied(recorded.past)

    return ReplayedCluster(
        times=JobTimes(jobs=jobs, start=start, capacity=played.settings.capacity),
        orders={SITE: present(site), OURS: ours(site)},
        settings=played.settings,
        machine=played.machine,
        usage=partial(usage_until, site.prepared, half_life=source.half_life),
        fair=partial(fair_share_until, site.prepared, half_life=source.half_life),
        past=past,
    )


def _run_times(played: ReplayedSite, queue: QueueNow) -> FloatArray:
    """Of all jobs; of those that have not ended the median prediction, seconds.

    A job's slowdown grows the faster, the shorter it runs. By their limits those who ask for much
    would wait for nothing, and an order that leaves them waiting would seem to do no harm.
    """
    jobs = np.concatenate([queue.running, queue.pending])
    found = played.jobs.run_time.copy()
    if len(jobs) > 0:
        ran = np.concatenate([queue.now - queue.start, np.zeros(len(queue.pending))])
        found[jobs] = played.spreads(jobs).drawn(ran, np.full(len(jobs), 0.5))
    return found
