"""`make bench`: whole cycles over 100,000 pending jobs of 500 accounts, until they are in order.

    python -m tests.bench.speed.large_queue

Slurm is a folder of responses (`tests.bench.speed.listed_slurm`), so that only the hook is
measured: reading, the model, guard rails, order, audit log, state file and metrics. In the next
cycle all jobs are a minute older, and some have started, ended and arrived.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest

from slurm_rl_plugin.batch_systems.port import AdapterParts
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.domain.job_class import JobClassifier, JobClassRule
from slurm_rl_plugin.hook.audit.log import AuditLog
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle_report import CycleSettings
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs, default_guard_rails
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.policies.registry import SHIPPED_MODEL
from slurm_rl_plugin.services.hook import load_policy
from slurm_rl_plugin.units import DAY, MINUTE
from tests.bench.speed.listed_slurm import ListedSlurm

#: Time-out of a response on a busy machine, seconds.
PATIENCE = 60.0
#: Jobs of a quarter of an hour at most are interactive.
CLASSES = JobClassifier((JobClassRule(job_class="interactive", time_limit_at_most=15 * MINUTE),))


def cycles_of(*, jobs: int, cycles: int) -> dict[str, Any]:
    """Median and longest seconds of each part of a cycle, writes that are left, and memory."""
    loaded = load_policy(SHIPPED_MODEL)
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, loaded.labels)
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        slurm = ListedSlurm.begun(folder, jobs)
        given = AdapterParts(
            shares=None, classifier=CLASSES, clock=slurm.now,
            timeout=PATIENCE, environment=slurm.environment,
        )  # fmt: skip
        cycle = Cycle(
            batch_system=SlurmCommands(given), policy=loaded.policy, model_sha256=loaded.sha256,
            settings=CycleSettings(shadow=False, inference_deadline=PATIENCE),
            guard_rails=default_guard_rails(20 * DAY), untouched=UntouchedJobs(),
            state=StateFile(folder / "state.json"),
            audit=AuditLog(folder / "audit.jsonl"), monotonic=time.perf_counter,
        )  # fmt: skip
        try:
            for _ in range(cycles):
                lines.append(measured_cycle(cycle, metrics, registry))
                slurm.grow_older()
        finally:
            slurm.end()
    figures = {
        name: {"median": float(np.median(each)), "longest": max(each)}
        for name in lines[0]
        if name not in ("writes", "still") and (each := [line[name] for line in lines])
    }
    return {
        "seconds": figures,
        "still_to_write": [line["still"] for line in lines],
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def measured_cycle(
    cycle: Cycle, metrics: CycleMetrics, registry: CollectorRegistry
) -> dict[str, float]:
    """One cycle and one scrape."""
    clock = time.perf_counter
    begin = clock()
    report = cycle.run()
    whole = clock() - begin
    assert report.succeeded, report.failure_reason
    assert report.fallback_reason is None, report.fallback_reason
    begin = clock()
    metrics.publish(report)
    published = clock() - begin
    begin = clock()
    generate_latest(registry)
    return {
        **report.phase_seconds,
        "decide and order": report.phase_seconds["decide"] + report.phase_seconds["order"],
        "whole cycle": whole,
        "publish": published,
        "metrics answer": clock() - begin,
        "writes": report.writes,
        "still": report.suppressed["write_bound"],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--cycles", type=int, default=60)
    print(json.dumps(cycles_of(**vars(parser.parse_args())), indent=2))
