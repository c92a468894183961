"""Compares predicted and true effects of another request of one job.

    python -m tests.bench.forecasts.advised_starts LOG [--order fifo|default] [--jobs 300]

A log is simulated under an order with EASY backfilling. Of its last 40 % some jobs are drawn that
waited at least ten minutes. Replays at their submission predict the effect of a shorter limit and
of half the processors; then the log is simulated again with this one job changed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.forecasts.live.asked_queue import RUN_DRAWS, OtherRequest, variants_of
from slurm_rl_plugin.forecasts.live.site_at import site_in_log
from slurm_rl_plugin.forecasts.live.sources import ReplaySource, learned_order, rule_order
from slurm_rl_plugin.learning.onnx_file import import_model
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.services.hook import model_path
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_order
from slurm_rl_plugin.simulator.workloads.log_workload import (
    PreparedLog,
    prepare_log,
    select_prepared,
)
from slurm_rl_plugin.units import DAY, MINUTE, FloatArray

_HALF_LIFE, _KNOWN, _WAITED, _DRAWS, _SEED = 7 * DAY, 60 * DAY, 10 * MINUTE, 40, 5
#: Jobs before the changed one in the second simulation.
_BEFORE = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedLog:
    """A log in its simulated schedule.

    Attributes:
        prepared: the log with the simulated starts.
        workload: the same jobs.
        settings: of the simulation.
        network: the order; None for first come, first served.
        source: replays under the same order.
    """

    prepared: PreparedLog
    workload: Workload
    settings: SimulationSettings
    network: QNetwork | None
    source: ReplaySource

    def order(self, workload: Workload) -> QueueOrder:
        """The order of some of its jobs."""
        if self.network is None:
            return QueueOrder(scores=-workload.submit)
        return QueueOrder(network=self.network)

    def start_of(self, job: int, workload: Workload) -> float:
        """Start of a job among these jobs."""
        last = int(np.searchsorted(workload.submit, self.prepared.log.start[job])) + 1
        rows = np.arange(max(0, job - _BEFORE), min(last, len(workload.submit)))
        part = workload.select(rows)
        return float(simulate_order(part, self.order(part), self.settings).start[job - rows[0]])


def advised_log(path: Path, order: str) -> AdvisedLog:
    """Reads and simulates a log."""
    model = import_model(model_path("default"))
    assert isinstance(model, QNetwork)
    prepared = prepare_log(read_log(path)[0])
    settings = SimulationSettings(
        capacity=prepared.capacity, backfilling="easy", half_life=_HALF_LIFE
    )
    network = None if order == "fifo" else model
    workload = prepared.workload(RequestedLimit())
    source = ReplaySource(
        order=rule_order("fifo") if network is None else learned_order(network),
        backfilling="easy",
        on_nodes="easy",
        half_life=_HALF_LIFE,
    )
    made = AdvisedLog(
        prepared=prepared, workload=workload, settings=settings, network=network, source=source
    )
    start = simulate_order(workload, made.order(workload), settings).start
    return replace(made, prepared=replace(prepared, log=replace(prepared.log, start=start)))


def asked_jobs(log: AdvisedLog, count: int) -> list[int]:
    """Draws jobs of the last 40 % that waited."""
    wait = log.prepared.log.start - log.workload.submit
    there = np.flatnonzero((np.arange(len(wait)) > 0.6 * len(wait)) & (wait > _WAITED))
    drawn = np.random.default_rng(1).choice(there, min(count, len(there)), replace=False)
    found: list[int] = np.sort(drawn).tolist()
    return found


def advised(log: AdvisedLog, job: int) -> list[dict[str, Any]]:
    """Predicted and true effects of other requests of a job."""
    submit = log.workload.submit
    first = int(np.searchsorted(submit, submit[job] - _KNOWN))
    known = select_prepared(log.prepared, np.arange(first, job + 1))
    base, run_times = _played(log, known, job - first)
    limit, processors = (
        float(log.workload.time_limit[job]),
        int(log.workload.processors[job]),
    )
    before, found = log.start_of(job, log.workload), []
    for variant in variants_of(limit, processors, run_times):
        kind = "limit" if variant.asks.processors is None else "processors"
        runs = log.workload.run_time[job] * variant.runs_longer
        if runs > (variant.asks.time_limit or limit):
            found.append({"kind": kind, "killed": True})
            continue
        asking = replace(known.log, **_asked(known.log, job - first, variant.asks))
        sooner = base - _played(log, replace(known, log=asking), job - first)[0]
        low, middle, high = np.quantile(sooner, [0.05, 0.5, 0.95]).tolist()
        changed = _asked(log.workload, job, variant.asks)
        estimate = log.workload.estimate.copy()
        estimate[job] = variant.asks.time_limit or estimate[job]
        after = log.start_of(job, log.workload.having(**changed, estimate=estimate))
        found.append(
            {
                "kind": kind,
                "killed": False,
                "speaks": variant.is_sure(sooner, run_times),
                "foretold": middle,
                "interval": [low, high],
                "true": before - after,
            }
        )
    return found


def _played(log: AdvisedLog, known: PreparedLog, row: int) -> tuple[FloatArray, FloatArray]:
    """Waits of a job in replays, and draws of its run time."""
    site = site_in_log(known, float(known.log.submit[row]), _HALF_LIFE)
    rng = np.random.default_rng([_SEED, row])
    waits = log.source.waits(site, np.array([row]), _DRAWS, rng)[0]
    return waits, log.source.run_times(site, row, RUN_DRAWS)


def _asked(jobs: JobLog | Workload, job: int, asks: OtherRequest) -> dict[str, Any]:
    """Columns of the jobs where one asks for something else."""
    limit, processors = jobs.time_limit.copy(), jobs.processors.copy()
    limit[job] = asks.time_limit or limit[job]
    processors[job] = int(asks.processors or processors[job])
    return {"time_limit": limit, "processors": processors}


def summed(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts of advice, and its accuracy."""
    told: dict[str, Any] = {}
    for kind in ("limit", "processors"):
        mine = [each for each in found if each["kind"] == kind]
        lived = [each for each in mine if not each["killed"]]
        spoke = [each for each in lived if each["speaks"]]
        told[kind] = {
            "asked": len(mine),
            "killed": len(mine) - len(lived),
            "spoke": len(spoke),
        }
        if spoke:
            foretold, true = (
                np.array([each[name] for each in spoke]) for name in ("foretold", "true")
            )
            right = true > 0.0
            off = np.abs(np.log(foretold[right] / np.maximum(true[right], 1.0)))
            inside = [each["interval"][0] <= each["true"] <= each["interval"][1] for each in spoke]
            told[kind] |= {
                "right": float(right.mean()),
                "median_factor": float(np.exp(np.median(off))) if right.any() else None,
                "inside": float(np.mean(inside)),
            }
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    """Advises, simulates and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("--order", choices=("fifo", "default"), default="fifo")
    parser.add_argument("--jobs", type=int, default=300)
    chosen = parser.parse_args(arguments)
    log = advised_log(chosen.log, chosen.order)
    jobs, found = asked_jobs(log, chosen.jobs), []
    with parts_bar("jobs", len(jobs)) as add:
        for job in jobs:
            found += advised(log, job)
            add(1)
    print(json.dumps({"jobs": len(jobs), **summed(found)}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
