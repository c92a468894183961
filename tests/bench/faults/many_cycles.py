"""Runs thousands of cycles over a fake Slurm in one process and measures the memory.

    python -m tests.bench.faults.many_cycles --periods 25

A period is a burst of jobs and a quiet time. After each period it prints the resident memory and
the number of Python's memory blocks; 100 cycles take some seconds, a daemon needs 8 minutes.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from prometheus_client import CollectorRegistry, generate_latest

from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.services.hook import build_cycle, load_policy_or_fall_back
from tests.fakes.fake_cluster import NOW, FakeCluster
from tests.fakes.in_process import run_fakes_in_process
from tests.real.daemon_under_test import write_configuration

#: Seconds between two cycles, and seconds for which Slurm remembers ended jobs.
STEP, MIN_JOB_AGE = 5.0, 60.0
_PROCESSORS = 16
#: Jobs submitted between two cycles in the burst of a period, and after it.
_MANY, _FEW = 18, 5


@dataclass(slots=True)
class PassingJobs:
    """Jobs that arrive, start and end on the fake."""

    fake: FakeCluster  #: the cluster
    job: dict[str, Any]  #: a pending job
    rng: random.Random  #: of arrivals and run times
    now: float = float(NOW)  #: seconds since the epoch
    _last: int = 0
    _until: dict[int, float] = field(default_factory=dict)

    def step(self, *, burst: bool) -> None:
        """Lets STEP seconds pass: jobs arrive, end and start."""
        self.now += STEP
        jobs = self.fake.state["jobs"]
        for _ in range((_MANY if burst else _FEW) + self.rng.randint(-2, 2)):
            jobs.append(self._submitted())
        for job in jobs:
            if job["state"] == "RUNNING" and self._until[job["job_id"]] <= self.now:
                del self._until[job["job_id"]]
                job.update(state="COMPLETED", end=int(self.now))
        waiting = [job for job in jobs if job["state"] == "PENDING"]
        waiting.sort(key=lambda job: (-job["site"], job["job_id"]))
        for job in waiting[: _PROCESSORS - len(self._until)]:
            job.update(state="RUNNING", start=int(self.now), nodes="n1", reason="None")
            self._until[job["job_id"]] = self.now + self.rng.choice([1.0, 2.0, 3.0, 5.0, 9.0])
        self.fake.set(jobs=[job for job in jobs if not self._is_forgotten(job)])

    def _submitted(self) -> dict[str, Any]:
        self._last += 1
        physics = self.rng.random() < 0.5
        return {
            **self.job,
            "job_id": self._last,
            "array_id": self._last,
            "submit": int(self.now),
            "eligible": int(self.now),
            "time_limit": self.rng.choice(["0:50", "2:00:00"]),
            "account": "physics" if physics else "biology",
            "user": "alice" if physics else "bob",
        }

    def _is_forgotten(self, job: dict[str, Any]) -> bool:
        return job["state"] == "COMPLETED" and self.now - job["end"] > MIN_JOB_AGE


@contextmanager
def passing_jobs(folder: Path, seed: int) -> Iterator[PassingJobs]:
    """During the block this process answers Slurm's commands, by the fakes of tests/fakes."""
    fake = FakeCluster(folder)
    fake.add(1)
    jobs = PassingJobs(fake, fake.record(1), random.Random(seed))
    fake.set(jobs=[])
    run_fakes_in_process()

    def clock() -> float:
        return jobs.now

    with mock.patch.dict(os.environ, fake.env), mock.patch("time.time", clock):
        yield jobs


#: Part of a period in which many jobs arrive.
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
            path = write_configuration(folder, chosen.model, mode="active", cycle=STEP)
            loaded, registry = load_policy_or_fall_back(chosen.model), CollectorRegistry()
            cycle = build_cycle(read_configuration(path), loaded)
            metrics = CycleMetrics(registry, loaded.labels)
            for period in range(1, chosen.periods + 1):
                longest = 0
                for number in range(chosen.cycles):
                    jobs.step(burst=number < _BURST * chosen.cycles)
                    report = cycle.run()
                    if report.snapshot is None or not report.succeeded:
                        raise SystemExit(f"a cycle failed: {report.failure_reason}")
                    metrics.publish(report)
                    generate_latest(registry)
                    longest = max(longest, len(report.snapshot.pending))
                gc.collect()
                resident = int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
                print(
                    f"period {period:3d}: {resident / 1e6:7.2f} MB resident, "
                    f"{sys.getallocatedblocks():,} blocks, at most {longest} jobs pending",
                    flush=True,
                )


if __name__ == "__main__":
    main()
