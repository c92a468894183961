"""What the 2002 paper says of its market, and the goals of ours, as claims with verdicts.

The paper prints bars without figures, so that its claims are sentences; "similar" is read here as
within 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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
from slurm_rl_plugin.papers.economic_2002.markets import (
    ASKED,
    CONFIGURATIONS,
    EASY,
    EASY_EXACT,
    EXACT,
    EXTRACTS,
    FCFS,
    RESCHEDULED,
    Market,
)
from slurm_rl_plugin.papers.study.claims import (
    GOAL,
    Algorithm,
    Cell,
    Claim,
    Judgement,
    Measurement,
    Printed,
    bounded,
)
from slurm_rl_plugin.simulator.workloads.resampling import resampled_ratio

RESPONSE = "AWRT (s)"
_SIMILAR = "1.05"
WIDE_SPLIT = "only jobs wider than a machine split"
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
    source = GOAL if name in EXTRACTS else "measured beside the goals"
    for configuration in TABULATED:
        yield _bounded(
            f"goal, {name}",
            f"{configuration} MF1 UF1, rescheduling",
            "AWRT / EASY's, user estimates",
            results.response(Market(configuration=configuration)) / easy,
            "1.00",
            source=source,
            algorithm="ours",
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
        yield bounded(cell, measured, "1.00", source=beside, algorithm="ours", logs=len(easy))


def _comparisons(name: str, results: LogResults) -> Iterator[Claim]:
    """Figures 10 to 13: against the same machines' conventional scheduler, and one another."""
    for configuration in CONFIGURATIONS:
        best, figures = results.best(configuration, EXACT)
        label = f"{configuration} best ({best.owner} {best.user})"
        yield _against_control(name, results, "Fig. 10", (label, figures.response), best)
    for configuration in TABULATED:
        markets = [Market(configuration=configuration, way=way) for way in (EXACT, ASKED)]
        if configuration == "m128":
            markets.append(paper_split(EXACT))
        for market in markets:
            split = f", {WIDE_SPLIT}" if market.splitting == paper_split(EXACT).splitting else ""
            label = f"{configuration} MF1 UF1{split}"
            yield _against_control(
                name, results, "Fig. 11", (label, results.response(market)), market
            )
    yield from _machines(name, results)


def _against_control(
    name: str, results: LogResults, figure: str, measured: tuple[str, float], market: Market
) -> Claim:
    """A market's response time over that of FCFS with backfilling on the same machines."""
    label, response = measured
    control, least = results.control(market.configuration, market.way)
    one = results.conventional[EASY_EXACT if market.way == EXACT else EASY]
    return _bounded(
        f"{figure}, {name}",
        f"{label}, {market.way}",
        f"AWRT / FCFS with backfilling on the same machines ({control})",
        response / least,
        "1",
        baselines={"EASY on one machine of 512 over the same": one / least},
    )


def _machines(name: str, results: LogResults) -> Iterator[Claim]:
    group = f"Fig. 12-13, {name}"
    for way in (EXACT, RESCHEDULED):
        judged = {"source": _READING, "algorithm": "ours" if way == RESCHEDULED else "paper"}
        single = results.response(Market(configuration="m512", way=way))
        column = "AWRT / that of one machine"
        for configuration in CONFIGURATIONS:
            if configuration != "m512":
                several = results.response(Market(configuration=configuration, way=way))
                policy = f"{configuration} MF1 UF1, {way}"
                ratio = several / single
                yield _bounded(group, policy, column, ratio, _SIMILAR, **judged)
        split = results.response(paper_split(way))
        policy = f"m128 MF1 UF1, {way}, {WIDE_SPLIT}"
        yield _bounded(group, policy, column, split / single, _SIMILAR, **judged)
    if name == LIKE_CTC:
        yield from _sizes(results)


def _sizes(results: LogResults) -> Iterator[Claim]:
    """Figure 13: waits differ little, and larger machines are faster."""
    names = list(CONFIGURATIONS)
    found = [results.markets[Market(configuration=each, way=EXACT)] for each in names]
    for small, large, several, fewer in zip(names, names[1:], found, found[1:], strict=False):
        policy = f"MF1 UF1, {large} over {small}"
        yield _bounded("Fig. 13", policy, "AWRT", fewer.response / several.response, "1")
    for each, several in zip(names[:-1], found, strict=False):
        ratio = _ratio(several.wait, found[-1].wait)
        policy = f"{each} MF1 UF1"
        column = "AWWT / that of one machine"
        yield _bounded("Fig. 13", policy, column, ratio, _SIMILAR, source=_READING)


