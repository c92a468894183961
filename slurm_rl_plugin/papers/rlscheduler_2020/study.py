"""The heuristics of RLScheduler (Zhang et al., SC20) on its four traces.

Mean bounded slowdown over ten sequences of 1024 jobs, each on an empty machine: under the
benchmark's own scheduler as in the paper, and under EASY in this package's kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import Candidate, starts_under
from slurm_rl_plugin.papers.rlscheduler_2020 import protocol
from slurm_rl_plugin.papers.study.claims import Declared, Printed, Row, row_of
from slurm_rl_plugin.papers.study.figures import comparison
from slurm_rl_plugin.papers.study.study import Asked, Outcome
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.time_utility import bounded_slowdown

DECLARED = Declared(__package__)


#: 0-based index of the first job of each sequence, the same for all traces.
SEQUENCE_STARTS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
SEQUENCE_JOBS = 1024
#: Name in the paper -> file name and processors.
TRACES = {
    "Lublin-1": ("lublin_256", 256),
    "SDSC-SP2": ("SDSC-SP2-1998-4.2-cln", 128),
    "HPC2N": ("HPC2N-2002-2.2-cln", 240),
    "Lublin-2": ("lublin_256_new2", 256),
}
#: Starts of a sequence: (jobs, processors, rule) -> seconds, shape [n].
Scheduler = Callable[[protocol.BenchmarkJobs, int, str], FloatArray]


def kernel_starts(
    jobs: protocol.BenchmarkJobs, capacity: int, rule: str, *, backfilling: str = "easy"
) -> FloatArray:
    """Start of each job in this package's kernel, seconds, shape [n]."""
    count = len(jobs.submit)
    zeros = np.zeros(count, dtype=np.int64)
    log = JobLog(
        job_id=np.arange(count),
        submit=jobs.submit,
        eligible=jobs.submit,
        start=np.full(count, np.nan),
        run_time=jobs.run_time,
        processors=jobs.processors,
        time_limit=jobs.requested,
        account=zeros,
        user=zeros,
        partition=zeros,
        accounts=("all",),
        users=("all",),
        partitions=("all",),
        kind="swf",
    )
    prepared = prepare_log(log, capacity=capacity)
    candidate = Candidate(name="fifo" if rule == "FCFS" else rule.lower())
    settings = SimulationSettings(capacity=capacity, backfilling=backfilling)
    return starts_under(candidate, prepared, prepared.workload(RequestedLimit()), settings)


#: Group -> scheduler of its sequences.
SCHEDULERS: Mapping[str, Scheduler] = {
    "no backfilling": protocol.benchmark_starts,
    "their backfilling": partial(protocol.benchmark_starts, backfilling=True),
    "no backfilling, wait mended": partial(protocol.benchmark_starts, wait_is_known=True),
    "EASY, our kernel": kernel_starts,
}


def reproduce(folder: Path) -> list[Row]:
    """Measure every cell, mean bounded slowdowns first."""
    traces = {
        trace: protocol.read_benchmark_jobs(folder, name) for trace, (name, _) in TRACES.items()
    }
    rows = [
        row_of(
            *(group, f"{trace} {rule}", ""),
            mean_over_sequences(traces[trace], capacity, rule, SCHEDULERS[group]),
            printed=Printed.of(figures.split()[place]),
        )
        for group, rules in DECLARED.tables["figures"].items()
        for place, (trace, (_, capacity)) in enumerate(TRACES.items())
        for rule, figures in rules.items()
    ]
    # another simulator has run the whole log too
    jobs = traces["Lublin-1"]
    start = kernel_starts(jobs, TRACES["Lublin-1"][1], "FCFS", backfilling="none")
    names = ("no backfilling, our kernel", "Lublin-1 FCFS", "mean wait of all jobs (s)")
    return DECLARED.claims([*rows, row_of(*names, (start - jobs.submit).mean())])


def mean_over_sequences(
    jobs: protocol.BenchmarkJobs, capacity: int, rule: str, scheduler: Scheduler
) -> float:
    """Bounded slowdown: mean over the jobs of a sequence, then over the sequences."""
    sequences = [jobs.part(first, SEQUENCE_JOBS) for first in SEQUENCE_STARTS]
    waits = [scheduler(each, capacity, rule) - each.submit for each in sequences]
    pairs = zip(waits, sequences, strict=True)
    return float(np.mean([bounded_slowdown(wait, each.run_time).mean() for wait, each in pairs]))


def run(asked: Asked) -> Outcome:
    """Simulate the ten sequences of each trace under every rule."""
    asked.refuse_seeds("its sequences are given")
    claims = reproduce(asked.logs)
    slowdowns = [claim for claim in claims if not claim.cell.column]
    return Outcome(
        claims=claims,
        seeds=SEQUENCE_STARTS,
        drawings={"rlscheduler.png": lambda: comparison(slowdowns, "mean bounded slowdown")},
    )
