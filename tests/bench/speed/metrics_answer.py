"""Measures time and length of the metrics of a large site.

500 accounts, 50,000 pending jobs and 80 partitions: more than the caps of both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest

from slurm_rl_plugin.domain import QueueSnapshot, StartedJobs
from slurm_rl_plugin.hook.cycle_report import PHASES, CycleReport
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.services.drawn_queue import random_snapshot
from tests.bench.speed.figures.measurements import seconds_of

JOBS, ACCOUNTS, PARTITIONS, STARTED = 50_000, 500, 80, 500
#: Every call of both adapters.
CALLS = (
    *("squeue", "sprio", "sshare", "sinfo", "sacct", "scontrol", "sdiag"),
    *("pyslurm_read", "pyslurm_write"),
)


def large_site(rng: np.random.Generator, waiting: int = JOBS) -> QueueSnapshot:
    """A queue of that size, with new starts in every partition."""
    drawn = random_snapshot(waiting, rng)
    jobs = replace(
        drawn.pending.jobs,
        account=rng.integers(0, ACCOUNTS, waiting),
        partition=rng.integers(0, PARTITIONS, waiting),
    )
    pending = replace(drawn.pending, jobs=jobs, native_priority=rng.integers(0, 10**6, waiting))
    some = jobs.select(rng.choice(waiting, STARTED, replace=False))
    return replace(
        drawn,
        pending=pending,
        started=StartedJobs(jobs=some, start=np.full(STARTED, drawn.now)),
        accounts=tuple(f"department{number:03}" for number in range(ACCOUNTS)),
        partitions=tuple(f"partition{number:02}" for number in range(PARTITIONS)),
        shares=rng.dirichlet(np.ones(ACCOUNTS)),
        usage=rng.dirichlet(np.ones(ACCOUNTS)),
    )


def large_site_reports(cycles: int = 3) -> Iterator[CycleReport]:
    """Reports of some cycles with every call and phase."""
    rng = np.random.default_rng(1)
    for _ in range(cycles):
        snapshot = large_site(rng)
        yield CycleReport(
            time=snapshot.now,
            mode="active",
            policy="default",
            snapshot=snapshot,
            order=rng.permutation(JOBS).tolist(),
            phase_seconds=dict.fromkeys(PHASES, 0.0123),
            calls=tuple((call, 0.0456) for call in CALLS),
        )


def metrics_figures() -> dict[str, float]:
    """Milliseconds to publish a cycle and to answer a scrape, and kB of the answer."""
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, {"name": "default"})
    publish, scrape = [], []
    for report in large_site_reports(5):
        publish.append(seconds_of(lambda r=report: metrics.publish(r), clock=time.perf_counter))
        scrape.append(seconds_of(lambda: generate_latest(registry), clock=time.perf_counter))
    return {
        "metrics of a large site, cycle": 1e3 * float(np.median(publish)),
        "metrics of a large site, answer": 1e3 * float(np.median(scrape)),
        "metrics of a large site, length": len(generate_latest(registry)) / 1e3,
    }