def _functions(results: LogResults) -> Iterator[Claim]:
    """Figures 14 to 18: what functions do to the balance of m128 and to response times."""
    pairs = (("MF1", "UF1"), ("MF1", "UF2"), ("MF2", "UF2"))
    found = {
        pair: results.markets[Market(configuration="m128", owner=pair[0], user=pair[1], way=EXACT)]
        for pair in pairs
    }
    column = "largest difference of squashed areas (%)"
    spread = {pair: _spread(each.squashed_area) for pair, each in found.items()}
    yield _bounded("Fig. 14", "m128 MF1 UF1", column, spread["MF1", "UF1"], "18")
    column = "largest difference of squashed areas / that of MF1 UF1"
    even = _ratio(spread["MF1", "UF2"], spread["MF1", "UF1"])
    yield _bounded("Fig. 14", "m128 MF1 UF2", column, even, "1")
    two = sorted(found["MF2", "UF2"].squashed_area)[-2:]
    part = 100.0 * sum(two) / sum(found["MF2", "UF2"].squashed_area)
    yield _bounded("Fig. 14", "m128 MF2 UF2", "work of two machines (%)", part, "67", least=True)
    low = 100.0 * max(found["MF1", "UF2"].utilization)
    yield _bounded("Fig. 15", "m128 MF1 UF2", "highest utilization (%)", low, "29")
    high = 100.0 * min(found["MF1", "UF1"].utilization)
    yield _bounded("Fig. 15", "m128 MF1 UF1", "lowest utilization (%)", high, "61", least=True)
    most = 100.0 * max(found["MF1", "UF1"].utilization)
    yield _bounded("Fig. 15", "m128 MF1 UF1", "highest utilization (%)", most, "77")
    _, third, second, _ = sorted(100.0 * each for each in found["MF2", "UF2"].utilization)
    policy, column = "m128 MF2 UF2", "utilization (%)"
    yield _bounded("Fig. 15", policy, f"second highest {column}", second, "85", least=True)
    yield _bounded("Fig. 15", policy, f"second lowest {column}", third, "45")
    for pair in pairs[1:]:
        ratio = found[pair].response / found["MF1", "UF1"].response
        policy = f"m128 {pair[0]} {pair[1]}"
        yield _bounded("Fig. 16", policy, "AWRT / that of MF1 UF1", ratio, "1", least=True)
    owners = {owner: (owner, "UF3") for owner in MACHINE_FUNCTIONS}
    users = {user: ("MF2", user) for user in USER_FUNCTIONS}
    yield _winner(results, "Fig. 17", "MF2", owners)
    yield _winner(results, "Fig. 18", "UF1", users)
    del users["UF1"]
    yield _winner(results, "Fig. 18", "UF3", users)
    slow = [_m128(results, *owners.pop(owner)) for owner in ("MF1", "MF3", "MF6")]
    ratio = min(slow) / max(_m128(results, *pair) for pair in owners.values())
    column = "least AWRT / the largest of the others"
    yield _bounded("Fig. 17", "m128, MF1, MF3 and MF6 (`under`)", column, ratio, "1", least=True)


def _spread(area: Sequence[float]) -> float:
    """The largest difference of the work of machines, percent of the largest."""
    return 100.0 * (max(area) - min(area)) / max(area)


def _ratio(value: float, base: float) -> float:
    """NaN over 0, as on a log without waits."""
    return value / base if base else math.nan


def _m128(results: LogResults, owner: str, user: str) -> float:
    """Average weighted response time on m128 with exact times, seconds."""
    return results.response(Market(configuration="m128", owner=owner, user=user, way=EXACT))


def _winner(
    results: LogResults, figure: str, paper: str, pairs: Mapping[str, tuple[str, str]]
) -> Claim:
    """Whether the function that the paper finds best of its kind is the best here."""
    responses = {name: _m128(results, *pair) for name, pair in pairs.items()}
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
    for configuration, ways in results.same_machines.items():
        for way, schedulers in ways.items():
            for scheduler, seconds in schedulers.items():
                policy = f"{configuration} {scheduler}, {way}"
                yield Claim(cell=Cell(name, policy, RESPONSE), measured=Measurement(value=seconds))
    for scheduler in (FCFS, EASY, EASY_EXACT):
        value = Measurement(value=results.conventional[scheduler])
        yield Claim(cell=Cell(name, scheduler, RESPONSE), measured=value)
    for configuration in TABULATED:
        for way in (EXACT, RESCHEDULED):
            for market in combinations(configuration, way):
                policy = f"{configuration} {market.owner} {market.user}, {way}"
                value = Measurement(value=results.response(market))
                whose: Algorithm = "paper" if way == EXACT else "ours"
                cell = Cell(name, policy, RESPONSE)
                yield Claim(cell=cell, measured=value, algorithm=whose)
