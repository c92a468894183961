"""`economic`: the market of 2002 against FCFS and EASY, as a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib import pyplot as plt

from slurm_rl_plugin.brokers.market.functions import MACHINE_FUNCTIONS, USER_FUNCTIONS
from slurm_rl_plugin.papers.economic_2002.claims import DECLARED, rows_of
from slurm_rl_plugin.papers.economic_2002.experiment import (
    HOPS,
    LIKE_CTC,
    QUICK_JOBS,
    TABULATED,
    Economic,
    LogResults,
    forwarded,
    reproduce,
    steps,
)
from slurm_rl_plugin.papers.economic_2002.markets import (
    CONFIGURATIONS,
    EASY,
    EASY_EXACT,
    EXACT,
    EXTRACT_JOBS,
    RESCHEDULED,
    Market,
    MarketFigures,
    read_ctc,
)
from slurm_rl_plugin.papers.study.claims import TextTable, judged_claims
from slurm_rl_plugin.papers.study.figures import legend_above
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Drawings, Outcome
from slurm_rl_plugin.units import HOUR

#: Functions of Figures 14 to 16.
_BALANCED = (("MF1", "UF1"), ("MF1", "UF2"), ("MF2", "UF2"))
_RESPONSE, _WAIT = "AWRT (h)", "AWWT (h)"


def drawings_of(logs: Mapping[str, LogResults]) -> Drawings:
    """All figures, of each workload's results."""
    return {
        "economic-10-11.png": lambda: _against_conventional(logs),
        "economic-12-13.png": lambda: _configurations(logs),
        "economic-14-16.png": lambda: _balance(logs[LIKE_CTC]),
        "economic-17-18.png": lambda: _functions(logs),
    }


def _bars(axis: Any, names: Sequence[str], series: Mapping[str, Sequence[float]]) -> None:
    """Groups of bars next to each other."""
    width = 0.85 / len(series)
    for number, (label, values) in enumerate(series.items()):
        places = [place + (number - (len(series) - 1) / 2) * width for place in range(len(names))]
        axis.bar(places, values, width, label=label)
    axis.set_xticks(range(len(names)), names)
    axis.grid(axis="y", alpha=0.3)


def _against_conventional(logs: Mapping[str, LogResults]) -> Any:
    figure, axes = plt.subplots(2, 2, figsize=(11, 7.2), sharey=True, layout="constrained")
    for axis, configuration in zip(axes.flat, CONFIGURATIONS, strict=True):
        plain = Market(configuration=configuration, way=EXACT)
        series = {
            "FCFS with backfilling, same machines": [
                each.control(configuration, EXACT)[1] / HOUR for each in logs.values()
            ],
            "EASY, one machine of 512": [
                each.conventional[EASY_EXACT] / HOUR for each in logs.values()
            ],
            "MF1 UF1": [each.response(plain) / HOUR for each in logs.values()],
            "best functions": [
                each.best(configuration, EXACT)[1].response / HOUR for each in logs.values()
            ],
        }
        _bars(axis, list(logs), series)
        axis.set_title(f"Figures 10 and 11: {configuration}, exact times")
        axis.set_ylabel(_RESPONSE)
    legend_above(figure, axes[0, 0])
    return figure


def _configurations(logs: Mapping[str, LogResults]) -> Any:
    figure, axes = plt.subplots(2, 2, figsize=(11, 6.4), sharey="col", layout="constrained")
    for row, way in zip(axes, (EXACT, RESCHEDULED), strict=True):
        for axis, label, column in zip(row, (_RESPONSE, _WAIT), ("response", "wait"), strict=True):
            series = {
                name: [
                    getattr(each.markets[Market(configuration=name, way=way)], column) / HOUR
                    for each in logs.values()
                ]
                for name in CONFIGURATIONS
            }
            _bars(axis, list(logs), series)
            axis.set_ylabel(label)
            axis.set_title(f"Figures 12 and 13: MF1 UF1, {way}")
    legend_above(figure, axes[0, 0])
    return figure


def _balance(results: LogResults) -> Any:
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    found: dict[str, MarketFigures] = {
        f"{owner} {user}": results.markets[
            Market(configuration="m128", owner=owner, user=user, way=EXACT)
        ]
        for owner, user in _BALANCED
    }
    machines = [f"machine {place + 1}" for place in range(len(CONFIGURATIONS["m128"]))]
    areas = {name: [area / HOUR for area in each.squashed_area] for name, each in found.items()}
    _bars(axes[0], machines, areas)
    axes[0].set_ylabel("squashed area (processor-hours)")
    axes[0].set_title("Figure 14")
    _bars(axes[1], machines, {name: each.utilization for name, each in found.items()})
    axes[1].set_ylabel("utilization")
    axes[1].set_title("Figure 15")
    times = {name: [each.response / HOUR, each.wait / HOUR] for name, each in found.items()}
    _bars(axes[2], ["AWRT", "AWWT"], times)
    axes[2].set_ylabel("hours")
    axes[2].set_title("Figure 16")
    legend_above(figure, axes[0])
    return figure


