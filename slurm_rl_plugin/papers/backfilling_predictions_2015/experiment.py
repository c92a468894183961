"""Every cell without learning from this package's simulator, and one online method beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.manifest import file_checksum
from slurm_rl_plugin.learning.onnx_file import import_model
from slurm_rl_plugin.papers.backfilling_predictions_2015.plan import (
    CELLS,
    EASY,
    PLUS_PLUS,
    REQUEST,
    TRUE,
    BenchmarkLog,
    Cell,
    Flows,
    by_prediction,
    flows_of,
    read_benchmark_log,
    starts_of,
    starts_under,
)
from slurm_rl_plugin.papers.study import claims as claimed
from slurm_rl_plugin.papers.study.claims import (
    Declared,
    Judgement,
    Measurement,
    Printed,
    Row,
    TextTable,
)
from slurm_rl_plugin.papers.study.figures import comparison
from slurm_rl_plugin.papers.study.result_store import ResultStore, stem_of
from slurm_rl_plugin.papers.study.study import Asked, Outcome
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings


class Setting(NamedTuple):
    """The slack of a promise, a part of the longest wait that the site has known lately."""

    slack: float

    @property
    def name(self) -> str:
        """In words."""
        return f"slack {self.slack:g}"


#: The one that is looked at first.
SETTINGS = (Setting(0.1), Setting(0.05), Setting(0.2))


def refuse_without_prediction(network: object) -> QNetwork:
    """The network, where it predicts run times."""
    if not isinstance(network, QNetwork) or not network.looks_at_past:
        raise ConfigurationError(
            "the model of --policy looks at no past runs: give one of train --protocol heldout."
        )
    if network.reserve_weights is not None:
        raise ConfigurationError(
            "the model of --policy keeps processors free, which this study does not simulate: give "
            "another model."
        )
    return network


def flows_under(setting: Setting, network: QNetwork, log: BenchmarkLog) -> Flows:
    """The figures of the network's order with pending jobs planned by its own prediction."""
    workload, capacity = log.workload, log.prepared.capacity
    queue = SimulationSettings(capacity=capacity).ordered_queue(
        workload, QueueOrder(network=network)
    )
    estimates = by_prediction(workload, network, setting.slack)
    return flows_of(log, starts_under(workload, capacity, queue, estimates))


DECLARED = Declared(__package__)
#: Log -> its file.
LOGS: Mapping[str, str] = {
    "CTC-SP2": "CTC-SP2-1996-3.1-cln",
    "SDSC-SP2": "SDSC-SP2-1998-4.2-cln",
}
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
    """What came out on one log."""

    jobs: int
    cells: Mapping[Cell, Flows]  #: each without learning
    method: Mapping[Setting, Flows]  #: the one method under each setting

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
    """Simulate all cells and settings on each log, or take what was simulated before."""
    logs = {name: read_benchmark_log(traces, file, most) for name, file in LOGS.items()}
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


def _published(log: str, cell: str) -> tuple[str, float]:
    """Their mean bounded slowdown as text, and longest flow time in seconds."""
    slowdown, longest_flow = DECLARED.tables["published"][log][cell].split()
    return slowdown, float(longest_flow)


def rows_of(results: Mapping[str, LogResults]) -> Iterator[Row]:
    """The cells without learning, then the one method as it ships, of all logs."""
    for log, found in results.items():
        for cell, flows in found.cells.items():
            yield _cell_row(log, cell, flows)
    for log, found in results.items():
        yield from _method_rows(log, found)


def _cell_row(log: str, cell: Cell, flows: Flows) -> Row:
    text, longest_flow = _published(log, cell.name)
    printed = Printed.of(text)
    ratio, flow = flows.slowdown / printed.value, flows.longest_flow / longest_flow
    because = f"{ratio:.3f} of the published slowdown, {flow:.3f} of the longest flow time"
    return Row(
        cell=claimed.Cell(log, cell.name),
        measured=Measurement(value=flows.slowdown),
        printed=printed,
        judged=Judgement(abs(ratio - 1.0) <= TOLERANCE, because),
    )


def _method_rows(log: str, found: LogResults) -> Iterator[Row]:
    shipped, group = SETTINGS[0], f"{log}, {ONE_METHOD}"
    learned, longest_flow = _published(log, "learned")
    baselines = {
        "EASY": found.cells[_BASE].slowdown,
        "EASY++ that knows run times": found.cells[_CLAIRVOYANT].slowdown,
        "their best learned cell": float(learned),
    }
    for column in (f"{SLOWDOWN}, to their best learned cell", f"{SLOWDOWN}, to the goal"):
        cell = claimed.Cell(group, shipped.name, column)
        measured = Measurement(value=found.method[shipped].slowdown)
        yield Row(cell=cell, measured=measured, baselines=baselines)
    yield Row(
        cell=claimed.Cell(group, shipped.name, LONGEST),
        measured=Measurement(value=found.longest_ratio(shipped)),
        baselines={"EASY": 1.0, _FLOWS: longest_flow / _published(log, _BASE.name)[1]},
    )


_NO_TRACES = "backfilling-predictions needs CTC-SP2 and SDSC-SP2: give the directory of the traces."
_SHIPPED = "default"


def run(asked: Asked) -> Outcome:
    """Simulate every cell without learning, and the one method, on both logs."""
    if asked.seeds is not None:
        raise ConfigurationError("--seeds is not for backfilling-predictions: its logs are given.")
    traces = asked.traces_or_refuse(_NO_TRACES)
    path = asked.policy or asked.shipped(_SHIPPED)
    network = refuse_without_prediction(import_model(path))
    store, most = ResultStore(asked.models), QUICK_JOBS if asked.quick else None
    with asked.bar("simulating", STEPS) as add:
        found = measure(traces, network, file_checksum(path), store, add, most=most)
    claims = DECLARED.claims(rows_of(found))
    fronts = {name: _front(name, each) for name, each in found.items()}
    cells = [claim for claim in claims if claim.cell.group in LOGS]
    told = "\nThe one method under other settings, the one that ships first:"
    header = ["LOG", "SLACK", "BSLD", "TO BEST LEARNED", "LONGEST WAIT / EASY"]
    rows = [[name, *row.values()] for name, front in fronts.items() for row in front]
    return Outcome(
        claims=claims,
        seeds=(),
        more=[told, TextTable(header, rows)],
        facts={"settings": fronts, "jobs": {name: each.jobs for name, each in found.items()}},
        drawings={
            "backfilling-predictions.png": lambda: comparison(cells, "mean bounded slowdown")
        },
    )


def _front(name: str, found: LogResults) -> list[Mapping[str, Any]]:
    """What each setting gives on a log."""
    best = float(_published(name, "learned")[0])
    return [
        {
            "slack": setting.slack,
            "bounded_slowdown": flows.slowdown,
            "to_best_learned": flows.slowdown / best,
            "longest_wait_to_easy": found.longest_ratio(setting),
        }
        for setting, flows in found.method.items()
    ]
