"""The market of the 2002 paper, run again against FCFS and EASY."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from slurm_rl_plugin.brokers.market.formula import MACHINE_FUNCTIONS, USER_FUNCTIONS
from slurm_rl_plugin.papers.economic_2002 import markets
from slurm_rl_plugin.papers.study.claims import (
    Declared,
    Judgement,
    Measurement,
    Row,
    TextTable,
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
#: Functions of Figures 14 to 16.
_BALANCED = (("MF1", "UF1"), ("MF1", "UF2"), ("MF2", "UF2"))


def rows_of(
    logs: Mapping[str, markets.LogResults], drawn: Sequence[markets.LogResults]
) -> Iterator[Row]:
    """Goals first, then the paper's sentences figure by figure, then the whole table."""
    for name, results in logs.items():
        for configuration in markets.TABULATED:
            yield row_of(
                *(f"goal, {name}", f"{configuration} MF1 UF1, rescheduling", _TO_EASY),
                results.response(markets.Market(configuration))
                / results.conventional[markets.EASY],
                baselines=results.conventional,
            )
    yield from rows_over_seeds(drawn)
    for name, results in logs.items():
        yield from _comparisons(name, results)
    yield from _rows_on_functions(logs[markets.LIKE_CTC])
    for name, results in logs.items():
        yield from _table(name, results)


def rows_over_seeds(drawn: Sequence[markets.LogResults]) -> Iterator[Row]:
    """Rows over logs of drawn weeks; the interval is the middle 95 % of the logs.

    The interval of their mean would shrink with the number of draws, which add no new weeks.
    """
    easy = np.array([each.conventional[markets.EASY] for each in drawn])
    for configuration in markets.TABULATED:
        plain = markets.Market(configuration)
        mean, ci95 = resampled_ratio(np.array([each.response(plain) for each in drawn]), easy)
        policy = f"{configuration} MF1 UF1, rescheduling"
        measured = Measurement(value=mean, ci95=ci95)
        yield row_of("logs of untouched weeks", policy, _TO_EASY, measured, logs=len(easy))


def _comparisons(name: str, results: markets.LogResults) -> Iterator[Row]:
    """Figures 10 to 13: relative to the conventional scheduler, and to each other."""
    for configuration in markets.CONFIGURATIONS:
        best = results.best(configuration)
        label = f"{configuration} best ({best.owner} {best.user})"
        yield _against_control(name, results, "Fig. 10", label, best)
    split = markets.SPLIT_WHERE_TOO_WIDE
    for configuration in markets.TABULATED:
        for way in (markets.EXACT, markets.ASKED):
            plain = markets.Market(configuration, way=way)
            yield _against_control(name, results, "Fig. 11", f"{configuration} MF1 UF1", plain)
        if configuration == "m128":
            label = f"m128 MF1 UF1, {WIDE_SPLIT}"
            yield _against_control(name, results, "Fig. 11", label, split[markets.EXACT])
    group, column = f"Fig. 12-13, {name}", "AWRT / that of one machine"
    for way in (markets.EXACT, markets.RESCHEDULED):
        single = results.response(markets.Market("m512", way=way))
        for configuration in markets.CONFIGURATIONS:
            if configuration != "m512":
                several = results.response(markets.Market(configuration, way=way))
                yield row_of(group, f"{configuration} MF1 UF1, {way}", column, several / single)
        policy = f"m128 MF1 UF1, {way}, {WIDE_SPLIT}"
        yield row_of(group, policy, column, results.response(split[way]) / single)
    if name == markets.LIKE_CTC:
        yield from _sizes(results)


def _against_control(
    name: str, results: markets.LogResults, figure: str, label: str, market: markets.Market
) -> Row:
    """A market's response time over that of FCFS with backfilling on the same machines."""
    control, least = results.control(market)
    one = results.conventional[markets.EASY_EXACT if market.way == markets.EXACT else markets.EASY]
    return row_of(
        f"{figure}, {name}",
        f"{label}, {market.way}",
        f"AWRT / FCFS with backfilling on the same machines ({control})",
        results.response(market) / least,
        baselines={"EASY on one machine of 512 over the same": one / least},
    )


