"""The 2015 study: every cell without learning, simulated by this package, and one online method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.manifest import file_checksum
from slurm_rl_plugin.learning.onnx_file import import_network
from slurm_rl_plugin.papers.backfilling_predictions_2015 import plan
from slurm_rl_plugin.papers.study import trials
from slurm_rl_plugin.papers.study.claims import Declared, Judgement, Printed, Row, row_of
from slurm_rl_plugin.papers.study.figures import comparison
from slurm_rl_plugin.papers.study.result_store import ResultStore, stem_of
from slurm_rl_plugin.papers.study.study import Add, Asked, Outcome
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings

#: Slacks of a promise as parts of the longest recent wait at the site; the first is shipped.
SETTINGS = (0.1, 0.05, 0.2)


DECLARED = Declared(__package__)
#: Log -> its file.
LOGS: Mapping[str, str] = {name: trials.LOGS[name] for name in ("CTC-SP2", "SDSC-SP2")}
#: Accepted relative difference from the published slowdown.
TOLERANCE = 0.03
#: Jobs of each log in a smoke test.
QUICK_JOBS = 1500
SLOWDOWN, LONGEST = "mean bounded slowdown", "longest wait / EASY's"
ONE_METHOD = "one online method"
#: Replaces a wait, which they do not publish.
_FLOWS = "their best learned cell, longest flow time"
#: Simulated on each log.
_EVERY: tuple[plan.Cell | float, ...] = (*plan.CELLS, *SETTINGS)

_BASE, _CLAIRVOYANT = plan.Cell(plan.EASY, plan.REQUEST), plan.Cell(plan.PLUS_PLUS, plan.TRUE)


#: Cell without learning, or slack of the one method -> its figures on a log.
LogResults = Mapping[plan.Cell | float, plan.Flows]


def _longest_ratio(found: LogResults, slack: float) -> float:
    return found[slack].longest_wait / found[_BASE].longest_wait


def _simulated(log: trials.StudyLog, network: QNetwork, add: Add) -> list[plan.Flows]:
    found, capacity = [], log.prepared.capacity
    workload = log.prepared.workload(RequestedLimit())
    for each in _EVERY:
        if isinstance(each, plan.Cell):
            start = plan.starts_of(each, log)
        else:  # the network's order, with pending jobs planned by its predictions
            order = QueueOrder(network=network)
            queue = SimulationSettings(capacity=capacity).ordered_queue(workload, order)
            predicted = plan.by_prediction(workload, network, each)
            start = plan.starts_under(workload, capacity, queue, predicted)
        found.append(plan.flows_of(log, start))
        add(1)
    return found


def _published(log: str, cell: str) -> tuple[str, float]:
    """Published mean bounded slowdown as text, and longest flow time in seconds."""
    slowdown, longest_flow = DECLARED.tables["published"][log][cell].split()
    return slowdown, float(longest_flow)


def rows_of(results: Mapping[str, LogResults]) -> Iterator[Row]:
    """The cells without learning, then the shipped method, of all logs."""
    for log, found in results.items():
        for cell in plan.CELLS:
            text, longest_flow = _published(log, cell.name)
            printed, flows = Printed.of(text), found[cell]
            ratio, flow = flows.slowdown / printed.value, flows.longest_flow / longest_flow
            because = f"{ratio:.3f} of the published slowdown, {flow:.3f} of the longest flow time"
            judged = Judgement(abs(ratio - 1.0) <= TOLERANCE, because)
            yield row_of(log, cell.name, "", flows.slowdown, printed=printed, judged=judged)
    shipped = SETTINGS[0]
    for log, found in results.items():
        group, policy = f"{log}, {ONE_METHOD}", f"slack {shipped:g}"
        learned, longest_flow = _published(log, "learned")
        baselines = {
            "EASY": found[_BASE].slowdown,
            "EASY++ that knows run times": found[_CLAIRVOYANT].slowdown,
            "their best learned cell": float(learned),
        }
        for column in (f"{SLOWDOWN}, to their best learned cell", f"{SLOWDOWN}, to the goal"):
            yield row_of(group, policy, column, found[shipped].slowdown, baselines=baselines)
        waits = {"EASY": 1.0, _FLOWS: longest_flow / _published(log, _BASE.name)[1]}
        yield row_of(group, policy, LONGEST, _longest_ratio(found, shipped), baselines=waits)


_SHIPPED = "default"


def run(asked: Asked) -> Outcome:
    """Simulate every cell without learning, and the one method, on both logs."""
    asked.refuse_seeds("its logs are given")
    traces = asked.logs
    path = asked.shipped(_SHIPPED)
    network = import_network(path)
    most = QUICK_JOBS if asked.quick else None
    logs = {name: plan.read_benchmark_log(traces, file, most) for name, file in LOGS.items()}
    found = dict[str, LogResults]()
    with asked.bar("simulating", len(LOGS) * len(_EVERY)) as add:
        store, model = ResultStore(asked.models, add), file_checksum(path)
        for name, log in logs.items():
            stem = stem_of("backfilling-predictions", log.checksum, most, model, module=__name__)
            flows = store.figures(stem, partial(_simulated, log, network, add))
            kept = (plan.Flows(*each) for each in flows)
            found[name] = dict(zip(_EVERY, kept, strict=True))
    claims = DECLARED.claims(rows_of(found))
    fronts = {
        name: [
            {
                "slack": slack,
                "bounded_slowdown": each[slack].slowdown,
                "to_best_learned": each[slack].slowdown / float(_published(name, "learned")[0]),
                "longest_wait_to_easy": _longest_ratio(each, slack),
            }
            for slack in SETTINGS
        ]
        for name, each in found.items()
    }
    cells = [claim for claim in claims if claim.cell.group in LOGS]
    return Outcome(
        claims=claims,
        seeds=(),
        facts={
            "settings": fronts,
            "jobs": {name: len(log.prepared.log) for name, log in logs.items()},
        },
        drawings={
            "backfilling-predictions.png": lambda: comparison(cells, "mean bounded slowdown")
        },
    )
