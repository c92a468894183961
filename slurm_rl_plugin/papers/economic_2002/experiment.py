"""Economic scheduling (Ernemann, Hamscher, Yahyapour 2002): the market against FCFS and EASY.

Every combination of machine and user functions runs on three extracts of CTC-SP2 and on a log like
it, as the paper did it and with the rescheduling that it leaves open. The control of Figures 10 and
11 is FCFS with backfilling on the machines of the market, as in the paper; beside it EASY has one
machine of 512 processors, which is harder to beat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.brokers.market.formula import MACHINE_FUNCTIONS, USER_FUNCTIONS
from slurm_rl_plugin.papers.economic_2002.markets import (
    ASKED,
    CONFIGURATIONS,
    EXACT,
    EXTRACTS,
    RESCHEDULED,
    EconomicLog,
    Market,
    MarketFigures,
    extract,
    like_ctc,
    run_conventional,
    run_market,
    run_on_machines,
    untouched_weeks,
)
from slurm_rl_plugin.papers.study.result_store import ResultStore, digest_of, stem_of

#: The log that stands for the paper's synthetic one.
LIKE_CTC = "like CTC"
#: Configurations whose combinations of functions are run with rescheduling too.
TABULATED = ("m512", "m128")
#: Hops of requests between the four domains of `forwarded`; two get everywhere.
HOPS = (0, 1, 2)
#: Jobs of each workload of a quick run.
QUICK_JOBS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LogResults:
    """What came out on one workload.

    Attributes:
        conventional: scheduler on one machine of 512 -> average weighted response time, seconds.
        markets: market -> figures.
        same_machines: configuration -> what `run_on_machines` gives.
    """

    conventional: Mapping[str, float]
    markets: Mapping[Market, MarketFigures]
    same_machines: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)

    def response(self, market: Market) -> float:
        """Average weighted response time of a market, seconds."""
        return self.markets[market].response

    def best(self, configuration: str, way: str) -> tuple[Market, MarketFigures]:
        """The combination of functions with the lowest average weighted response time."""
        tried = [market for market in combinations(configuration, way) if market in self.markets]
        market = min(tried, key=self.response)
        return market, self.markets[market]

    def control(self, configuration: str, way: str) -> tuple[str, float]:
        """The best conventional scheduler on the same machines, and its response time, seconds."""
        return min(self.same_machines[configuration][way].items(), key=lambda each: each[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Economic:
    """Results on every workload.

    Attributes:
        logs: workload -> results.
        seeds: results on logs of weeks on which nothing was chosen, one a seed.
    """

    logs: Mapping[str, LogResults]
    seeds: tuple[LogResults, ...]


def combinations(configuration: str, way: str) -> list[Market]:
    """All machine and user functions with each other."""
    return [
        Market(configuration=configuration, owner=owner, user=user, way=way)
        for owner in MACHINE_FUNCTIONS
        for user in USER_FUNCTIONS
    ]


def paper_split(way: str) -> Market:
    """UF1/MF1 on m128 where only jobs wider than a machine are split, as the paper's text says."""
    return Market(configuration="m128", way=way, splitting="where too wide")


def forwarded(hops: int) -> Market:
    """UF1/MF1 on m128 as four domains in a ring whose requests are forwarded so often."""
    return Market(configuration="m128", way=EXACT, hops=hops)


def _markets() -> list[Market]:
    found = [
        market
        for way, names in ((EXACT, CONFIGURATIONS), (RESCHEDULED, TABULATED))
        for name in names
        for market in combinations(name, way)
    ]
    for name in CONFIGURATIONS:
        found += [Market(configuration=name, way=way) for way in (EXACT, ASKED, RESCHEDULED)]
    found += [paper_split(way) for way in (EXACT, RESCHEDULED)]
    found += [forwarded(hops) for hops in HOPS]
    return list(dict.fromkeys(found))


def steps(seeds: int) -> int:
    """Schedules, for a progress bar; all conventional ones of the same machines count as one."""
    workloads = len(EXTRACTS) + 1
    return workloads * (len(_markets()) + len(CONFIGURATIONS) + 1) + seeds * (len(TABULATED) + 1)


def reproduce(
    log: JobLog, seeds: int, jobs: int, store: ResultStore, after_market: Callable[[], None]
) -> Economic:
    """Run everything.

    Args:
        log: CTC-SP2.
        seeds: logs of untouched weeks of CTC-SP2 on which rescheduling is compared with EASY.
        jobs: of each workload.
        after_market: told after each market, and after the conventional schedulers.
    """
    workloads = {name: extract(log, number, jobs) for name, number in EXTRACTS.items()}
    workloads[LIKE_CTC] = like_ctc(log, 0, jobs)
    compared = [Market(configuration=name) for name in TABULATED]
    logs = {
        name: _run(name, each, _markets(), CONFIGURATIONS, store, after_market)
        for name, each in workloads.items()
    }
    untouched = untouched_weeks(log, jobs)
    drawn = [
        _run(
            f"{LIKE_CTC} {seed}", like_ctc(untouched, seed, jobs), compared, (), store, after_market
        )
        for seed in range(seeds)
    ]
    return Economic(logs=logs, seeds=tuple(drawn))


def _run(
    name: str,
    log: EconomicLog,
    markets: Sequence[Market],
    configurations: Iterable[str],
    store: ResultStore,
    after_market: Callable[[], None],
) -> LogResults:
    columns = (log.asked.submit, log.asked.estimate, log.exact.run_time, log.asked.processors)
    digest = digest_of(*columns)

    def kept(key: Mapping[str, Any], measure: Callable[[], Any]) -> Any:
        found = store.figures(stem_of("economic", name, digest, key, module=__name__), measure)
        after_market()
        return found

    conventional = kept({}, partial(run_conventional, log))
    same_machines = {
        each: kept({"machines": each}, partial(run_on_machines, log, each))
        for each in configurations
    }
    measured = {
        market: kept(asdict(market), partial(_market_figures, log, market)) for market in markets
    }
    return LogResults(
        conventional=conventional,
        markets={market: MarketFigures(**found) for market, found in measured.items()},
        same_machines=same_machines,
    )


def _market_figures(log: EconomicLog, market: Market) -> dict[str, Any]:
    return asdict(run_market(log, market))
