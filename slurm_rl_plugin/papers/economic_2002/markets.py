"""The workloads of the 2002 paper, and the markets and schedulers that run on them.

The control is first come, first served with backfilling on the machines of a market. Each job has a
home machine. A job wider than every machine starts on several at once, at no cost, as in the
market. A reservation is held by the first job that waits for a machine (EASY), or by every waiting
job (conservative backfilling). Reservations are made again at each event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.accounting.swf.reader import SwfReader
from slurm_rl_plugin.brokers.market.formula import MACHINE_FUNCTIONS, USER_FUNCTIONS
from slurm_rl_plugin.brokers.market.market_simulation import MarketSettings, simulate_market
from slurm_rl_plugin.brokers.market.timetable import (
    NEXT,
    RUNNING,
    WAITING,
    Agreements,
    MarketJobs,
    Timetable,
    earliest,
    empty_timetable,
    end_jobs,
    next_event,
    no_agreements,
    tabulate_running,
    take,
)
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.papers.study.result_store import ResultStore, stem_of
from slurm_rl_plugin.papers.study.trials import archived_log
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_scores
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.resampling import WEEK, resample_weeks
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Home of a job that is wider than every machine.
_ALL = -1


def starts_on_machines(
    workload: Workload, machines: tuple[int, ...], *, least_loaded: bool, conservative: bool
) -> FloatArray:
    """Starts of a workload under first come, first served with backfilling, seconds, shape [n].

    A job's home is the machine with the least work per processor among those wide enough
    (`least_loaded`), otherwise the next one in turn (round-robin). Jobs are in order of submission,
    and `estimate` is their time limit.
    """
    capacity, count = np.array(machines, dtype=np.int64), len(workload.submit)
    splits = workload.processors > capacity.max()
    jobs = MarketJobs(workload.jobs, splits, np.ones((count, len(capacity)), dtype=np.bool_))
    state = no_agreements(count, capacity)
    table = empty_timetable(2 * (count + 1), len(capacity))
    _serve(jobs, state, table, np.full(count, _ALL), least_loaded, conservative)
    return state.start


@compiled
def _serve(
    jobs: MarketJobs,
    state: Agreements,
    table: Timetable,
    home: IntArray,
    least_loaded: bool,
    conservative: bool,
) -> None:
    counts, held = state.counts, np.zeros(len(state.capacity), dtype=np.bool_)
    load = np.zeros(len(state.capacity))
    while True:
        now = next_event(jobs, state)
        if np.isinf(now):
            return
        end_jobs(jobs, state, now)
        while counts[NEXT] < len(jobs.rows) and jobs.rows[counts[NEXT]].submit <= now:
            job = counts[NEXT]
            if least_loaded:
                _weigh(jobs, state, home, load, now)
            home[job] = _home(jobs, state, load, job)
            for machine in range(len(load)):
                jobs.reach[job, machine] = home[job] in (machine, _ALL)
            state.waiting[counts[WAITING]] = job
            counts[WAITING] += 1
            counts[NEXT] += 1
        _start_in_order(jobs, state, table, home, held, now, conservative)


@compiled_borrowing
def _weigh(
    jobs: MarketJobs, state: Agreements, home: IntArray, load: FloatArray, now: float
) -> None:
    """Fill in the remaining work of each machine by time limits, seconds a processor."""
    for machine in range(len(load)):
        work = 0.0
        for place in range(state.counts[RUNNING]):
            job = state.running[place]
            work += (state.start[job] + jobs.rows[job].estimate - now) * state.parts[job, machine]
        for place in range(state.counts[WAITING]):
            job = state.waiting[place]
            if home[job] == machine:
                work += jobs.rows[job].estimate * jobs.rows[job].processors
        load[machine] = work / state.capacity[machine]


@compiled_borrowing
def _home(jobs: MarketJobs, state: Agreements, load: FloatArray, job: int) -> int:
    """The machine with the least load, the next in turn on a tie; _ALL if none is wide enough."""
    best, machines = _ALL, len(load)
    for turn in range(machines):
        machine = (job + turn) % machines
        if state.capacity[machine] >= jobs.rows[job].processors and (
            best == _ALL or load[machine] < load[best]
        ):
            best = machine
    return best


@compiled_borrowing
def _start_in_order(
    jobs: MarketJobs,
    state: Agreements,
    table: Timetable,
    home: IntArray,
    held: BoolArray,
    now: float,
    conservative: bool,
) -> None:
    """Start what fits now without delaying the reservations of earlier jobs."""
    counts, kept = state.counts, 0
    tabulate_running(jobs, state, table, now)
    held[:] = False
    for place in range(counts[WAITING]):
        job = state.waiting[place]
        reserves = conservative
        for machine in range(len(held)):  # is it the first job that waits for one?
            reserves = reserves or (home[job] in (machine, _ALL) and not held[machine])
        latest = np.inf if reserves or home[job] == _ALL else now
        first = earliest(table, jobs, job, latest, state.parts, job)
        if first == 0:
            state.start[job] = now
            state.running[counts[RUNNING]] = job
            counts[RUNNING] += 1
        else:
            state.waiting[kept] = job
            kept += 1
            if not reserves:
                continue
            for machine in range(len(held)):
                held[machine] = held[machine] or home[job] in (machine, _ALL)
        take(table, first, table.time[first] + jobs.rows[job].estimate, state.parts, job)
    counts[WAITING] = kept


CTC = "CTC-SP2-1996-3.1-cln"
#: Of each configuration.
PROCESSORS = 512
#: Jobs of each workload.
EXTRACT_JOBS = 10_000
#: Name -> number of the extract (Table 2).
EXTRACTS: Mapping[str, int] = {"10-20k": 1, "30-40k": 3, "60-70k": 6}
#: Extracts on which the rule for rescheduling was chosen.
CHOICE = (0, 2, 4, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class EconomicLog:
    """A workload with its users' estimates, and with exact ones."""

    #: Estimates as users gave them; the run time where a job ran some seconds longer, so that no
    #: job is cut off and every scheduler runs the same work.
    asked: Workload
    exact: Workload  #: estimates are the run times

    def weighted(self, times: FloatArray) -> float:
        """Average of times of the jobs, weighted by processors times run time, seconds."""
        return float(np.average(times, weights=self.exact.run_time * self.exact.processors))

    def response(self, start: FloatArray) -> float:
        """Average weighted response time, seconds."""
        return self.weighted(start + self.exact.run_time - self.exact.submit)