def _functions(logs: Mapping[str, LogResults]) -> Any:
    figure, axes = plt.subplots(2, 2, figsize=(11, 7.2), layout="constrained")
    for row, way in zip(axes, (EXACT, RESCHEDULED), strict=True):
        owners = {
            owner: _responses(logs, Market(configuration="m128", owner=owner, user="UF3", way=way))
            for owner in MACHINE_FUNCTIONS
        }
        users = {
            user: _responses(logs, Market(configuration="m128", owner="MF2", user=user, way=way))
            for user in USER_FUNCTIONS
        }
        for axis, series, title in zip(
            row,
            (owners, users),
            ("Figure 17: m128, UF3", "Figure 18: m128, MF2"),
            strict=True,
        ):
            _bars(axis, list(logs), series)
            axis.set_ylabel(_RESPONSE)
            axis.set_ylim(0.0, 1.3 * max(value for values in series.values() for value in values))
            axis.legend(ncols=len(series), fontsize=8, columnspacing=1.0, handlelength=1.0)
            axis.set_title(f"{title}, {way}")
    return figure


def _responses(logs: Mapping[str, LogResults], market: Market) -> list[float]:
    return [each.response(market) / HOUR for each in logs.values()]


def run(asked: Asked) -> Outcome:
    """Simulate every market and the conventional schedulers, and measure."""
    asked.refuse_policy("it has no network")
    needed = "economic needs CTC-SP2: give the directory of the traces."
    traces, seeds = asked.traces_or_refuse(needed), asked.number_of_seeds()
    jobs = QUICK_JOBS if asked.quick else EXTRACT_JOBS
    log = read_ctc(traces, jobs)
    with asked.bar("simulating", steps(seeds)) as add:
        found = reproduce(log, seeds, jobs, ResultStore(asked.models), partial(add, 1))
    rows = list(_combinations(found))
    cells = [[f"{x:.4f}" if isinstance(x, float) else x for x in row.values()] for row in rows]
    shown = TextTable(["WORKLOAD", "MACHINES", "WAY", "MF", *USER_FUNCTIONS], cells)
    controls = list(_controls(found))
    hops = list(_hops(found))
    against = [
        [f"{x:.4f}" if isinstance(x, float) else x for x in row.values()] for row in controls
    ]
    return Outcome(
        claims=DECLARED.claims(rows_of(found)),
        seeds=range(seeds),
        table=lambda claims: judged_claims([each for each in claims if each.printed is not None]),
        more=[
            "\nFig. 10: AWRT of the best functions over FCFS with backfilling, exact times:",
            TextTable(["WORKLOAD", "MACHINES", "SAME MACHINES", "ONE OF 512"], against),
            "\nAWRT of MF1 UF1 on m128 by hops between four domains, over that on one of 512:",
            TextTable(
                ["WORKLOAD", *(f"{each} HOPS" for each in HOPS)],
                [[row["workload"], *(f"{row[str(each)]:.4f}" for each in HOPS)] for row in hops],
            ),
            "\nAWRT over EASY's with user estimates:",
            shown,
        ],
        facts={"combinations": rows, "controls": controls, "hops": hops},
        drawings=drawings_of(found.logs),
        manifest={
            "workloads": list(found.logs),
            "jobs": jobs,
            "full_size": jobs == EXTRACT_JOBS,
        },
    )


def _controls(found: Economic) -> Iterator[dict[str, Any]]:
    """AWRT of the best functions over that of either control, exact times."""
    for workload, results in found.logs.items():
        for machines in CONFIGURATIONS:
            best = results.best(machines, EXACT)[1].response
            yield {
                "workload": workload,
                "machines": machines,
                "same_machines": best / results.control(machines, EXACT)[1],
                "one_machine": best / results.conventional[EASY_EXACT],
            }


def _hops(found: Economic) -> Iterator[dict[str, Any]]:
    """AWRT on m128 where requests are forwarded so often, over that on one machine of 512."""
    for workload, results in found.logs.items():
        one = results.response(Market(configuration="m512", way=EXACT))
        ratios = {str(each): results.response(forwarded(each)) / one for each in HOPS}
        yield {"workload": workload, **ratios}


def _combinations(found: Economic) -> Iterator[dict[str, Any]]:
    """AWRT over that of EASY with user estimates by user function, a row a machine function."""
    for workload, results in found.logs.items():
        easy = results.conventional[EASY]
        for machines in TABULATED:
            for way in (EXACT, RESCHEDULED):
                for owner in MACHINE_FUNCTIONS:
                    ratios = {
                        user: results.response(
                            Market(configuration=machines, owner=owner, user=user, way=way)
                        )
                        / easy
                        for user in USER_FUNCTIONS
                    }
                    row = {"workload": workload, "machines": machines, "way": way, "owner": owner}
                    yield {**row, **ratios}
