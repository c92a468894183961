"""Replays of a queue from an instant on, with drawn run times and arrivals: when its jobs start.

The instant is now, or the submission of a job in a schedule of a log.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.features.history.run_history import PARTS
from slurm_rl_plugin.simulator.kernel.cluster import account_usage_until
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.machine_now import NodeMachine
from slurm_rl_plugin.simulator.schedules.on_nodes import SlurmPasses
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.run import HeldNodes, Run, run_until_started
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.network import CompiledNetwork
from slurm_rl_plugin.simulator.scoring.site_priority import FairShare
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.simulator.workloads.recorded_runs import RecordedPast
from slurm_rl_plugin.units import DAY, FloatArray, IntArray

#: Shares of the runs that end before each knot: none, PARTS, all.
_SHARES = np.array([0.0, *PARTS, 1.0])
#: No run is drawn shorter, in seconds.
_SHORTEST = 1.0
#: How far apart two knots are at least, in log10 of seconds, so that each has one share.
_APART = 1e-6
#: How jobs of a workload are ordered, which are these of the known jobs, each at a new time.
OrderOf = Callable[[Workload, IntArray], QueueOrder]
#: Seconds after which a replay is given up.
_FURTHEST = 90 * DAY
#: Jobs arrive for this multiple of the longest planned wait; least and most seconds.
_BEYOND_PLAN, _SOONEST, _LATEST = 2.0, DAY, 14 * DAY
#: Seconds of a block where so much is known; submissions go by the hour and the day of the week.
WEEK = 7 * DAY
#: From how many of the last weeks, or days, a block is drawn.
_BLOCKS = 6
#: The part of the time since now for which a replay keeps an order; see `ReplayedSite`.
_KEPT = 0.02


def run_before(
    queue: QueueNow,
    workload: Workload,
    jobs: IntArray,
    order: QueueOrder,
    settings: SimulationSettings,
    machine: NodeMachine | None,
    *,
    keeps_order: bool = False,
) -> tuple[Run, IntArray]:
    """A run that has not begun, and the places of the running jobs in its workload.

    Args:
        queue: who runs and who waits; numbers of known jobs.
        workload: those jobs in order of submission, behind them who comes later.
        jobs: number of each job of the workload among the known ones, shape [n].
        settings: the batch system; a machine that holds less than what runs is made as large: some
            may run on what was taken off it since.
        machine: its nodes, for all known jobs; None for a pool of processors.
        keeps_order: see `Run.of`.
    """
    present = jobs[: len(queue.running) + len(queue.pending)]
    runs = np.searchsorted(present, queue.running)
    held = int(workload.processors[runs].sum())
    settings = replace(settings, capacity=max(settings.capacity, held))
    if machine is None:
        run = Run.of(workload, order, settings, keeps_order=keeps_order)
    else:
        nodes = machine.of_jobs(jobs)
        run = Run.on_nodes(workload, nodes, order, settings, keeps_order=keeps_order)
    # what was charged and waited before it
    run.cluster.accounts.usage[: len(queue.usage)] = queue.usage
    if queue.fair is not None:
        run.queue.effects.site.fair.resume(queue.fair)
    network = run.queue.network
    if isinstance(network, CompiledNetwork):
        network.history.since[0] = queue.now
        if queue.longest is not None and len(network.longest):
            network.longest[:] = queue.longest
    return run, runs


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNow:
    """A queue at one instant; jobs are numbers among those that are known."""

    now: float  #: seconds
    running: IntArray  #: jobs that run, in the order of their starts, shape [r]
    start: FloatArray  #: when each of them started, seconds, shape [r]
    pending: IntArray  #: jobs that wait, ascending, shape [p]
    usage: FloatArray  #: what each account was charged until now, decayed, shape [accounts]
    #: The same of each association of the site's tree, as its own priority counts usage; None where
    #: nothing is known.
    fair: FairShare | None = None
    #: The longest wait known, and when, seconds (`CompiledNetwork.longest`); None where
    #: nothing is known.
    longest: FloatArray | None = None
    #: Which nodes the running jobs hold; None where that is known of none.
    held: HeldNodes | None = None
    #: When slurmctld looked at its queue, as `SlurmPasses.last`; None where not known.
    looks: FloatArray | None = None


def queue_met(run: Run, job: int, submit: float) -> QueueNow:
    """The queue that a job meets at its submission: the job and others of that second are last.

    On nodes with the nodes that the running jobs hold.
    """
    cluster = run.cluster
    running = cluster.running.expected_job[: cluster.state[0].running]
    # of jobs that are expected to end together it keeps who was started first
    running = running[np.argsort(cluster.start[running], kind="stable")]
    pending = np.sort(cluster.pending[: cluster.state[0].pending])
    columns = ("usage_time", "accounts")  # what it has been charged by then; it is left as it is
    seen = cluster._replace(**{name: getattr(cluster, name).copy() for name in columns})
    account_usage_until(seen, submit)
    network, longest = run.queue.network, None
    if isinstance(network, CompiledNetwork) and len(network.longest):
        longest = network.longest.copy()
    met = QueueNow(
        now=submit,
        running=running,
        start=cluster.start[running],
        pending=np.append(pending, np.arange(cluster.state[0].next_arrival, job + 1)),
        usage=seen.accounts.usage,
        fair=run.queue.effects.site.counted(cluster, submit),
        longest=longest,
    )
    if run.looks is None:
        return met
    places = [run.place_of(number) for number in met.running.tolist()]
    held = HeldNodes(
        first=np.cumsum([0, *map(len, places)]),
        node=np.array([node for place in places for node in place], dtype=np.int64),
        cpus=np.array([cpus for place in places for cpus in place.values()]),
    )
    looks = run.looks.last.copy() if isinstance(run.looks, SlurmPasses) else None
    return replace(met, held=held, looks=looks)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpreads:
    """How run times of jobs are spread."""

    #: Log10 of the seconds before which `_SHARES` of such runs end, shape [n, knots].
    knots: FloatArray

    @classmethod
    def of_quantiles(cls, quantiles: FloatArray, limit: FloatArray) -> RunSpreads:
        """Of a model's predictions; no run is longer than its limit.

        Beyond the outermost quantiles the share falls and rises as between their neighbours, down
        to a second and up to the limit. All in seconds, shapes [n, PARTS] and [n].
        """
        most = np.log10(np.maximum(limit, _SHORTEST))[:, None]
        logs = np.minimum(np.log10(np.maximum(quantiles, _SHORTEST)), most)
        shortest = logs[:, :1] - (logs[:, 1:2] - logs[:, :1])
        knots = np.concatenate([np.maximum(shortest, 0.0), logs, most], axis=1)
        apart = _APART * np.arange(knots.shape[1])
        return cls(knots=np.maximum.accumulate(knots, axis=1) + apart)

    def evenly(self, count: int) -> FloatArray:
        """Run times of the first job at even shares of all such runs, ascending, [count]."""
        knots = np.repeat(self.knots[:1], count, axis=0)
        shares = (np.arange(count) + 0.5) / count
        return RunSpreads(knots=knots).drawn(np.zeros(count), shares)

    def drawn(self, ran: FloatArray, share: FloatArray) -> FloatArray:
        """Run times of the jobs by how long each has run, 0 for one that waits, seconds, [n].

        `share` is drawn evenly from (0, 1), shape [n].
        """
        knots = self.knots
        gone = _share_below(knots, np.log10(np.maximum(ran, _SHORTEST)))
        gone = np.where(ran > 0.0, gone, 0.0)
        drawn = 10.0 ** _at_share(knots, gone + (1.0 - gone) * share)
        return np.maximum(drawn, np.maximum(ran + 1.0, _SHORTEST))


def _share_below(knots: FloatArray, at: FloatArray) -> FloatArray:
    """Share of runs that end before `at`, log10 of seconds; row by row."""
    place = np.clip((knots <= at[:, None]).sum(axis=1) - 1, 0, knots.shape[1] - 2)
    row = np.arange(len(knots))
    low, high = knots[row, place], knots[row, place + 1]
    part = np.clip((at - low) / (high - low), 0.0, 1.0)
    return np.asarray(_SHARES[place] + part * np.diff(_SHARES)[place])


def _at_share(knots: FloatArray, share: FloatArray) -> FloatArray:
    """log10 of the seconds before which a share of the runs ends; row by row."""
    place = np.clip(np.searchsorted(_SHARES, share, side="right") - 1, 0, len(_SHARES) - 2)
    row = np.arange(len(knots))
    part = (share - _SHARES[place]) / np.diff(_SHARES)[place]
    return np.asarray(knots[row, place] + part * (knots[row, place + 1] - knots[row, place]))


def past_arrivals(
    known: FloatArray, now: float, span: float, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Jobs of past weeks as if they came again, one drawn week behind the other.

    In the first week of a log days are drawn, at the same hour; on its first day no job arrives.
    Of all known submissions, in order, those after `now` are not looked at. Returns numbers of the
    jobs that come within a span from now, and when, ascending; each [m], all in seconds.
    """
    block = WEEK if now - known[0] >= WEEK else DAY
    whole = int((now - known[0]) // block)
    if whole < 1:
        return np.empty(0, dtype=np.int64), np.empty(0)
    jobs, submit = [], []
    for ahead in range(math.ceil(span / block)):
        back = block * int(rng.integers(1, min(whole, _BLOCKS) + 1))
        until = min(span - ahead * block, block)
        first, last = np.searchsorted(known, [now - back, now - back + until], "right")
        jobs.append(np.arange(first, last))
        submit.append(known[first:last] + back + ahead * block)
    return np.concatenate(jobs), np.concatenate(submit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedSite:
    """What is known of a site."""

    #: Every known job in order of submission; estimates are what the batch system plans with. The
    #: run times are not looked at.
    jobs: Workload
    #: Predicted quantiles of the run times of some of them, as `RunSpreads` takes them.
    quantiles: Callable[[IntArray], FloatArray]
    #: How its queue is ordered: jobs that come again must not keep what their first submission gave
    #: them.
    order: OrderOf
    settings: SimulationSettings  #: its batch system
    #: Chance that a run time is drawn for all jobs of a template at once and not for each: runs of
    #: a series are long or short together.
    together: float = 0.9
    #: Its nodes, for all known jobs; None for a pool of processors.
    machine: NodeMachine | None = None
    #: Part of the time since now for which scores are kept that change while jobs wait, a minute at
    #: least; 0 where they are made at each decision, which is exact and, with thousands of jobs
    #: that wait, slow.
    kept: float = 0.0

    def starts(
        self,
        queue: QueueNow,
        awaited: IntArray,
        draws: int,
        rng: np.random.Generator,
        goes_on: Callable[[int], bool] | None = None,
    ) -> FloatArray:
        """When jobs start in replays with drawn run times and arrivals, seconds, [m, draws].

        Jobs come for twice as long as the plan lets the awaited ones wait, a day at least and two
        weeks at most. What has not started after 90 days is said to start then.

        Args:
            awaited: some of the pending jobs, or all, shape [m].
            goes_on: asked after each replay, with how many were made, whether there is time for
                more; fewer columns come back where it says no.
        """
        planned = float(self.planned(queue, awaited).max(initial=queue.now)) - queue.now
        span = min(max(_BEYOND_PLAN * planned, _SOONEST), _LATEST)
        found: list[FloatArray] = []
        while len(found) < draws and not (found and goes_on and not goes_on(len(found))):
            coming, submit = past_arrivals(self.jobs.submit, queue.now, span, rng)
            found.append(self._replayed(queue, awaited, coming, submit, rng))
        return np.stack(found, axis=1)

    def planned(self, queue: QueueNow, awaited: IntArray) -> FloatArray:
        """When jobs would start if all ran as long as planned and no job arrived, seconds, [m].

        This is what a batch system says of itself, as `squeue --start` does.
        """
        nobody = np.empty(0, dtype=np.int64)
        return self._replayed(queue, awaited, nobody, np.empty(0), None)

    def line(self, queue: QueueNow) -> IntArray:
        """The pending jobs in the order that replays begin with, the first first, shape [p]."""
        jobs = np.sort(np.concatenate([queue.running, queue.pending]))
        workload = self.jobs.select(jobs)
        # who goes first is a matter of the order, not of nodes or of who is let past
        settings = replace(self.settings, backfilling="none")
        order = self.order(workload, jobs)
        run, runs = run_before(queue, workload, jobs, order, settings, None, keeps_order=True)
        return np.asarray(jobs[run.line_up(queue.now, runs, queue.start)])

    def spreads(self, jobs: IntArray) -> RunSpreads:
        """How run times of some known jobs are spread."""
        return RunSpreads.of_quantiles(self.quantiles(jobs), self.jobs.time_limit[jobs])

    def _replayed(
        self,
        queue: QueueNow,
        awaited: IntArray,
        coming: IntArray,
        submit: FloatArray,
        rng: np.random.Generator | None,
    ) -> FloatArray:
        present = np.sort(np.concatenate([queue.running, queue.pending]))
        jobs = np.concatenate([present, coming])
        chosen = self.jobs.select(jobs)
        ran = np.zeros(len(jobs))
        runs = np.searchsorted(present, queue.running)
        ran[runs] = queue.now - queue.start
        if rng is None:
            run_time = np.maximum(chosen.estimate, ran + 1.0)
        else:
            run_time = self.spreads(jobs).drawn(ran, self._shares(jobs, rng))
        workload = chosen.having(
            submit=np.concatenate([chosen.submit[: len(present)], submit]), run_time=run_time
        )
        order, keeps = self.order(workload, jobs), self.kept > 0.0
        run, runs = run_before(
            queue, workload, jobs, order, self.settings, self.machine, keeps_order=keeps
        )
        run.resume(queue.now, runs, queue.start, queue.held, queue.looks)
        places = np.searchsorted(present, awaited)
        run_until_started(run, places, queue.now + _FURTHEST, self.kept)
        start = run.cluster.start[places]
        return np.where(np.isnan(start), queue.now + _FURTHEST, start)

    def _shares(self, jobs: IntArray, rng: np.random.Generator) -> FloatArray:
        own = rng.random(len(jobs))
        template = self.jobs.past.template
        if len(template) == 0:
            return own
        _, group = np.unique(template[jobs], return_inverse=True)
        of_group = rng.random(int(group.max(initial=0)) + 1)[group]
        return np.where(rng.random(len(jobs)) < self.together, of_group, own)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedWaits:
    """Forecasts of some jobs at their submission by replays, and the waits that they had."""

    jobs: IntArray  #: numbers in the log, ascending, shape [m]
    wait: FloatArray  #: seconds, shape [m]
    drawn: FloatArray  #: waits of replays, seconds, shape [m, draws]
    planned: FloatArray  #: wait by the plan of limits, seconds, shape [m]


def replayed_waits(
    prepared: PreparedLog,
    start: FloatArray,
    order: OrderOf,
    settings: SimulationSettings,
    jobs: IntArray,
    *,
    draws: int,
    seed: int,
    progress: Callable[[int], None] = lambda _: None,
) -> ReplayedWaits:
    """Forecast the waits of some jobs of a log, each with what was known at its submission.

    Starts are those of all jobs in the schedule that the order made, seconds, shape [n]; jobs are
    ascending numbers. What is drawn for a job does not depend on the other jobs.
    """
    scheduled = replace(prepared, log=replace(prepared.log, start=start))
    workload = scheduled.workload(RequestedLimit())
    recorded = RecordedPast(scheduled, quantiles=True)
    machine = None if prepared.machine is None else node_machine(prepared.log, prepared.machine)
    site = ReplayedSite(
        jobs=workload.having(past=recorded.past),
        quantiles=recorded.quantiles_now,
        order=order,
        settings=settings,
        machine=machine,
        kept=_KEPT,
    )
    whole = order(workload, np.arange(len(start)))
    if machine is None:
        run = Run.of(workload, whole, settings)
    else:
        run = Run.on_nodes(workload, machine, whole, settings)
    drawn, planned = np.empty((len(jobs), draws)), np.empty(len(jobs))
    submit = workload.submit[jobs]
    for place, number in enumerate(jobs.tolist()):
        now, awaited = float(submit[place]), jobs[place : place + 1]
        recorded.run(now)
        run.run_until(float(np.nextafter(now, -np.inf)))
        queue = queue_met(run, number, now)
        rng = np.random.default_rng([seed, number])
        planned[place] = site.planned(queue, awaited)[0] - now
        drawn[place] = site.starts(queue, awaited, draws, rng)[0] - now
        progress(place + 1)
    return ReplayedWaits(jobs=jobs, wait=start[jobs] - submit, drawn=drawn, planned=planned)
