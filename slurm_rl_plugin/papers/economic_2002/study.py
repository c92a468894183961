"""The market of the 2002 paper, run again against FCFS and EASY."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from slurm_rl_plugin.brokers.market.formula import MACHINE_FUNCTIONS, USER_FUNCTIONS
from slurm_rl_plugin.papers.economic_2002 import markets
from slurm_rl_plugin.papers.economic_2002.markets import (
    ASKED,
    CONFIGURATIONS,
    EASY,
    EASY_EXACT,
    EXACT,
    FORWARDED,
    RESCHEDULED,
    SPLIT_WHERE_TOO_WIDE,
    TABULATED,
    LogResults,
    Market,
)
from slurm_rl_plugin.papers.study.claims import (
    Declared,
    Judgement,
    Measurement,
    Row,
    judged_claims,
    row_of,
)
from slurm_rl_plugin.papers.study.figures import finished, panels
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Outcome
from slurm_rl_plugin.simulator.workloads.resampling import resampled_ratio
from slurm_rl_plugin.units import HOUR

DECLARED = Declared(__package__)
RESPONSE, _TO_EASY = "AWRT (s)", "AWRT / EASY's, user estimates"
WIDE_SPLIT = "only jobs wider than a machine split"
#: Of Figures 14 to 16.
_BALANCED = [
    Market("m128", *each, EXACT) for each in (("MF1", "UF1"), ("MF1", "UF2"), ("MF2", "UF2"))
]
_OWNERS, _USERS = list(MACHINE_FUNCTIONS), list(USER_FUNCTIONS)


def rows_of(logs: Mapping[str, LogResults], drawn: Sequence[LogResults]) -> Iterator[Row]:
    """Goals first, then the paper's sentences figure by figure, then the whole table."""
    for name, results in logs.items():
        for market in map(Market, TABULATED):
            easy = results.conventional
            ratio = results.response(market) / easy[EASY]
            yield row_of(f"goal, {name}", market.name, _TO_EASY, ratio, baselines=easy)
    yield from rows_over_seeds(drawn)
    for name, results in logs.items():
        yield from _comparisons(name, results)
    yield from _sizes(logs[markets.LIKE_CTC])
    yield from _rows_on_functions(logs[markets.LIKE_CTC])
    for name, results in logs.items():
        yield from _table(name, results)


def rows_over_seeds(drawn: Sequence[LogResults]) -> Iterator[Row]:
    """Rows over logs of drawn weeks; the interval is the middle 95 % of the logs.

    The interval of their mean would shrink with the number of draws, which add no new weeks.
    """
    easy = np.array([each.conventional[EASY] for each in drawn])
    for market in map(Market, TABULATED):
        mean, ci95 = resampled_ratio(np.array([each.response(market) for each in drawn]), easy)
        measured = Measurement(value=mean, ci95=ci95)
        group = "logs of untouched weeks"
        yield row_of(group, market.name, _TO_EASY, measured, logs=len(easy))


def _comparisons(name: str, results: LogResults) -> Iterator[Row]:
    """Figures 10 to 13: relative to the conventional scheduler, and to each other."""
    against = {
        ("Fig. 10", f"{each} best ({best.owner} {best.user}), {EXACT}"): best
        for each in CONFIGURATIONS
        for best in [results.best(each)]
    }
    for plain in (Market(each, way=way) for each in TABULATED for way in (EXACT, ASKED)):
        against["Fig. 11", plain.name] = plain
    against["Fig. 11", f"m128 MF1 UF1, {WIDE_SPLIT}, {EXACT}"] = SPLIT_WHERE_TOO_WIDE[EXACT]
    for (figure, policy), market in against.items():
        control, least = results.control(market)
        one = results.conventional[EASY_EXACT if market.way == EXACT else EASY]
        yield row_of(
            *(f"{figure}, {name}", policy),
            f"AWRT / FCFS with backfilling on the same machines ({control})",
            results.response(market) / least,
            baselines={"EASY on one machine of 512 over the same": one / least},
        )
    for way in (EXACT, RESCHEDULED):
        *several, single = (Market(each, way=way) for each in CONFIGURATIONS)
        named = {each.name: each for each in several}
        named[f"m128 MF1 UF1, {way}, {WIDE_SPLIT}"] = SPLIT_WHERE_TOO_WIDE[way]
        for policy, market in named.items():
            ratio = results.response(market) / results.response(single)
            yield row_of(f"Fig. 12-13, {name}", policy, "AWRT / that of one machine", ratio)


