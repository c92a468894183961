"""What the 2002 paper says of its market, and the goals of ours, as claims with verdicts.

The paper prints bars without figures, so that its claims are sentences; "similar" is read here as
within 5 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from slurm_rl_plugin.brokers.market.functions import MACHINE_FUNCTIONS, USER_FUNCTIONS
from slurm_rl_plugin.papers.economic_2002.experiment import (
    LIKE_CTC,
    TABULATED,
    Economic,
    LogResults,
    combinations,
    paper_split,
)
from slurm_rl_plugin.papers.economic_2002.logs import EXTRACTS
from slurm_rl_plugin.papers.economic_2002.markets import (
    ASKED,
    CONFIGURATIONS,
    EASY,
    EASY_EXACT,
    EXACT,
    FCFS,
    RESCHEDULED,
    Market,
)
from slurm_rl_plugin.papers.study.claims import (
    Cell,
    Claim,
    Judgement,
    Measurement,
    Printed,
)
from slurm_rl_plugin.papers.study.verdicts import bounded
from slurm_rl_plugin.simulator.workloads.resampling import resampled_ratio

RESPONSE = "AWRT (s)"
_SIMILAR = "1.05"
#: Source of a bound that makes a word of the paper a number, which it does not print.
_READING = "our reading of the paper"


def economic_claims(found: Economic) -> list[Claim]:
    """Goals first, then the paper's sentences figure by figure, then the whole table."""
    claims: list[Claim] = []
    for name, results in found.logs.items():
        claims += _goals(name, results)
    claims += claims_over_seeds(found)
    for name, results in found.logs.items():
        claims += _comparisons(name, results)
    claims += _functions(found.logs[LIKE_CTC])
    for name, results in found.logs.items():
        claims += _table(name, results)
    return claims


def _bounded(group: str, policy: str, column: str, value: float, bound: str, **more: Any) -> Claim:
    return bounded(Cell(group, policy, column), Measurement(value=value), bound, **more)


def _goals(name: str, results: LogResults) -> Iterator[Claim]:
    """Rescheduling with user estimates against EASY with the same."""
    easy = results.conventional[EASY]
    source = "goal" if name in EXTRACTS else "measured beside the goals"
    for configuration in TABULATED:
        yield _bounded(
            f"goal, {name}",
            f"{configuration} MF1 UF1, rescheduling",
            "AWRT / EASY's, user estimates",
            results.response(Market(configuration=configuration)) / easy,
            "1.00",
            source=source,
            baselines=results.conventional,
        )


def claims_over_seeds(found: Economic) -> Iterator[Claim]:
    """Over logs of drawn weeks; the interval is the middle 95 % of the logs.

    That of their mean would become as narrow as one likes with the number of draws, which bring
    no new weeks.
    """
    easy = np.array([each.conventional[EASY] for each in found.seeds])
    for configuration in TABULATED:
        plain = Market(configuration=configuration)
        market = np.array([each.response(plain) for each in found.seeds])
        ratio = resampled_ratio(market, easy)
        measured = Measurement(value=ratio.mean, ci95=ratio.ci95)
        column = "AWRT / EASY's, user estimates"
        cell = Cell("logs of untouched weeks", f"{configuration} MF1 UF1, rescheduling", column)
        beside = "measured beside the goals"
        yield bounded(cell, measured, "1.00", source=beside, logs=len(easy))


def _comparisons(name: str, results: LogResults) -> Iterator[Claim]:
    """Figures 10 to 13: against the conventional schedulers, and one machine against several."""
    easy, exact = results.conventional[EASY], results.conventional[EASY_EXACT]
    for configuration in TABULATED:
        best, figures = results.best(configuration, EXACT)
        yield _bounded(
            f"Fig. 10, {name}",
            f"{configuration} best ({best.owner} {best.user}), exact times",
            "AWRT / FCFS with backfilling",
            figures.response / exact,
            "1",
        )
        plain = results.response(Market(configuration=configuration, way=EXACT))
        label = f"{configuration} MF1 UF1"
        yield _bounded(
            f"Fig. 11, {name}",
            f"{label}, exact times",
            "AWRT / FCFS with backfilling",
            plain / exact,
            "1",
        )
        asked = results.response(Market(configuration=configuration, way=ASKED))
        column = "AWRT / EASY's, user estimates"
        yield _bounded(f"Fig. 11, {name}", f"{label}, user estimates", column, asked / easy, "1")
    yield from _machines(name, results)


