"""Economic scheduling (Ernemann, Hamscher, Yahyapour 2002): the market against FCFS and EASY.

Every combination of machine and user functions runs on three extracts of CTC-SP2 and on a log like
it, as the paper did it and with the rescheduling that it leaves open. EASY has one machine of 512
processors in all comparisons: what the market has in four is never more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.brokers.market.functions import MACHINE_FUNCTIONS, USER_FUNCTIONS
from slurm_rl_plugin.papers.economic_2002.logs import (
    EXTRACTS,
    EconomicLog,
    extract,
    like_ctc,
)
from slurm_rl_plugin.papers.economic_2002.markets import (
    ASKED,
    CONFIGURATIONS,
    EXACT,
    RESCHEDULED,
    Cell,
    CellFigures,
    run_cell,
    run_conventional,
)
from slurm_rl_plugin.papers.study.result_store import ResultStore, digest_of, stem_of

#: The log that stands for the paper's synthetic one.
LIKE_CTC = "like CTC"
#: Configurations for which all combinations of functions are run.
TABULATED = ("m512", "m128")
#: Jobs of each workload of a quick run.
QUICK_JOBS = 60


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


def steps(seeds: int) -> int:
    """Schedules, for a progress bar; those of the conventional schedulers count as one."""
    workloads = len(EXTRACTS) + 1
    return workloads * (len(_cells()) + 1) + seeds * (len(TABULATED) + 1)


def reproduce(
    log: JobLog, seeds: int, jobs: int, store: ResultStore, after_cell: Callable[[], None]
) -> Economic:
    """Run everything.

    Args:
        log: CTC-SP2.
        seeds: logs like CTC-SP2 on which rescheduling is compared with EASY.
        jobs: of each workload.
        store: of what was measured.
        after_cell: told after each market, and after the conventional schedulers.
    """
    workloads = {name: extract(log, number, jobs) for name, number in EXTRACTS.items()}
    workloads[LIKE_CTC] = like_ctc(log, 0, jobs)
    compared = [Cell(configuration=name) for name in TABULATED]
    logs = {name: _run(name, each, _cells(), store, after_cell) for name, each in workloads.items()}
    drawn = [
        _run(f"{LIKE_CTC} {seed}", like_ctc(log, seed, jobs), compared, store, after_cell)
        for seed in range(seeds)
    ]
    return Economic(logs=logs, seeds=tuple(drawn))


def _run(
    name: str,
    log: EconomicLog,
    cells: Sequence[Cell],
    store: ResultStore,
    after_cell: Callable[[], None],
) -> LogResults:
    columns = (log.asked.submit, log.asked.estimate, log.exact.run_time, log.asked.processors)
    digest = digest_of(*columns)

    def kept(key: Mapping[str, Any], measure: Callable[[], Any]) -> Any:
        found = store.figures(stem_of("economic", name, digest, key, module=__name__), measure)
        after_cell()
        return found

    conventional = kept({}, partial(run_conventional, log))
    measured = {cell: kept(asdict(cell), partial(_cell_figures, log, cell)) for cell in cells}
    return LogResults(
        conventional=conventional,
        cells={cell: CellFigures(**found) for cell, found in measured.items()},
    )


def _cell_figures(log: EconomicLog, cell: Cell) -> dict[str, Any]:
    return asdict(run_cell(log, cell))