def _sizes(results: LogResults) -> Iterator[Row]:
    names = list(CONFIGURATIONS)
    found = [results.markets[Market(each, way=EXACT)] for each in names]
    for small, large, several, fewer in zip(names, names[1:], found, found[1:], strict=False):
        policy = f"MF1 UF1, {large} over {small}"
        yield row_of("Fig. 13", policy, "AWRT", fewer.response / several.response)
    for each, several in zip(names[:-1], found, strict=False):
        column = "AWWT / that of one machine"
        yield row_of("Fig. 13", f"{each} MF1 UF1", column, _ratio(several.wait, found[-1].wait))


def _rows_on_functions(results: LogResults) -> Iterator[Row]:
    """Figures 14 to 18: how functions change the balance of m128 and response times."""
    plain, even, uneven = (results.markets[each] for each in _BALANCED)
    one, two, three = "m128 MF1 UF1", "m128 MF1 UF2", "m128 MF2 UF2"
    # the largest difference of the work of machines, percent of the largest
    spread, even_spread = (
        100.0 * (max(area) - min(area)) / max(area)
        for area in (plain.squashed_area, even.squashed_area)
    )
    column, percent = "largest difference of squashed areas", "utilization (%)"
    part = 100.0 * sum(sorted(uneven.squashed_area)[-2:]) / sum(uneven.squashed_area)
    used = sorted(100.0 * each for each in uneven.utilization)
    shorter, longer = (each.response / plain.response for each in (even, uneven))
    yield row_of("Fig. 14", one, f"{column} (%)", spread)
    yield row_of("Fig. 14", two, f"{column} / that of MF1 UF1", _ratio(even_spread, spread))
    yield row_of("Fig. 14", three, "work of two machines (%)", part)
    yield row_of("Fig. 15", two, f"highest {percent}", 100.0 * max(even.utilization))
    yield row_of("Fig. 15", one, f"lowest {percent}", 100.0 * min(plain.utilization))
    yield row_of("Fig. 15", one, f"highest {percent}", 100.0 * max(plain.utilization))
    yield row_of("Fig. 15", three, f"second highest {percent}", used[2])
    yield row_of("Fig. 15", three, f"second lowest {percent}", used[1])
    yield row_of("Fig. 16", two, "AWRT / that of MF1 UF1", shorter)
    yield row_of("Fig. 16", three, "AWRT / that of MF1 UF1", longer)
    owners = {each: results.response(Market("m128", each, "UF3", EXACT)) for each in _OWNERS}
    users = {each: results.response(Market("m128", "MF2", each, EXACT)) for each in _USERS}
    yield _winner("Fig. 17", "MF2", owners)
    yield _winner("Fig. 18", "UF1", users)
    del users["UF1"]
    yield _winner("Fig. 18", "UF3", users)
    slow = min(owners.pop(each) for each in ("MF1", "MF3", "MF6"))
    policy, column = "m128, MF1, MF3 and MF6 (`under`)", "least AWRT / the largest of the others"
    yield row_of("Fig. 17", policy, column, slow / max(owners.values()))


def _ratio(value: float, base: float) -> float:
    """The ratio; NaN over 0, as on a log without waits."""
    return value / base if base else math.nan


