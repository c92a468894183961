"""`make bench`: whole cycles over 100,000 pending jobs of 500 accounts, until the order stands.

    python -m bench.speed.large_queue

The batch system is a table in memory, so that what is measured is ours: reading the table, the
model, guard rails, order, audit log, state file and metrics. A cycle later all jobs are a minute
older, and some have gone and others come.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest

from bench.speed.metrics_answer import large_site
from slurm_rl_plugin.batch_systems.port import (
    ApplyReport,
    FactorChange,
    SchedulerFacts,
    SchedulerLoad,
)
from slurm_rl_plugin.cli.assembly.hook import load_policy
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.hook.audit.log import AuditLog
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle.settings import CycleSettings
from slurm_rl_plugin.hook.memory.state_file import StateFile
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs, default_guard_rails
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.policies.registry import SHIPPED_MODEL
from slurm_rl_plugin.units import DAY, MINUTE

FACTS = SchedulerFacts(
    release="bench", lever="factor", harm=None, points_an_hour=100.0, pass_interval=0.0,
    in_charge=True,
)  # fmt: skip


@dataclass
class TableInMemory:
    """A batch system that is one table; jobs are replaced at random as time goes by."""

    now_there: QueueSnapshot
    rng: np.random.Generator
    churn: int
    name: str = "memory"
    _place: dict[int, int] = field(default_factory=dict)

    def facts(self) -> SchedulerFacts:
        return FACTS

    def load(self) -> SchedulerLoad:
        return SchedulerLoad(struggles=None, events=(0,))

    def snapshot(self) -> QueueSnapshot:
        pending = self.now_there.pending
        self._place = {job: place for place, job in enumerate(pending.jobs.job_id.tolist())}
        return replace(self.now_there, pending=replace(pending, factor=pending.factor.copy()))

    def apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        for change in changes:
            self.now_there.pending.factor[self._place[change.job_id]] = change.new
        return ApplyReport(applied=len(changes), rejected={})

    def grow_older(self, seconds: float) -> None:
        """Time goes by: priorities rise with age, and some jobs go where others come."""
        pending = self.now_there.pending
        jobs, now = pending.jobs, self.now_there.now + seconds
        pending.native_priority[:] += int(seconds / 36)
        gone = self.rng.choice(len(jobs), self.churn, replace=False)
        job_id, submit = jobs.job_id.copy(), jobs.submit.copy()
        job_id[gone] = job_id.max() + 1 + np.arange(self.churn)
        submit[gone] = now
        pending.factor[gone] = 0
        pending.native_priority[gone] = self.rng.integers(1000, 2000, self.churn)
        jobs = replace(jobs, job_id=job_id, submit=submit, eligible=submit)
        self.now_there = replace(self.now_there, now=now, pending=replace(pending, jobs=jobs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--cycles", type=int, default=60)
    parser.add_argument("--churn", type=int, default=100, help="jobs that go and come in a cycle")
    parser.add_argument("--max-writes", type=int, default=CycleSettings().max_writes)
    parser.add_argument("--policy", default=SHIPPED_MODEL)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--processor-time", action="store_true", help="on a machine that others use as well"
    )
    options = parser.parse_args()
    clock = time.process_time if options.processor_time else time.perf_counter
    rng = np.random.default_rng(options.seed)
    loaded = load_policy(options.policy)
    table = TableInMemory(large_site(rng, options.jobs), rng, options.churn)
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, loaded.labels)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        cycle = Cycle(
            batch_system=table, policy=loaded.policy, model_sha256=loaded.sha256,
            settings=CycleSettings(shadow=False, max_writes=options.max_writes),
            guard_rails=default_guard_rails(20 * DAY), untouched=UntouchedJobs(),
            state=StateFile(Path(folder) / "state.json"),
            audit=AuditLog(Path(folder) / "audit.jsonl"), monotonic=clock,
        )  # fmt: skip
        for _ in range(options.cycles):
            lines.append(measured_cycle(cycle, metrics, registry, clock))
            table.grow_older(MINUTE)
    figures = {
        name: {"median": float(np.median(each)), "longest": max(each)}
        for name in lines[0]
        if name not in ("writes", "still") and (each := [line[name] for line in lines])
    }
    print(json.dumps({
        "seconds": figures, "still_to_write": [line["still"] for line in lines],
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }, indent=2))  # fmt: skip


def measured_cycle(
    cycle: Cycle, metrics: CycleMetrics, registry: CollectorRegistry, clock: Callable[[], float]
) -> dict[str, float]:
    """One cycle and one scrape."""
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
    main()