def _sizes(results: markets.LogResults) -> Iterator[Row]:
    names = list(markets.CONFIGURATIONS)
    found = [results.markets[markets.Market(each, way=markets.EXACT)] for each in names]
    for small, large, several, fewer in zip(names, names[1:], found, found[1:], strict=False):
        policy = f"MF1 UF1, {large} over {small}"
        yield row_of("Fig. 13", policy, "AWRT", fewer.response / several.response)
    for each, several in zip(names[:-1], found, strict=False):
        column = "AWWT / that of one machine"
        yield row_of("Fig. 13", f"{each} MF1 UF1", column, _ratio(several.wait, found[-1].wait))


def _rows_on_functions(results: markets.LogResults) -> Iterator[Row]:
    """Figures 14 to 18: how functions change the balance of m128 and response times."""
    plain, even, uneven = (
        results.markets[markets.Market("m128", *each, markets.EXACT)] for each in _BALANCED
    )
    one, two, three = "m128 MF1 UF1", "m128 MF1 UF2", "m128 MF2 UF2"
    # the largest difference of the work of machines, percent of the largest
    spread, even_spread = (
        100.0 * (max(area) - min(area)) / max(area)
        for area in (plain.squashed_area, even.squashed_area)
    )
    column = "largest difference of squashed areas"
    ratio = _ratio(even_spread, spread)
    widest = sorted(uneven.squashed_area)[-2:]
    part = 100.0 * sum(widest) / sum(uneven.squashed_area)
    used, percent = sorted(100.0 * each for each in uneven.utilization), "utilization (%)"
    yield row_of("Fig. 14", one, f"{column} (%)", spread)
    yield row_of("Fig. 14", two, f"{column} / that of MF1 UF1", ratio)
    yield row_of("Fig. 14", three, "work of two machines (%)", part)
    yield row_of("Fig. 15", two, f"highest {percent}", 100.0 * max(even.utilization))
    yield row_of("Fig. 15", one, f"lowest {percent}", 100.0 * min(plain.utilization))
    yield row_of("Fig. 15", one, f"highest {percent}", 100.0 * max(plain.utilization))
    yield row_of("Fig. 15", three, f"second highest {percent}", used[2])
    yield row_of("Fig. 15", three, f"second lowest {percent}", used[1])
    for policy, market in ((two, even), (three, uneven)):
        yield row_of("Fig. 16", policy, "AWRT / that of MF1 UF1", market.response / plain.response)
    owners = {owner: (owner, "UF3") for owner in MACHINE_FUNCTIONS}
    users = {user: ("MF2", user) for user in USER_FUNCTIONS}
    yield _winner(results, "Fig. 17", "MF2", owners)
    yield _winner(results, "Fig. 18", "UF1", users)
    del users["UF1"]
    yield _winner(results, "Fig. 18", "UF3", users)
    slow = [
        results.response(markets.Market("m128", *owners.pop(each), markets.EXACT))
        for each in ("MF1", "MF3", "MF6")
    ]
    ratio = min(slow) / max(
        results.response(markets.Market("m128", *pair, markets.EXACT)) for pair in owners.values()
    )
    column = "least AWRT / the largest of the others"
    yield row_of("Fig. 17", "m128, MF1, MF3 and MF6 (`under`)", column, ratio)


def _ratio(value: float, base: float) -> float:
    """The ratio; NaN over 0, as on a log without waits."""
    return value / base if base else math.nan


def _winner(
    results: markets.LogResults, figure: str, paper: str, pairs: Mapping[str, tuple[str, str]]
) -> Row:
    responses = {
        name: results.response(markets.Market("m128", *pair, markets.EXACT))
        for name, pair in pairs.items()
    }
    best = min(responses, key=lambda name: responses[name])
    others = min(value for name, value in responses.items() if name != paper)
    return row_of(
        figure,
        f"m128, {paper} of {', '.join(responses)}",
        "AWRT / the best of the others",
        responses[paper] / others,
        judged=Judgement(best == paper, f"the best is {best}"),
    )


def _table(name: str, results: markets.LogResults) -> Iterator[Row]:
    for configuration, ways in results.same_machines.items():
        for way, schedulers in ways.items():
            for scheduler, seconds in schedulers.items():
                yield row_of(name, f"{configuration} {scheduler}, {way}", RESPONSE, seconds)
    for scheduler in (markets.FCFS, markets.EASY, markets.EASY_EXACT):
        yield row_of(name, scheduler, RESPONSE, results.conventional[scheduler])
    for configuration in markets.TABULATED:
        for way in (markets.EXACT, markets.RESCHEDULED):
            for market in markets.combinations(configuration, way):
                policy = f"{configuration} {market.owner} {market.user}, {way}"
                yield row_of(name, policy, RESPONSE, results.response(market))