def _winner(figure: str, paper: str, responses: Mapping[str, float]) -> Row:
    """Whether the paper's best function has the lowest response time."""
    best = min(responses, key=lambda name: responses[name])
    others = min(value for name, value in responses.items() if name != paper)
    return row_of(
        *(figure, f"m128, {paper} of {', '.join(responses)}", "AWRT / the best of the others"),
        responses[paper] / others,
        judged=Judgement(best == paper, f"the best is {best}"),
    )


def _table(name: str, results: LogResults) -> Iterator[Row]:
    for configuration, ways in results.same_machines.items():
        for way, schedulers in ways.items():
            for scheduler, seconds in schedulers.items():
                yield row_of(name, f"{configuration} {scheduler}, {way}", RESPONSE, seconds)
    for scheduler, seconds in results.conventional.items():
        yield row_of(name, scheduler, RESPONSE, seconds)
    for configuration, way in product(TABULATED, (EXACT, RESCHEDULED)):
        for market in markets.combinations(configuration, way):
            yield row_of(name, market.name, RESPONSE, results.response(market))


_RESPONSE, _WAIT = "AWRT (h)", "AWWT (h)"


def _bars(axis: Any, names: Sequence[str], series: Mapping[str, Sequence[float]]) -> None:
    width = 0.85 / len(series)
    for number, (label, values) in enumerate(series.items()):
        places = [place + (number - (len(series) - 1) / 2) * width for place in range(len(names))]
        axis.bar(places, values, width, label=label)
    axis.set_xticks(range(len(names)), names)


def _against_conventional(logs: Mapping[str, LogResults]) -> Any:
    titles = [f"Figures 10 and 11: {each}, exact times" for each in CONFIGURATIONS]
    figure, axes = panels(titles, (5.5, 3.6), rows=2, share=True)
    found = logs.values()
    for axis, configuration in zip(axes, CONFIGURATIONS, strict=True):
        plain = Market(configuration, way=EXACT)
        bars = {
            "FCFS with backfilling, same machines": [each.control(plain)[1] for each in found],
            "EASY, one machine of 512": [each.conventional[EASY_EXACT] for each in found],
            "MF1 UF1": [each.response(plain) for each in found],
            "best functions": [each.response(each.best(configuration)) for each in found],
        }
        hours = {name: [each / HOUR for each in seconds] for name, seconds in bars.items()}
        _bars(axis, list(logs), hours)
    return finished(figure, axes, "", _RESPONSE)


def _configurations(logs: Mapping[str, LogResults]) -> Any:
    columns = ((_RESPONSE, "response"), (_WAIT, "wait"))
    cells = list(product((EXACT, RESCHEDULED), columns))
    titles = [f"Figures 12 and 13: MF1 UF1, {way}, {label}" for way, (label, _) in cells]
    figure, axes = panels(titles, (5.5, 3.2), rows=2)
    for axis, (way, (_, column)) in zip(axes, cells, strict=True):
        tried = {name: Market(name, way=way) for name in CONFIGURATIONS}
        _bars(axis, list(logs), _hours(logs, tried, column))
    return finished(figure, axes, "", "hours")


def _hours(
    logs: Mapping[str, LogResults], tried: Mapping[str, Market], column: str = "response"
) -> dict[str, list[float]]:
    """A figure of each market, by its name, on each log."""
    return {
        name: [getattr(each.markets[market], column) / HOUR for each in logs.values()]
        for name, market in tried.items()
    }


def _balance(results: LogResults) -> Any:
    titles = (
        "Figure 14: squashed area (processor-hours)",
        "Figure 15: utilization",
        "Figure 16: hours",
    )
    figure, axes = panels(titles, (4.4, 4))
    found = {f"{each.owner} {each.user}": results.markets[each] for each in _BALANCED}
    machines = [f"machine {place + 1}" for place in range(len(CONFIGURATIONS["m128"]))]
    areas = {name: [area / HOUR for area in each.squashed_area] for name, each in found.items()}
    times = {name: [each.response / HOUR, each.wait / HOUR] for name, each in found.items()}
    _bars(axes[0], machines, areas)
    _bars(axes[1], machines, {name: each.utilization for name, each in found.items()})
    _bars(axes[2], ["AWRT", "AWWT"], times)
    return finished(figure, axes, "", "")


