"""`drift`: whether a warning comes before half of a model's gain is lost, as a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from slurm_rl_plugin.papers.drift.claims import drift_claims
from slurm_rl_plugin.papers.drift.experiment import number_of_runs, runs_of_log
from slurm_rl_plugin.papers.drift.figures import drawings_of
from slurm_rl_plugin.papers.drift.losses import JudgedLog, WatchRecord
from slurm_rl_plugin.papers.drift.models import QUICK, DriftSize
from slurm_rl_plugin.papers.study.claim_tables import TextTable
from slurm_rl_plugin.papers.study.parallel_machines import LOGS, StudyLog, read_study_logs
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Outcome

_NO_TRACES = "drift needs logs of parallel machines: give the directory of the traces."
#: Runs of each kind that --quick takes where nobody says how many.
_QUICK_SEEDS = 2


def run(asked: Asked) -> Outcome:
    """Train on the first third of each log, run the rest under the model, and watch it."""
    asked.refuse_policy("it trains its models itself")
    seeds = asked.number_of_seeds()
    if asked.quick and asked.seeds is None:
        seeds = _QUICK_SEEDS
    size = QUICK if asked.quick else DriftSize()
    logs = _logs(asked)
    steps = len(logs) * (size.settings.generations + number_of_runs(seeds))
    found: dict[str, JudgedLog] = {}
    with asked.bar("training and running", steps) as add:
        store = ResultStore(asked.models, add)
        for name, log in logs.items():
            found[name] = JudgedLog.of(runs_of_log(name, log, size, seeds, store, add))
    facts = {name: _facts(log) for name, log in found.items()}
    return Outcome(
        claims=list(drift_claims(found)),
        seeds=range(seeds),
        more=[
            "\nThe logs' own history; weeks from the end of the first third on:",
            TextTable(
                ["LOG", "REFERENCE", "WEEKS", "PROMISED", "IN THE REST", "WARNED", "LOST"],
                [_row(name, log) for name, log in found.items()],
            ),
        ],
        facts={"logs": facts},
        drawings=drawings_of(found),
    )


def _logs(asked: Asked) -> Mapping[str, StudyLog]:
    """Those that are there, the first alone to be quick; what is missing is told."""
    folder = asked.traces_or_refuse(_NO_TRACES)
    logs = read_study_logs(folder, fewest=1)
    missing = [name for name in LOGS if name not in logs]
    if missing:
        asked.say(f"{folder} has no log of {' or '.join(missing)}: left out.")
    return dict(list(logs.items())[:1]) if asked.quick else logs


def _row(name: str, log: JudgedLog) -> list[Any]:
    return [
        name,
        len(log.runs.reference),
        log.real.weeks,
        f"{np.exp(log.promise):.2f}",
        f"{np.exp(log.real.gain):.2f}",
        log.real.warned,
        log.real.lost,
    ]


def _facts(log: JudgedLog) -> dict[str, Any]:
    """The weeks after which something was so, of every run."""
    return {
        "reference_weeks": len(log.runs.reference),
        "promised": log.promise,
        "real": _record(log.real),
        "changing": [_record(each) for each in log.changing],
        "nothing_changes": [_record(each) for each in log.alike],
    }


def _record(record: WatchRecord) -> dict[str, Any]:
    return asdict(record)