def read_ctc(folder: Path, jobs: int = EXTRACT_JOBS) -> JobLog:
    """The jobs of CTC-SP2 that ran."""
    path = archived_log(folder, CTC)
    log = SwfReader().read(path)[0]
    needed = (max(EXTRACTS.values()) + 1) * jobs
    if len(log) < needed:
        raise ConfigurationError(
            f"{path} has {len(log)} jobs that ran: the extracts need {needed}."
        )
    return log


def extract(log: JobLog, number: int, jobs: int = EXTRACT_JOBS) -> EconomicLog:
    """Jobs numbered `number * jobs` to `(number + 1) * jobs` - 1 in the trace that ran.

    Of the paper's three extracts 9,996, 9,999 and 9,996 did; the archive's cleaning removed none.
    """
    return economic_log(log.select(log.job_id // jobs == number))


def like_ctc(log: JobLog, seed: int, jobs: int = EXTRACT_JOBS) -> EconomicLog:
    """The first jobs of weeks of CTC-SP2 drawn with replacement."""
    drawn = resample_weeks(log, np.random.default_rng(seed))
    return economic_log(drawn.select(np.arange(min(jobs, len(drawn)))))


def untouched_weeks(log: JobLog, jobs: int = EXTRACT_JOBS) -> JobLog:
    """The weeks of CTC-SP2 without a job of CHOICE, joined.

    Half of a log drawn from all weeks would be jobs on which the rule was chosen.
    """
    week = ((log.submit - log.submit[0]) // WEEK).astype(np.int64)
    chosen = np.isin(np.arange(len(log)) // jobs, CHOICE)
    kept = ~np.isin(week, week[chosen])
    names, places = np.unique(week[kept], return_inverse=True)
    back = WEEK * (names - np.arange(len(names)))[places]
    left = log.select(kept)
    return replace(
        left, submit=left.submit - back, eligible=left.eligible - back, start=left.start - back
    )


def economic_log(log: JobLog) -> EconomicLog:
    """The two workloads of a log."""
    asked = prepare_log(log, capacity=PROCESSORS).workload(RequestedLimit())
    estimate = np.maximum(asked.estimate, asked.run_time)
    return EconomicLog(
        asked=asked.having(estimate=estimate), exact=asked.having(estimate=asked.run_time)
    )


#: Processors of the machines of each configuration (Table 1).
CONFIGURATIONS: Mapping[str, tuple[int, ...]] = {
    "m128": (128,) * 4,
    "m256": (256,) * 2,
    "m384": (384, 64, 16, 16, 16, 16),
    "m512": (512,),
}
#: Ways to run a market: as the paper did, with exact times or the users' estimates; or with
#: rescheduling, which the paper does not specify.
EXACT, ASKED, RESCHEDULED = "exact times", "user estimates", "rescheduling"
#: Conventional schedulers on one machine of 512 processors.
FCFS, EASY, EASY_EXACT = "FCFS", "EASY", "EASY, exact times"


@dataclass(frozen=True, slots=True)
class Market:
    """A market to run."""

    configuration: str  #: one of CONFIGURATIONS
    owner: str = "MF1"  #: one of MACHINE_FUNCTIONS
    user: str = "UF1"  #: one of USER_FUNCTIONS
    way: str = RESCHEDULED  #: EXACT, ASKED or RESCHEDULED
    splitting: str = "wherever better"  #: when jobs may run on several machines
    #: How often a request is forwarded in a ring of domains of one machine each; None lets it reach
    #: every machine.
    hops: int | None = None

    @property
    def name(self) -> str:
        """Machines, functions and way."""
        return f"{self.configuration} {self.owner} {self.user}, {self.way}"

    @property
    def settings(self) -> MarketSettings:
        """Settings of `simulate_market`."""
        return MarketSettings(
            machines=CONFIGURATIONS[self.configuration],
            owner=MACHINE_FUNCTIONS[self.owner],
            user=USER_FUNCTIONS[self.user],
            splitting=self.splitting,
            rescheduling=self.way == RESCHEDULED,
            hops=self.hops,
        )


class MarketFigures(NamedTuple):
    """Figures of a market's schedule."""

    response: float  #: average weighted response time, seconds
    wait: float  #: average weighted wait time, seconds
    squashed_area: Sequence[float]  #: processor-seconds run by each machine
    #: Of each machine, from the first submission to the last end, in [0, 1].
    utilization: Sequence[float]


def run_market(log: EconomicLog, market: Market) -> MarketFigures:
    """Simulate a market."""
    schedule = simulate_market(log.exact if market.way == EXACT else log.asked, market.settings)
    run_time = log.exact.run_time
    area = (schedule.parts * run_time[:, None]).sum(axis=0)
    span = (schedule.start + run_time).max() - log.exact.submit.min()
    capacity = np.array(CONFIGURATIONS[market.configuration])
    return MarketFigures(
        response=log.response(schedule.start),
        wait=log.weighted(schedule.start - log.exact.submit),
        squashed_area=area.tolist(),
        utilization=(area / (capacity * span)).tolist(),
    )


def run_conventional(log: EconomicLog) -> dict[str, float]:
    """Average weighted response time of the schedulers on one machine of 512, seconds."""
    order = -np.arange(len(log.exact.submit), dtype=np.float64)

    def response(workload: Workload, backfilling: str) -> float:
        settings = SimulationSettings(capacity=PROCESSORS, backfilling=backfilling)
        return log.response(simulate_scores(workload, order, settings).start)

    return {
        FCFS: response(log.asked, "none"),
        EASY: response(log.asked, "easy"),
        EASY_EXACT: response(log.exact, "easy"),
    }


def run_on_machines(log: EconomicLog, configuration: str) -> dict[str, dict[str, float]]:
    """Average weighted response time of FCFS with backfilling on a market's machines, seconds.

    Returns:
        EXACT or ASKED -> "<backfilling>, <home of a job>" -> seconds.
    """
    found: dict[str, dict[str, float]] = {EXACT: {}, ASKED: {}}
    for way, backfilling, home in product(
        found, (EASY, "conservative"), ("round-robin", "least loaded")
    ):
        start = starts_on_machines(
            *(log.exact if way == EXACT else log.asked, CONFIGURATIONS[configuration]),
            least_loaded=home == "least loaded",
            conservative=backfilling != EASY,
        )
        found[way][f"{backfilling}, {home}"] = log.response(start)
    return found


#: The log that replaces the paper's synthetic one.
LIKE_CTC = "like CTC"
#: Configurations whose combinations of functions are run with rescheduling as well.
TABULATED = ("m512", "m128")
#: UF1/MF1 on m128 where only jobs wider than a machine are split, as the paper's text says, by way.
SPLIT_WHERE_TOO_WIDE = {
    way: Market("m128", way=way, splitting="where too wide") for way in (EXACT, RESCHEDULED)
}
#: UF1/MF1 on m128 as four domains in a ring, by the hops of a request; two reach every domain.
FORWARDED = {hops: Market("m128", way=EXACT, hops=hops) for hops in (0, 1, 2)}
#: Jobs of each workload of a quick run.
QUICK_JOBS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LogResults:
    """The results on one workload."""

    #: Scheduler on one machine of 512 -> average weighted response time, seconds.
    conventional: Mapping[str, float]
    markets: Mapping[Market, MarketFigures]
    #: Configuration -> result of `run_on_machines`.
    same_machines: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)

    def response(self, market: Market) -> float:
        """Average weighted response time of a market, seconds."""
        return self.markets[market].response

    def best(self, configuration: str) -> Market:
        """The functions with the lowest average weighted response time, with exact times."""
        return min(combinations(configuration, EXACT), key=self.response)

    def control(self, market: Market) -> tuple[str, float]:
        """The best conventional scheduler on its machines, and its response time, seconds."""
        found = self.same_machines[market.configuration][market.way]
        return min(found.items(), key=lambda each: each[1])


def combinations(configuration: str, way: str) -> list[Market]:
    """Every machine function with every user function."""
    pairs = product(MACHINE_FUNCTIONS, USER_FUNCTIONS)
    return [Market(configuration, *each, way) for each in pairs]


def every_market() -> list[Market]:
    """The markets to run on each workload."""
    tried = [*product(CONFIGURATIONS, [EXACT]), *product(TABULATED, [RESCHEDULED])]
    found = [market for each in tried for market in combinations(*each)]
    ways = product(CONFIGURATIONS, (EXACT, ASKED, RESCHEDULED))
    found += [Market(name, way=way) for name, way in ways]
    return list(dict.fromkeys([*found, *SPLIT_WHERE_TOO_WIDE.values(), *FORWARDED.values()]))


def reproduce(
    log: JobLog, seeds: int, jobs: int, store: ResultStore
) -> tuple[dict[str, LogResults], list[LogResults]]:
    """Workload -> results, and results on logs of weeks without a job of CHOICE, one a seed."""
    workloads = {name: extract(log, number, jobs) for name, number in EXTRACTS.items()}
    workloads[LIKE_CTC] = like_ctc(log, 0, jobs)
    logs = {
        name: _run(name, each, every_market(), CONFIGURATIONS, store)
        for name, each in workloads.items()
    }
    left, compared = untouched_weeks(log, jobs), [Market(name) for name in TABULATED]
    return logs, [
        _run(f"{LIKE_CTC} {seed}", like_ctc(left, seed, jobs), compared, (), store)
        for seed in range(seeds)
    ]


def _run(
    name: str,
    log: EconomicLog,
    markets: Sequence[Market],
    configurations: Iterable[str],
    store: ResultStore,
) -> LogResults:
    columns = (log.asked.submit, log.asked.estimate, log.exact.run_time, log.asked.processors)

    def kept(key: object, measure: Callable[..., Any], *of: str | Market) -> Any:
        stem = stem_of("economic", name, columns, key, module=__name__)
        found = store.figures(stem, partial(measure, log, *of))
        store.add(1)
        return found

    return LogResults(
        conventional=kept("conventional", run_conventional),
        same_machines={each: kept(each, run_on_machines, each) for each in configurations},
        markets={each: MarketFigures(*kept(each, run_market, each)) for each in markets},
    )