def _functions(logs: Mapping[str, LogResults]) -> Any:
    cells = list(product((EXACT, RESCHEDULED), ("17: m128, UF3", "18: m128, MF2")))
    figure, axes = panels([f"Figure {kind}, {way}" for way, kind in cells], (5.5, 3.6), rows=2)
    for axis, (way, kind) in zip(axes, cells, strict=True):
        tried = {name: Market("m128", name, "UF3", way) for name in _OWNERS}
        if kind.startswith("18"):
            tried = {name: Market("m128", "MF2", name, way) for name in _USERS}
        series = _hours(logs, tried)
        _bars(axis, list(logs), series)
        axis.set_ylim(0.0, 1.3 * max(value for values in series.values() for value in values))
        axis.legend(ncols=len(series), fontsize=8, columnspacing=1.0, handlelength=1.0)
        axis.set_ylabel(_RESPONSE)
        axis.grid(axis="y", alpha=0.3)
    return figure


def run(asked: Asked) -> Outcome:
    """Simulate every market and the conventional schedulers."""
    traces, seeds = asked.logs, asked.number_of_seeds()
    jobs = markets.QUICK_JOBS if asked.quick else markets.EXTRACT_JOBS
    log = markets.read_ctc(traces, jobs)
    # the conventional schedulers of a configuration count as one
    each = len(markets.every_market()) + len(CONFIGURATIONS) + 1
    steps = (len(markets.EXTRACTS) + 1) * each + seeds * (len(TABULATED) + 1)
    with asked.bar("simulating", steps) as add:
        logs, drawn = markets.reproduce(log, seeds, jobs, ResultStore(asked.models, add))
    return Outcome(
        claims=DECLARED.claims(rows_of(logs, drawn)),
        seeds=range(seeds),
        table=lambda claims: judged_claims([each for each in claims if each.printed is not None]),
        facts={
            "combinations": list(_combinations(logs)),
            "controls": list(_controls(logs)),
            "hops": list(_hops(logs)),
        },
        drawings={
            "economic-10-11.png": lambda: _against_conventional(logs),
            "economic-12-13.png": lambda: _configurations(logs),
            "economic-14-16.png": lambda: _balance(logs[markets.LIKE_CTC]),
            "economic-17-18.png": lambda: _functions(logs),
        },
        manifest={"workloads": list(logs), "jobs": jobs, "full_size": jobs == markets.EXTRACT_JOBS},
    )


def _controls(logs: Mapping[str, LogResults]) -> Iterator[dict[str, Any]]:
    """AWRT of the best functions over that of either control, exact times."""
    for (workload, results), machines in product(logs.items(), CONFIGURATIONS):
        best = results.best(machines)
        response = results.response(best)
        yield {
            "workload": workload,
            "machines": machines,
            "same_machines": response / results.control(best)[1],
            "one_machine": response / results.conventional[EASY_EXACT],
        }


def _hops(logs: Mapping[str, LogResults]) -> Iterator[dict[str, Any]]:
    """AWRT on m128 by the hops of a request, over that on one machine of 512."""
    for workload, results in logs.items():
        one = results.response(Market("m512", way=EXACT))
        ratios = {str(hops): results.response(each) / one for hops, each in FORWARDED.items()}
        yield {"workload": workload, **ratios}


def _combinations(logs: Mapping[str, LogResults]) -> Iterator[dict[str, Any]]:
    """AWRT over EASY's with user estimates: a row for each machine function."""
    for (workload, results), machines, way, owner in product(
        logs.items(), TABULATED, (EXACT, RESCHEDULED), _OWNERS
    ):
        row = {"workload": workload, "machines": machines, "way": way, "owner": owner}
        responses = {each: results.response(Market(machines, owner, each, way)) for each in _USERS}
        yield row | {each: one / results.conventional[EASY] for each, one in responses.items()}
