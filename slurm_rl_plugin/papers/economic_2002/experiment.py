"""Economic scheduling (Ernemann, Hamscher, Yahyapour 2002): the market against FCFS and EASY.

Every combination of machine and user functions runs on three extracts of CTC-SP2 and on a log like
it, as the paper did it and with the rescheduling that it leaves open. EASY has one machine of 512
processors in all comparisons: what the market has in four is never more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.brokers.market.functions import MACHINE_FUNCTIONS, USER_FUNCTIONS
from slurm_rl_plugin.papers.economic_2002.logs import (
    EXTRACT_JOBS,
    EXTRACTS,
    EconomicLog,
    extract,
    like_ctc,
    read_ctc,
)
from slurm_rl_plugin.papers.economic_2002.result_store import (
    ASKED,
    CONFIGURATIONS,
    EXACT,
    RESCHEDULED,
    Cell,
    CellFigures,
    CellShelf,
)

#: The log that stands for the paper's synthetic one.
LIKE_CTC = "like CTC"
#: Configurations for which all combinations of functions are run.
TABULATED = ("m512", "m128")
#: Jobs of each workload of a quick run.
QUICK_JOBS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run.

    Attributes:
        traces: folder with CTC-SP2.
        seeds: logs like CTC-SP2 on which rescheduling is compared with EASY.
        quick: small workloads.
    """

    traces: Path
    seeds: int
    quick: bool = False

    @property
    def jobs(self) -> int:
        """Of each workload."""
        return QUICK_JOBS if self.quick else EXTRACT_JOBS

    @property
    def steps(self) -> int:
        """Schedules, for a progress bar; those of the conventional schedulers count as one."""
        workloads = len(EXTRACTS) + 1
        return workloads * (len(_cells()) + 1) + self.seeds * (len(TABULATED) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogResults:
    """What came out on one workload.

    Attributes:
        conventional: scheduler -> average weighted response time, seconds.
        cells: market -> figures.
    """

    conventional: Mapping[str, float]
    cells: Mapping[Cell, CellFigures]

    def response(self, cell: Cell) -> float:
        """Average weighted response time of a market, seconds."""
        return self.cells[cell].response

    def best(self, configuration: str, way: str) -> tuple[Cell, CellFigures]:
        """The combination of functions with the lowest average weighted response time."""
        tried = [cell for cell in combinations(configuration, way) if cell in self.cells]
        cell = min(tried, key=self.response)
        return cell, self.cells[cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Economic:
    """What came out.

    Attributes:
        logs: workload -> results.
        seeds: results on logs like CTC-SP2, one a seed.
    """

    logs: Mapping[str, LogResults]
    seeds: tuple[LogResults, ...]


def combinations(configuration: str, way: str) -> list[Cell]:
    """All machine and user functions with each other."""
    return [
        Cell(configuration=configuration, owner=owner, user=user, way=way)
        for owner in MACHINE_FUNCTIONS
        for user in USER_FUNCTIONS
    ]


def paper_split(way: str) -> Cell:
    """UF1/MF1 on m128 where only jobs wider than a machine are split, as the paper's text says."""
    return Cell(configuration="m128", way=way, splitting="where too wide")


def _cells() -> list[Cell]:
    found = [
        cell
        for name in TABULATED
        for way in (EXACT, RESCHEDULED)
        for cell in combinations(name, way)
    ]
    for name in CONFIGURATIONS:
        found += [Cell(configuration=name, way=way) for way in (EXACT, ASKED, RESCHEDULED)]
    found += [paper_split(way) for way in (EXACT, RESCHEDULED)]
    return list(dict.fromkeys(found))


def reproduce(plan: Plan, shelf_of: Callable[[], CellShelf]) -> Economic:
    """Run everything.

    Args:
        plan: what to run.
        shelf_of: gives the shelf once the log has been found.

    Raises:
        ConfigurationError: the folder does not hold CTC-SP2, or too little of it.
        AccountingLogError: it cannot be read.
    """
    log = read_ctc(plan.traces, plan.jobs)
    shelf = shelf_of()
    workloads = {name: extract(log, number, plan.jobs) for name, number in EXTRACTS.items()}
    workloads[LIKE_CTC] = like_ctc(log, 0, plan.jobs)
    logs = {name: _run(name, each, _cells(), shelf) for name, each in workloads.items()}
    compared = [Cell(configuration=name) for name in TABULATED]
    seeds = [
        _run(f"{LIKE_CTC} {seed}", like_ctc(log, seed, plan.jobs), compared, shelf)
        for seed in range(plan.seeds)
    ]
    return Economic(logs=logs, seeds=tuple(seeds))


def _run(name: str, log: EconomicLog, cells: list[Cell], shelf: CellShelf) -> LogResults:
    return LogResults(
        conventional=shelf.take_conventional(name, log),
        cells=dict(_measured(name, log, cells, shelf)),
    )


def _measured(
    name: str, log: EconomicLog, cells: list[Cell], shelf: CellShelf
) -> Iterator[tuple[Cell, CellFigures]]:
    for cell in cells:
        yield cell, shelf.take(name, log, cell)
