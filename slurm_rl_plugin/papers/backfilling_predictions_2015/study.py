"""`backfilling-predictions`: predicted run times in the plan of EASY (SC 2015), as a study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.export.manifest import file_checksum
from slurm_rl_plugin.learning.export.model import import_model
from slurm_rl_plugin.papers.backfilling_predictions_2015.experiment import (
    LOGS,
    QUICK_JOBS,
    STEPS,
    LogResults,
    claims_of,
    measure,
)
from slurm_rl_plugin.papers.backfilling_predictions_2015.one_method import (
    refuse_without_prediction,
)
from slurm_rl_plugin.papers.study.claim_tables import TextTable
from slurm_rl_plugin.papers.study.comparison_figure import comparison
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Outcome

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
    claims = claims_of(found)
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
    best = float(LOGS[name][1].learned.slowdown)
    return [
        {
            "slack": setting.slack,
            "bounded_slowdown": flows.slowdown,
            "to_best_learned": flows.slowdown / best,
            "longest_wait_to_easy": found.longest_ratio(setting),
        }
        for setting, flows in found.method.items()
    ]
