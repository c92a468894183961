"""Markets and conventional schedulers on one log, and what is measured of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.brokers.market.domains import ring
from slurm_rl_plugin.brokers.market.functions import MACHINE_FUNCTIONS, USER_FUNCTIONS
from slurm_rl_plugin.brokers.market.market_simulation import MarketSettings, simulate_market
from slurm_rl_plugin.papers.economic_2002.conventional import starts_on_machines
from slurm_rl_plugin.papers.economic_2002.logs import EconomicLog, conventional_starts

#: Processors of the machines of each configuration (Table 1).
CONFIGURATIONS: Mapping[str, tuple[int, ...]] = {
    "m128": (128,) * 4,
    "m256": (256,) * 2,
    "m384": (384, 64, 16, 16, 16, 16),
    "m512": (512,),
}
#: Ways to run a market: as the paper did, with exact times or what users asked for, or with the
#: rescheduling that it leaves open.
EXACT, ASKED, RESCHEDULED = "exact times", "user estimates", "rescheduling"
#: Conventional schedulers on one machine of 512 processors.
FCFS, EASY, EASY_EXACT = "FCFS", "EASY", "EASY, exact times"
#: The other backfilling on the machines of a market, and how jobs get their homes there.
_CONSERVATIVE, _ROUND_ROBIN, _LEAST_LOADED = "conservative", "round-robin", "least loaded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """A market to run.

    Attributes:
        configuration: one of CONFIGURATIONS.
        owner: one of MACHINE_FUNCTIONS.
        user: one of USER_FUNCTIONS.
        way: EXACT, ASKED or RESCHEDULED.
        splitting: when jobs may run on several machines.
        hops: how often a request is forwarded between domains of one machine each, which are linked
            in a ring; None lets it get to every machine.
    """

    configuration: str
    owner: str = "MF1"
    user: str = "UF1"
    way: str = RESCHEDULED
    splitting: str = "wherever better"
    hops: int | None = None

    @property
    def settings(self) -> MarketSettings:
        """What `simulate_market` needs to know."""
        machines = CONFIGURATIONS[self.configuration]
        return MarketSettings(
            machines=machines,
            owner=MACHINE_FUNCTIONS[self.owner],
            user=USER_FUNCTIONS[self.user],
            splitting=self.splitting,
            rescheduling=self.way == RESCHEDULED,
            domains=None if self.hops is None else ring(len(machines), self.hops),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketFigures:
    """What a schedule is like.

    Attributes:
        response: average weighted response time, seconds.
        wait: average weighted wait time, seconds.
        squashed_area: processor-seconds run by each machine.
        utilization: of each machine, from the first submission to the last end, in [0, 1].
    """

    response: float
    wait: float
    squashed_area: Sequence[float]
    utilization: Sequence[float]


def run_market(log: EconomicLog, market: Market) -> MarketFigures:
    """Simulate a market and measure."""
    schedule = simulate_market(log.exact if market.way == EXACT else log.asked, market.settings)
    run_time = log.exact.run_time
    area = (schedule.parts * run_time[:, None]).sum(axis=0)
    span = (schedule.start + run_time).max() - log.exact.submit.min()
    capacity = np.array(CONFIGURATIONS[market.configuration])
    return MarketFigures(
        response=log.weighted_response(schedule.start),
        wait=log.weighted_wait(schedule.start),
        squashed_area=tuple(float(each) for each in area),
        utilization=tuple(float(each) for each in area / (capacity * span)),
    )


def run_conventional(log: EconomicLog) -> dict[str, float]:
    """Average weighted response time of the conventional schedulers, seconds."""
    return {
        FCFS: log.weighted_response(conventional_starts(log.asked, "none")),
        EASY: log.weighted_response(conventional_starts(log.asked, "easy")),
        EASY_EXACT: log.weighted_response(conventional_starts(log.exact, "easy")),
    }


def run_on_machines(log: EconomicLog, configuration: str) -> dict[str, dict[str, float]]:
    """Average weighted response time of FCFS with backfilling on a market's machines, seconds.

    Returns:
        EXACT or ASKED -> backfilling and who is a job's home -> seconds.
    """
    return {
        way: {
            f"{backfilling}, {home}": log.weighted_response(
                starts_on_machines(
                    workload,
                    CONFIGURATIONS[configuration],
                    least_loaded=home == _LEAST_LOADED,
                    conservative=backfilling == _CONSERVATIVE,
                )
            )
            for backfilling in (EASY, _CONSERVATIVE)
            for home in (_ROUND_ROBIN, _LEAST_LOADED)
        }
        for way, workload in ((EXACT, log.exact), (ASKED, log.asked))
    }