def _machines(name: str, results: LogResults) -> Iterator[Claim]:
    group = f"Fig. 12-13, {name}"
    for way in (EXACT, RESCHEDULED):
        single = results.response(Market(configuration="m512", way=way))
        column = "AWRT / that of one machine"
        for configuration in CONFIGURATIONS:
            if configuration != "m512":
                several = results.response(Market(configuration=configuration, way=way))
                policy = f"{configuration} MF1 UF1, {way}"
                ratio = several / single
                yield _bounded(group, policy, column, ratio, _SIMILAR, source=_READING)
        split = results.response(paper_split(way))
        policy = f"m128 MF1 UF1, {way}, only wide jobs split"
        yield _bounded(group, policy, column, split / single, _SIMILAR, source=_READING)


def _functions(results: LogResults) -> Iterator[Claim]:
    """Figures 14 to 18: what functions do to the balance of m128 and to response times."""
    pairs = (("MF1", "UF1"), ("MF1", "UF2"), ("MF2", "UF2"))
    found = {
        pair: results.markets[Market(configuration="m128", owner=pair[0], user=pair[1], way=EXACT)]
        for pair in pairs
    }
    area = found["MF1", "UF1"].squashed_area
    spread = 100.0 * (max(area) - min(area)) / max(area)
    yield _bounded(
        "Fig. 14", "m128 MF1 UF1", "largest difference of squashed areas (%)", spread, "18"
    )
    two = sorted(found["MF2", "UF2"].squashed_area)[-2:]
    part = 100.0 * sum(two) / sum(found["MF2", "UF2"].squashed_area)
    yield _bounded("Fig. 14", "m128 MF2 UF2", "work of two machines (%)", part, "67", least=True)
    low = 100.0 * max(found["MF1", "UF2"].utilization)
    yield _bounded("Fig. 15", "m128 MF1 UF2", "highest utilization (%)", low, "29")
    high = 100.0 * min(found["MF1", "UF1"].utilization)
    yield _bounded("Fig. 15", "m128 MF1 UF1", "lowest utilization (%)", high, "61", least=True)
    for pair in pairs[1:]:
        ratio = found[pair].response / found["MF1", "UF1"].response
        policy = f"m128 {pair[0]} {pair[1]}"
        yield _bounded("Fig. 16", policy, "AWRT / that of MF1 UF1", ratio, "1", least=True)
    yield _winner(results, "Fig. 17", "MF2", {owner: (owner, "UF3") for owner in MACHINE_FUNCTIONS})
    yield _winner(results, "Fig. 18", "UF1", {user: ("MF2", user) for user in USER_FUNCTIONS})


def _winner(
    results: LogResults, figure: str, paper: str, pairs: Mapping[str, tuple[str, str]]
) -> Claim:
    """Whether the function that the paper finds best of its kind is the best here."""
    responses = {
        name: results.response(Market(configuration="m128", owner=owner, user=user, way=EXACT))
        for name, (owner, user) in pairs.items()
    }
    best = min(responses, key=lambda name: responses[name])
    return Claim(
        cell=Cell(
            figure, f"m128, {paper} of {', '.join(responses)}", "AWRT / the best of the others"
        ),
        measured=Measurement(
            value=responses[paper] / min(v for name, v in responses.items() if name != paper)
        ),
        printed=Printed.of("1"),
        judged=Judgement(best == paper, f"the best is {best}"),
    )


def _table(name: str, results: LogResults) -> Iterator[Claim]:
    """Every market's and every conventional scheduler's AWRT."""
    for scheduler in (FCFS, EASY, EASY_EXACT):
        value = Measurement(value=results.conventional[scheduler])
        yield Claim(cell=Cell(name, scheduler, RESPONSE), measured=value)
    for configuration in TABULATED:
        for way in (EXACT, RESCHEDULED):
            for market in combinations(configuration, way):
                policy = f"{configuration} {market.owner} {market.user}, {way}"
                value = Measurement(value=results.response(market))
                yield Claim(cell=Cell(name, policy, RESPONSE), measured=value)
