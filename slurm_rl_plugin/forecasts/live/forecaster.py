"""Forecasts a whole queue repeatedly, and keeps the forecasts until they can be scored."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain import JobTable, QueueSnapshot
from slurm_rl_plugin.domain.jobs import RequestWatch
from slurm_rl_plugin.forecasts.forecast import LEVELS, Forecasts, covered, log_waits
from slurm_rl_plugin.forecasts.live.forecast_queue import (
    FEWEST_SCORED,
    ForecastQueue,
    JoinedForecasts,
    about,
    ahead_of,
    join,
)
from slurm_rl_plugin.forecasts.live.kept_forecasts import GivenRows, KeptForecasts
from slurm_rl_plugin.forecasts.live.site_at import SiteAt, site_in_log, site_now, with_present
from slurm_rl_plugin.forecasts.live.sources import PastWaits, ReplaySource, own_waits
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, BoolArray, FloatArray, IntArray
from slurm_rl_plugin.utility.summary import one_user_capped

#: A job's forecast is kept when it is first seen, and when its wait since then has doubled.
_SOONEST_AGAIN = 10.0 * MINUTE
#: Replays of a queue at least, whatever time they take, and of each look of the past.
_FIRST_DRAWS, _LOOK_DRAWS = 4, 8
#: Seconds that the replays of a forecast may take while a better one is being prepared.
_SECONDS_OF_EARLY = 5.0
#: Seconds of forecasts over which coverage is computed.
_LATELY = 28.0 * DAY
#: How often the forest of past waits is fitted anew, seconds.
_FIT_EVERY = 6.0 * HOUR
#: Past moments that are forecast at first, at most; their distance, seconds; jobs of each.
_LOOKS, _APART, _OF_ONE_LOOK = 40, 8.0 * HOUR, 40


@dataclass(slots=True, kw_only=True)
class Forecaster:
    """Forecasts the queue of one site."""

    source: ReplaySource  #: replays under the order in force
    kept: KeptForecasts  #: forecasts that were given
    draws: int  #: replays of each queue at most
    seconds: float  #: that they may take
    kept_days: float  #: days for which forecasts are kept
    monotonic: Callable[[], float]  #: clock of durations, seconds
    seed: int = 1  #: of all draws
    #: Why forecasts cannot be calibrated yet: what the service still has to read or to do; "" if
    #: only outcomes may be missing. Such forecasts are not kept: they would be scored as if they
    #: were made with all that is known.
    unready: str = ""
    _history: PreparedLog | None = None
    #: Whether it is a part of what accounting knows, so that its forest must not outlive it.
    _is_part: bool = False
    _past: PastWaits | None = None
    _fitted: float = -np.inf
    _requests: RequestWatch = field(default_factory=RequestWatch)

    def forecast(self, history: PreparedLog, snapshot: QueueSnapshot) -> ForecastQueue:
        """Score what has come true, then forecast the pending jobs of a look."""
        self.settle(snapshot)
        if history is not self._history:
            self.settle_by(history)
            if self.unready or self._is_part:
                self._past = None
            self._history, self._is_part = history, bool(self.unready)
        site, row = site_now(history, snapshot, self.source.half_life)
        earlier = self._earlier(snapshot.now)
        seconds = min(self.seconds, _SECONDS_OF_EARLY) if self.unready else self.seconds
        draws = self.replayed(site, site.pending, self.draws, seconds)
        told = self.joined(site, site.pending, draws, earlier)
        ahead, of_account = ahead_of(snapshot)
        if not self.unready:
            self._keep(snapshot, row, told)
        return ForecastQueue(
            snapshot=snapshot,
            place=row,
            why_not=_why_not(snapshot, row),
            ahead=ahead,
            of_account=of_account,
            told=told,
            covered=coverage(earlier, snapshot.now),
            unready=self.unready,
            knows_runs=site.knows_runs,
        )

    def _earlier(self, now: float) -> GivenRows:
        """The kept forecasts that bands and weights are made of; none while it is not ready."""
        return self.kept.rows(math.inf if self.unready else now - self.kept_days * DAY)

    def joined(
        self,
        site: SiteAt,
        jobs: IntArray,
        draws: FloatArray,
        earlier: GivenRows | None = None,
        past: PastWaits | None = None,
    ) -> JoinedForecasts:
        """Join the sources for some pending jobs of a site; nothing is kept.

        Args:
            jobs: ascending, shape [m].
            draws: their waits in replays, seconds, shape [m, draws].
            earlier: forecasts that were given; by default those that are kept.
            past: the forest of past waits; by default the one of the live queue.
        """
        if earlier is None:
            earlier = self._earlier(site.now)
        places = np.searchsorted(site.pending, jobs)
        if past is None:
            if self._past is None or not 0.0 <= site.now - self._fitted < _FIT_EVERY:
                self._past, self._fitted = self._learned(site), site.now
            past = self._past
        waits = past.forecasts(site)
        replays = Forecasts.of_draws(draws)
        if not site.knows_runs:  # the scheduler's own view; jobs that end earlier make the band
            replays = about(log_waits(self.source.planned(site, jobs)), replays)
        return join(
            replays,
            None if waits is None else waits.select(places),
            own_waits(site)[places],
            site.prepared.interactive[jobs],
            earlier,
            site.now,
        )

    def _learned(self, site: SiteAt) -> PastWaits:
        return PastWaits.of_site(site, np.random.default_rng([self.seed, 2]))

    def replayed(
        self, site: SiteAt, jobs: IntArray, most: int, seconds: float, least: int = _FIRST_DRAWS
    ) -> FloatArray:
        """Waits of some pending jobs in as many replays as there is time for, float64[m, draws].

        The same draws come for the same instant, so that one request can be held against another.
        Jobs are ascending; they may take some seconds, but for the `least` first replays.
        """
        if len(jobs) == 0:
            return np.empty((0, len(LEVELS)))
        rng = np.random.default_rng([self.seed, int(site.now)])
        until = self.monotonic() + seconds

        def goes_on(made: int) -> bool:
            return made < least or self.monotonic() < until

        return self.source.waits(site, jobs, most, rng, goes_on)

    def settle(self, snapshot: QueueSnapshot) -> None:
        """Note which kept jobs have started by a look, and which are in no queue any more.

        The forecasts of a job are withdrawn if the job cannot start at this look for a reason that
        its user controls, or asks for something else than at the look before. Its wait depends on
        the user then, and any user could fill the outcomes with waits that cost nothing.
        """
        pending, waits = snapshot.pending, snapshot.waits_for_machine
        changed = self._requests.compare(snapshot, np.ones(len(pending), dtype=np.bool_)).lost
        self._requests.commit()
        known = self.kept.open_jobs()
        if not known:
            return
        users_doing = ~waits if changed is None else ~waits | changed
        self.kept.withdraw(known.keys() & set(pending.jobs.job_id[users_doing].tolist()))
        starts: dict[int, float] = {}
        for table in (snapshot.ended, snapshot.running, snapshot.started):
            told = zip(table.jobs.job_id.tolist(), table.start.tolist(), strict=True)
            starts.update(
                (job, start) for job, start in told if job in known and math.isfinite(start)
            )
        here = {*snapshot.pending.jobs.job_id.tolist(), *snapshot.running.jobs.job_id.tolist()}
        self.kept.settle(starts, set(known) - here - set(starts))

    def settle_by(self, history: PreparedLog) -> None:
        """Note the starts from accounting of jobs that started and ended between two looks."""
        log = history.log
        unknown = self.kept.unsettled(float(log.submit[0])) if len(log) else set()
        told = zip(log.job_id.tolist(), log.start.tolist(), strict=True)
        starts = {job: start for job, start in told if job in unknown and math.isfinite(start)}
        self.kept.settle(starts, set())

    def look_back(
        self, history: PreparedLog, snapshot: QueueSnapshot
    ) -> Generator[tuple[int, int], None, int]:
        """Forecast moments of the past as if nothing of later were known, one at each step.

        The first calibrated forecasts rest on these. Live forecasts may be made between two steps.
        Who runs or waits in the present look did so in the past too. Yields how many moments are
        done, and how many there are; returns how many forecasts were scored.
        """
        ended = float((history.log.start + history.log.run_time).max())
        last = min(ended, snapshot.now)
        first = float(history.log.submit[0]) + 2.0 * DAY
        moments = np.arange(last - HOUR, first, -_APART)[:_LOOKS][::-1]
        known, count = with_present(history, snapshot, self.source.half_life), 0
        for number, moment in enumerate(moments.tolist()):
            count += self._forecast_past(site_in_log(known, moment, self.source.half_life))
            yield number + 1, len(moments)
        return count

    def _forecast_past(self, site: SiteAt) -> int:
        rng = np.random.default_rng([self.seed, int(site.now)])
        log = site.prepared.log
        could = ~(log.eligible[site.pending] > site.now)
        started = np.flatnonzero((log.job_id[site.pending] >= 0) & could)
        if len(started) == 0:
            return 0
        jobs = site.pending[np.sort(rng.permutation(started)[:_OF_ONE_LOOK])]
        before = self.kept.rows(site.now - self.kept_days * DAY).as_known_at(site.now)
        draws = self.replayed(site, jobs, _LOOK_DRAWS, np.inf)
        told = self.joined(site, jobs, draws, before, self._learned(site))
        chosen = log.select(jobs)
        interactive = site.prepared.interactive[jobs]
        self.kept.keep(_given(site.now, chosen, log, interactive, told, chosen.start))
        return len(jobs)

    def _keep(self, snapshot: QueueSnapshot, row: IntArray, told: JoinedForecasts) -> None:
        """Keep forecasts of single jobs that are due; drop what is too old."""
        jobs, tasks = snapshot.pending.jobs, snapshot.pending.tasks
        single = np.ones(len(row), dtype=np.bool_) if tasks is None else tasks == 1
        last = self.kept.open_jobs()
        due = [
            place
            for place in np.flatnonzero((row >= 0) & single).tolist()
            if snapshot.now - (given := last.get(int(jobs.job_id[place]), -np.inf))
            >= max(_SOONEST_AGAIN, given - float(jobs.submit[place]))
        ]
        if due:
            chosen, unknown = jobs.select(np.array(due)), np.full(len(due), np.nan)
            part = told.of(row[due])
            self.kept.keep(
                _given(snapshot.now, chosen, snapshot, chosen.interactive, part, unknown)
            )
        self.kept.forget(snapshot.now - self.kept_days * DAY)


def coverage(earlier: GivenRows, now: float) -> float:
    """Part of the waits of the last weeks inside their 90 % band; nan for too few."""
    counted = earlier.known & earlier.shown & (earlier.moment >= now - _LATELY)
    if counted.sum() < FEWEST_SCORED:
        return float("nan")
    inside = covered(earlier.forecasts.select(counted), earlier.wait_by(now)[counted], 0.9)
    weight = one_user_capped(np.ones(len(inside)), earlier.user[counted])
    return float(np.average(inside, weights=weight))


def _names(names: tuple[str, ...], index: IntArray) -> NDArray[np.str_]:
    """The user or partition of each job, "" where unknown, shape [n]."""
    return np.array((*names, ""), dtype=np.str_)[np.where(index < 0, len(names), index)]


def _given(
    now: float,
    jobs: JobTable | JobLog,
    names: QueueSnapshot | JobLog,
    interactive: BoolArray,
    told: JoinedForecasts,
    start: FloatArray,
) -> GivenRows:
    """Forecasts of some jobs to keep; `names` has the names of partitions and users."""
    count = len(jobs)
    return GivenRows(
        job=jobs.job_id,
        moment=np.full(count, now),
        partition=_names(names.partitions, jobs.partition),
        user=_names(names.users, jobs.user),
        kind=told.kind,
        interactive=interactive,
        shown=np.full(count, told.scored >= FEWEST_SCORED),
        sources=told.sources,
        plain=told.plain,
        forecasts=told.forecasts,
        start=start,
        gone=np.zeros(count, dtype=np.bool_),
        stands_for=np.ones(count),
    )


def _why_not(snapshot: QueueSnapshot, row: IntArray) -> tuple[str, ...]:
    """Why each pending job has no forecast; "" if it has one."""
    pending = snapshot.pending
    reasons = {
        "": row >= 0,
        "it is held: it cannot start before it is released.": pending.held,
        "it waits for a dependency or a limit of its own user or account.": pending.each_own_doing,
        "it may not start yet: its begin time or what it depends on is to come.": (
            pending.jobs.eligible > snapshot.now
        ),
    }
    never = "the machine as it is now never holds it."
    return tuple(np.select([*reasons.values()], [*reasons], default=never).tolist())
