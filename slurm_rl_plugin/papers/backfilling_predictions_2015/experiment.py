"""Every cell without learning from this package's simulator, and one online method beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from slurm_rl_plugin.papers.backfilling_predictions_2015.one_method import (
    SETTINGS,
    Setting,
    flows_under,
)
from slurm_rl_plugin.papers.backfilling_predictions_2015.published_cells import (
    CELLS,
    CTC_SP2,
    EASY,
    PLUS_PLUS,
    REQUEST,
    SDSC_SP2,
    TRUE,
    Cell,
    Published,
    PublishedLog,
)
from slurm_rl_plugin.papers.backfilling_predictions_2015.schedules import (
    BenchmarkLog,
    Flows,
    flows_of,
    read_benchmark_log,
    starts_of,
)
from slurm_rl_plugin.papers.study import claims as claimed
from slurm_rl_plugin.papers.study.claims import Claim, Judgement, Measurement, Printed
from slurm_rl_plugin.papers.study.result_store import ResultStore, stem_of
from slurm_rl_plugin.papers.study.verdicts import bounded
from slurm_rl_plugin.policies.network import QNetwork

#: Log -> its file, and what was published of it.
LOGS: Mapping[str, tuple[str, PublishedLog]] = {
    "CTC-SP2": ("CTC-SP2-1996-3.1-cln", CTC_SP2),
    "SDSC-SP2": ("SDSC-SP2-1998-4.2-cln", SDSC_SP2),
}
#: Log -> slowdown that the one method is to reach.
GOALS: Mapping[str, str] = {"CTC-SP2": "15.1", "SDSC-SP2": "50"}
#: How much longer than under EASY a job may wait for it.
LONGEST_GOAL = "1.5"
#: Part by which a slowdown may differ from the published one.
TOLERANCE = 0.03
#: Jobs of each log that show that it runs.
QUICK_JOBS = 1500
SLOWDOWN, LONGEST = "mean bounded slowdown", "longest wait / EASY's"
ONE_METHOD = "one online method"
#: In place of a wait, which they do not tell.
_FLOWS = "their best learned cell, longest flow time"
#: Parts of the work.
STEPS = len(LOGS) * (len(CELLS) + len(SETTINGS))

_BASE, _CLAIRVOYANT = Cell(EASY, REQUEST), Cell(PLUS_PLUS, TRUE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogResults:
    """What came out on one log.

    Attributes:
        jobs: that were simulated.
        cells: each without learning.
        method: the one method under each setting.
    """

    jobs: int
    cells: Mapping[Cell, Flows]
    method: Mapping[Setting, Flows]

    def longest_ratio(self, setting: Setting) -> float:
        """Longest wait of the one method over that of EASY."""
        return self.method[setting].longest_wait / self.cells[_BASE].longest_wait


def measure(
    traces: Path,
    network: QNetwork,
    model: str,
    store: ResultStore,
    add: Callable[[int], None],
    *,
    most: int | None = None,
) -> dict[str, LogResults]:
    """Simulate all cells and settings on each log, or take what was simulated before.

    Args:
        traces: folder of the logs.
        network: orders the queue of the one method and predicts.
        model: checksum of its file.
        store: of results.
        add: told how many parts more are done.
        most: jobs of each log; None for all.

    Raises:
        ConfigurationError: a log is missing.
        AccountingLogError: a log cannot be read.
    """
    logs = {name: read_benchmark_log(traces, file, most) for name, (file, _) in LOGS.items()}
    found = {}
    for name, log in logs.items():
        stem = stem_of("backfilling-predictions", log.checksum, most, model, module=__name__)
        cells, method = store.figures(stem, partial(_simulated, log, network, add))
        found[name] = LogResults(
            jobs=len(log.prepared.log),
            cells={cell: Flows(*each) for cell, each in zip(CELLS, cells, strict=True)},
            method={setting: Flows(*each) for setting, each in zip(SETTINGS, method, strict=True)},
        )
    return found


def _simulated(
    log: BenchmarkLog, network: QNetwork, add: Callable[[int], None]
) -> tuple[list[Flows], list[Flows]]:
    """The figures of CELLS and of SETTINGS on a log."""
    cells, method = [], []
    for cell in CELLS:
        cells.append(flows_of(log, starts_of(cell, log)))
        add(1)
    for setting in SETTINGS:
        method.append(flows_under(setting, network, log))
        add(1)
    return cells, method


def claims_of(results: Mapping[str, LogResults]) -> list[Claim]:
    """The cells without learning, then the one method as it ships, of all logs."""
    cells = [
        _cell_claim(name, cell, published, results[name].cells[cell])
        for name, (_, log) in LOGS.items()
        for cell, published in log.cells.items()
    ]
    return [*cells, *(claim for name in LOGS for claim in _method_claims(name, results[name]))]


def _cell_claim(log: str, cell: Cell, published: Published, flows: Flows) -> Claim:
    printed = Printed.of(published.slowdown)
    ratio = flows.slowdown / printed.value
    flow = flows.longest_flow / float(published.longest_flow)
    because = f"{ratio:.3f} of the published slowdown, {flow:.3f} of the longest flow time"
    return Claim(
        cell=claimed.Cell(log, cell.name),
        measured=Measurement(value=flows.slowdown),
        printed=printed,
        judged=Judgement(abs(ratio - 1.0) <= TOLERANCE, because),
    )


def _method_claims(log: str, found: LogResults) -> Iterator[Claim]:
    shipped, learned = SETTINGS[0], LOGS[log][1].learned
    measured = Measurement(value=found.method[shipped].slowdown)
    baselines = {
        "EASY": found.cells[_BASE].slowdown,
        "EASY++ that knows run times": found.cells[_CLAIRVOYANT].slowdown,
        "their best learned cell": float(learned.slowdown),
    }
    group = f"{log}, {ONE_METHOD}"
    for source, column, bound in (
        ("paper", f"{SLOWDOWN}, to their best learned cell", learned.slowdown),
        ("goal", f"{SLOWDOWN}, to the goal", GOALS[log]),
    ):
        cell = claimed.Cell(group, shipped.name, column)
        yield bounded(cell, measured, bound, logs=1, source=source, baselines=baselines)
    ratio = Measurement(value=found.longest_ratio(shipped))
    easy = LOGS[log][1].cells[_BASE].longest_flow
    flows = float(learned.longest_flow) / float(easy)
    cell = claimed.Cell(group, shipped.name, LONGEST)
    yield bounded(
        cell, ratio, LONGEST_GOAL, logs=1, source="goal", baselines={"EASY": 1.0, _FLOWS: flows}
    )
