"""Thousands of cycles over a fake Slurm in one process, without waiting: what stays behind?

    python -m tests.bench.faults.many_cycles --periods 25

A period is a burst of jobs and a quiet time. After each, the memory that is resident and the blocks
that Python holds; 100 cycles take some seconds, and would take a daemon 8 minutes.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.services.hook import build_cycle, load_policy_or_fall_back
from tests.bench.faults.passing_jobs import STEP, PassingJobs, passing_jobs
from tests.real.daemon_under_test import write_configuration

#: Part of a period in which many jobs come.
_BURST = 0.2
_PAGE = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--periods", type=int, default=25)
    parser.add_argument("--cycles", type=int, default=100, help="of a period")
    parser.add_argument("--model", default="default")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with passing_jobs(folder, chosen.seed) as jobs:
            cycle, registry, metrics = _daemon(folder, chosen.model)
            for period in range(1, chosen.periods + 1):
                longest = _period(jobs, cycle, metrics, registry, chosen.cycles)
                gc.collect()
                print(
                    f"period {period:3d}: {_resident() / 1e6:7.2f} MB resident, "
                    f"{sys.getallocatedblocks():,} blocks, at most {longest} jobs waited",
                    flush=True,
                )


def _daemon(folder: Path, model: str) -> tuple[Cycle, CollectorRegistry, CycleMetrics]:
    configuration = read_configuration(
        write_configuration(folder, model, mode="active", cycle=STEP)
    )
    loaded, registry = load_policy_or_fall_back(model), CollectorRegistry()
    return build_cycle(configuration, loaded), registry, CycleMetrics(registry, loaded.labels)


def _period(
    jobs: PassingJobs,
    cycle: Cycle,
    metrics: CycleMetrics,
    registry: CollectorRegistry,
    cycles: int,
) -> int:
    """Cycles with a scrape after each; the longest queue."""
    longest = 0
    for number in range(cycles):
        jobs.step(burst=number < _BURST * cycles)
        report = cycle.run()
        if report.snapshot is None or not report.succeeded:
            raise SystemExit(f"a cycle failed: {report.failure_reason}")
        metrics.publish(report)
        generate_latest(registry)
        longest = max(longest, len(report.snapshot.pending))
    return longest


def _resident() -> int:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


if __name__ == "__main__":
    main()
