"""A small site for tests of live forecasts: its accounting, its queue, and a forecaster of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain import JobTable, PendingJobs, QueueSnapshot, RunningJobs, StartedJobs
from slurm_rl_plugin.domain.jobs import EndedJobs
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.forecasts.live.forecaster import Forecaster
from slurm_rl_plugin.forecasts.live.kept_forecasts import KeptForecasts
from slurm_rl_plugin.forecasts.live.site_at import SiteAt
from slurm_rl_plugin.forecasts.live.sources import ReplaySource, rule_order
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_scores
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import DAY, HOUR, FloatArray, IntArray

PROCESSORS = 32
USERS, ACCOUNTS, PARTITIONS = ("ann", "ben", "cid", "dot"), ("physics", "biology"), ("batch",)
#: When the first job came, seconds since the epoch.
BEGIN = 1_700_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSite:
    """A site whose whole life is known to the test, and not to the forecaster."""

    log: JobLog  #: every job, with the start that it will have
    machine: Machine | None = None  #: its nodes; None where processors alone are known

    def history(self, now: float) -> PreparedLog:
        """What accounting has: runs that have ended."""
        over = self.log.start + self.log.run_time <= now
        return prepare_log(self.log.select(over), capacity=PROCESSORS, machine=self.machine)

    def queue(self, now: float, since: float) -> QueueSnapshot:
        """A look at the queue, with what started and ended since the last one."""
        log = self.log
        end = log.start + log.run_time
        pending = np.flatnonzero((log.submit <= now) & (log.start > now))
        running = np.flatnonzero((log.start <= now) & (end > now))
        started = np.flatnonzero((log.start <= now) & (log.start > since))
        ended = np.flatnonzero((end <= now) & (end > since))
        age = (now - log.submit[pending]).astype(np.int64)
        waiting = replace(
            PendingJobs.untouched(self._table(pending)),
            native_priority=age,
            one_partition=np.ones(len(pending), dtype=np.bool_),
        )
        return QueueSnapshot(
            now=now,
            pending=waiting,
            running=RunningJobs(jobs=self._table(running), start=log.start[running]),
            started=StartedJobs(jobs=self._table(started), start=log.start[started]),
            ended=EndedJobs(jobs=self._table(ended), start=log.start[ended], end=end[ended]),
            capacity=PROCESSORS,
            accounts=log.accounts,
            partitions=log.partitions,
            shares=np.array([0.5, 0.5]),
            usage=np.array([0.5, 0.5]),
            users=log.users,
        )

    def start_of(self, jobs: IntArray) -> FloatArray:
        """When jobs will start, by their numbers."""
        return self.log.start[jobs - 1]

    def _table(self, places: IntArray) -> JobTable:
        chosen = self.log.select(places)
        interactive = np.zeros(len(places), dtype=np.bool_)
        return JobTable.classed(chosen, interactive=interactive, account=chosen.account)


def live_site(days: float = 16.0, *, load: float = 0.95, seed: int = 1) -> LiveSite:
    """Jobs of templates whose limits are several times what they run, first come first served."""
    rng = np.random.default_rng(seed)
    template = rng.integers(0, 24, size=round(60 * days))
    count = len(template)
    hours = rng.choice([0.2, 0.5, 1.0, 3.0, 8.0], size=24)
    width = rng.choice([1, 2, 4, 8, 16], size=24).astype(np.int64)
    run_time = np.maximum(hours[template] * HOUR * rng.lognormal(0.0, 0.4, count), 60.0)
    work = float((run_time * width[template]).sum())
    span = work / (PROCESSORS * load)
    submit = BEGIN + np.sort(rng.uniform(0.0, span, count))
    limit = np.ceil(hours[template] * 4.0) * HOUR
    run_time = np.minimum(run_time, limit)
    log = JobLog(
        job_id=np.arange(1, count + 1),
        submit=submit,
        eligible=submit,
        processors=width[template],
        time_limit=limit,
        account=(template % 2).astype(np.int64),
        user=(template % 4).astype(np.int64),
        partition=np.zeros(count, dtype=np.int64),
        start=submit,
        run_time=run_time,
        accounts=ACCOUNTS,
        users=USERS,
        partitions=PARTITIONS,
        kind="sacct",
    )
    prepared = prepare_log(log, capacity=PROCESSORS)
    workload = prepared.workload(RequestedLimit())
    settings = SimulationSettings(capacity=PROCESSORS, backfilling="easy")
    start = simulate_scores(workload, -workload.submit, settings).start
    return LiveSite(log=replace(log, start=start))


def last_days(site: LiveSite, days: float, every: float) -> FloatArray:
    """Times of looks that end a day before the last submission, seconds since the epoch."""
    end = float(site.log.submit[-1]) - DAY
    return np.arange(end - days * DAY, end, every)


def replay_source() -> ReplaySource:
    """Plays a first come, first served queue forward."""
    return ReplaySource(
        order=rule_order("fifo"),
        backfilling="easy",
        on_nodes="slurm",
        half_life=7.0 * DAY,
    )


@dataclass(slots=True)
class Clock:
    """A clock that goes on by hand."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeReplays(ReplaySource):
    """Replays that take a given time by a clock; a job that requests less starts sooner."""

    clock: Clock
    took: float  #: seconds of a replay
    seen: list[SiteAt] = field(default_factory=list)  #: what was played forward
    made: list[int] = field(default_factory=list)  #: how many replays of each

    @classmethod
    def taking(cls, seconds: float) -> FakeReplays:
        source = replay_source()
        known = {name: getattr(source, name) for name in ReplaySource.__slots__}
        return cls(**known, clock=Clock(), took=seconds)

    def waits(
        self,
        site: SiteAt,
        jobs: IntArray,
        draws: int,
        rng: np.random.Generator,
        goes_on: Callable[[int], bool] | None = None,
    ) -> FloatArray:
        count = 0
        while count < draws and not (count and goes_on and not goes_on(count)):
            self.clock.now += self.took
            count += 1
        self.seen.append(site)
        self.made.append(count)
        asks = site.prepared.log.select(jobs)
        wait = asks.processors * np.nan_to_num(asks.time_limit, nan=DAY)
        return np.tile(wait.astype(np.float64)[:, None], count)


def forecaster(folder: Path, *, draws: int = 8) -> Forecaster:
    """Forecasts a first come, first served queue."""
    return Forecaster(
        source=replay_source(),
        kept=KeptForecasts(folder / "forecasts.sqlite"),
        draws=draws,
        seconds=60.0,
        kept_days=42.0,
        monotonic=time.monotonic,
    )


def looked_back(folder: Path, site: LiveSite, now: float) -> Forecaster:
    """One with forecasts of the site's past."""
    made = forecaster(folder)
    deque(made.look_back(site.history(now), site.queue(now, now)), maxlen=0)
    return made


def busy_look(site: LiveSite, looks: FloatArray) -> float:
    """Of some times the first at which several jobs wait."""
    waiting = [
        np.count_nonzero((site.log.submit <= now) & (site.log.start > now))
        for now in looks.tolist()
    ]
    return float(looks[int(np.argmax(np.array(waiting) >= 4))])