_RESPONSE, _WAIT = "AWRT (h)", "AWWT (h)"


def _bars(axis: Any, names: Sequence[str], series: Mapping[str, Sequence[float]]) -> None:
    width = 0.85 / len(series)
    for number, (label, values) in enumerate(series.items()):
        places = [place + (number - (len(series) - 1) / 2) * width for place in range(len(names))]
        axis.bar(places, values, width, label=label)
    axis.set_xticks(range(len(names)), names)


def _against_conventional(logs: Mapping[str, markets.LogResults]) -> Any:
    titles = [f"Figures 10 and 11: {each}, exact times" for each in markets.CONFIGURATIONS]
    figure, axes = panels(titles, (5.5, 3.6), rows=2, share=True)
    found = logs.values()
    for axis, configuration in zip(axes, markets.CONFIGURATIONS, strict=True):
        plain = markets.Market(configuration, way=markets.EXACT)
        bars = [
            ("FCFS with backfilling, same machines", [each.control(plain)[1] for each in found]),
            ("EASY, one machine of 512", [each.conventional[markets.EASY_EXACT] for each in found]),
            ("MF1 UF1", [each.response(plain) for each in found]),
            ("best functions", [each.response(each.best(configuration)) for each in found]),
        ]
        hours = {name: [each / HOUR for each in seconds] for name, seconds in bars}
        _bars(axis, list(logs), hours)
    return finished(figure, axes, "", _RESPONSE)


def _configurations(logs: Mapping[str, markets.LogResults]) -> Any:
    cells = [
        (way, label, column)
        for way in (markets.EXACT, markets.RESCHEDULED)
        for label, column in ((_RESPONSE, "response"), (_WAIT, "wait"))
    ]
    titles = [f"Figures 12 and 13: MF1 UF1, {way}, {label}" for way, label, _ in cells]
    figure, axes = panels(titles, (5.5, 3.2), rows=2)
    for axis, (way, _, column) in zip(axes, cells, strict=True):
        series = {
            name: [
                getattr(each.markets[markets.Market(name, way=way)], column) / HOUR
                for each in logs.values()
            ]
            for name in markets.CONFIGURATIONS
        }
        _bars(axis, list(logs), series)
    return finished(figure, axes, "", "hours")


def _balance(results: markets.LogResults) -> Any:
    titles = (
        "Figure 14: squashed area (processor-hours)",
        "Figure 15: utilization",
        "Figure 16: hours",
    )
    figure, axes = panels(titles, (4.4, 4))
    found = {
        " ".join(each): results.markets[markets.Market("m128", *each, markets.EXACT)]
        for each in _BALANCED
    }
    machines = [f"machine {place + 1}" for place in range(len(markets.CONFIGURATIONS["m128"]))]
    areas = {name: [area / HOUR for area in each.squashed_area] for name, each in found.items()}
    times = {name: [each.response / HOUR, each.wait / HOUR] for name, each in found.items()}
    _bars(axes[0], machines, areas)
    _bars(axes[1], machines, {name: each.utilization for name, each in found.items()})
    _bars(axes[2], ["AWRT", "AWWT"], times)
    return finished(figure, axes, "", "")


def _functions(logs: Mapping[str, markets.LogResults]) -> Any:
    cells = [
        (way, kind)
        for way in (markets.EXACT, markets.RESCHEDULED)
        for kind in ("17: m128, UF3", "18: m128, MF2")
    ]
    figure, axes = panels([f"Figure {kind}, {way}" for way, kind in cells], (5.5, 3.6), rows=2)
    for axis, (way, kind) in zip(axes, cells, strict=True):
        tried = {name: markets.Market("m128", name, "UF3", way) for name in MACHINE_FUNCTIONS}
        if kind.startswith("18"):
            tried = {name: markets.Market("m128", "MF2", name, way) for name in USER_FUNCTIONS}
        series = {
            name: [each.response(market) / HOUR for each in logs.values()]
            for name, market in tried.items()
        }
        _bars(axis, list(logs), series)
        axis.set_ylim(0.0, 1.3 * max(value for values in series.values() for value in values))
        axis.legend(ncols=len(series), fontsize=8, columnspacing=1.0, handlelength=1.0)
        axis.set_ylabel(_RESPONSE)
        axis.grid(axis="y", alpha=0.3)
    return figure


def run(asked: Asked) -> Outcome:
    """Simulate every market and the conventional schedulers."""
    asked.refuse_policy("it has no network")
    needed = "economic needs CTC-SP2: give the directory of the traces."
    traces, seeds = asked.traces_or_refuse(needed), asked.number_of_seeds()
    jobs = markets.QUICK_JOBS if asked.quick else markets.EXTRACT_JOBS
    log = markets.read_ctc(traces, jobs)
    # the conventional schedulers of a configuration count as one
    each = len(markets.every_market()) + len(markets.CONFIGURATIONS) + 1
    steps = (len(markets.EXTRACTS) + 1) * each + seeds * (len(markets.TABULATED) + 1)
    with asked.bar("simulating", steps) as add:
        logs, drawn = markets.reproduce(log, seeds, jobs, ResultStore(asked.models, add))
    facts = {
        "combinations": list(_combinations(logs)),
        "controls": list(_controls(logs)),
        "hops": list(_hops(logs)),
    }
    titles = {
        "controls": "Fig. 10: AWRT of the best functions over FCFS with backfilling, exact times:",
        "hops": "AWRT of MF1 UF1 on m128 by hops between four domains, over that on one of 512:",
        "combinations": "AWRT over EASY's with user estimates:",
    }
    headers = {
        "controls": ["WORKLOAD", "MACHINES", "SAME MACHINES", "ONE OF 512"],
        "hops": ["WORKLOAD", *(f"{each} HOPS" for each in markets.FORWARDED)],
        "combinations": ["WORKLOAD", "MACHINES", "WAY", "MF", *USER_FUNCTIONS],
    }
    more: list[str | TextTable] = []
    for name, title in titles.items():
        cells = (each.values() for each in facts[name])
        more += [f"\n{title}", TextTable.of(headers[name], cells, ".4f")]
    return Outcome(
        claims=DECLARED.claims(rows_of(logs, drawn)),
        seeds=range(seeds),
        table=lambda claims: judged_claims([each for each in claims if each.printed is not None]),
        more=more,
        facts=facts,
        drawings={
            "economic-10-11.png": lambda: _against_conventional(logs),
            "economic-12-13.png": lambda: _configurations(logs),
            "economic-14-16.png": lambda: _balance(logs[markets.LIKE_CTC]),
            "economic-17-18.png": lambda: _functions(logs),
        },
        manifest={"workloads": list(logs), "jobs": jobs, "full_size": jobs == markets.EXTRACT_JOBS},
    )


def _controls(logs: Mapping[str, markets.LogResults]) -> Iterator[dict[str, Any]]:
    """AWRT of the best functions over that of either control, exact times."""
    for workload, results in logs.items():
        for machines in markets.CONFIGURATIONS:
            best = results.best(machines)
            response = results.response(best)
            yield {
                "workload": workload,
                "machines": machines,
                "same_machines": response / results.control(best)[1],
                "one_machine": response / results.conventional[markets.EASY_EXACT],
            }


def _hops(logs: Mapping[str, markets.LogResults]) -> Iterator[dict[str, Any]]:
    """AWRT on m128 by the hops of a request, over that on one machine of 512."""
    for workload, results in logs.items():
        one = results.response(markets.Market("m512", way=markets.EXACT))
        ratios = {
            str(each): results.response(markets.FORWARDED[each]) / one for each in markets.FORWARDED
        }
        yield {"workload": workload, **ratios}


def _combinations(logs: Mapping[str, markets.LogResults]) -> Iterator[dict[str, Any]]:
    """AWRT over EASY's with user estimates: a row for each machine function."""
    for workload, results in logs.items():
        for machines, way, owner in product(
            markets.TABULATED, (markets.EXACT, markets.RESCHEDULED), MACHINE_FUNCTIONS
        ):
            row: dict[str, Any] = {"workload": workload, "machines": machines}
            row |= {"way": way, "owner": owner}
            for user in USER_FUNCTIONS:
                market = markets.Market(machines, owner, user, way)
                row[user] = results.response(market) / results.conventional[markets.EASY]
            yield row
