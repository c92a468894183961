"""The heuristics of RLScheduler (Zhang et al., SC20) on its four traces.

Mean bounded slowdown over ten sequences of 1024 jobs, each on an empty machine: under the
benchmark's own scheduler as the paper prints it, and under EASY in this package's kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import Candidate, starts_under
from slurm_rl_plugin.papers.rlscheduler_2020.protocol import (
    BenchmarkJobs,
    benchmark_starts,
    read_benchmark_jobs,
)
from slurm_rl_plugin.papers.study.claims import (
    Cell,
    Claim,
    Declared,
    Measurement,
    Printed,
    Report,
    Row,
    TextTable,
)
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.time_utility import bounded_slowdown

#: Claims of this group are to be at most as published, all others equal.
SEARCHED = "in-sample search, their backfilling"
DECLARED = Declared(__package__)


def fixed_claims(claims: Sequence[Claim]) -> Report:
    """A table for people: published, measured, difference; then how many reproduce."""
    rows = []
    for claim in claims:
        printed = "" if claim.printed is None else claim.printed.text
        texts = [f"{each:.{claim.decimals}f}" for each in (claim.measured.value, claim.difference)]
        rows.append([claim.cell.name, claim.source, printed, *texts, claim.because])
    header = ["CELL", "SOURCE", "PUBLISHED", "MEASURED", "DIFFERENCE", "BECAUSE"]
    equal = [claim.reproduces for claim in claims if claim.cell.group != SEARCHED]
    bounds = [claim.reproduces for claim in claims if claim.cell.group == SEARCHED]
    searched = (
        f"{sum(map(bool, bounds))} of {len(bounds)} searched in-sample are at most as published."
    )
    return [
        TextTable(header, rows),
        f"\n{sum(map(bool, equal))} of {len(equal)} reproduce.",
        *([searched] if bounds else []),
    ]


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
#: The benchmark's names of rules that our kernel knows by another.
_KERNEL_NAMES = {"FCFS": "fifo"}

#: Starts of one sequence on so many processors under a rule.
Scheduler = Callable[[BenchmarkJobs, int, str], FloatArray]


def kernel_starts(
    jobs: BenchmarkJobs, capacity: int, rule: str, *, backfilling: str = "easy"
) -> FloatArray:
    """When each job starts in this package's kernel, seconds, shape [n].

    Args:
        capacity: processors.
        backfilling: "none" or "easy".
    """
    prepared = prepare_log(_as_log(jobs), capacity=capacity)
    name = _KERNEL_NAMES.get(rule, rule.lower())
    settings = SimulationSettings(capacity=capacity, backfilling=backfilling)
    return starts_under(
        Candidate(name=name), prepared, prepared.workload(RequestedLimit()), settings
    )


def _as_log(jobs: BenchmarkJobs) -> JobLog:
    count = len(jobs.submit)
    zeros = np.zeros(count, dtype=np.int64)
    return JobLog(
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


#: Group -> how its sequences are scheduled.
SCHEDULERS: Mapping[str, Scheduler] = {
    "no backfilling": benchmark_starts,
    "their backfilling": partial(benchmark_starts, backfilling=True),
    "no backfilling, wait mended": partial(benchmark_starts, wait_is_known=True),
    "EASY, our kernel": kernel_starts,
}


def reproduce(folder: Path) -> list[Claim]:
    """Measure every cell, the mean bounded slowdowns first."""
    traces = {trace: read_benchmark_jobs(folder, name) for trace, (name, _) in TRACES.items()}
    rows = [
        Row(
            cell=Cell(group, f"{trace} {rule}"),
            measured=Measurement(
                value=mean_over_sequences(traces[trace], capacity, rule, SCHEDULERS[group])
            ),
            printed=Printed.of(figures.split()[place]),
        )
        for group, rules in DECLARED.tables["figures"].items()
        for place, (trace, (_, capacity)) in enumerate(TRACES.items())
        for rule, figures in rules.items()
    ]
    # the whole log, which another simulator has run as well
    jobs = traces["Lublin-1"]
    start = kernel_starts(jobs, TRACES["Lublin-1"][1], "FCFS", backfilling="none")
    cell = Cell("no backfilling, our kernel", "Lublin-1 FCFS", "mean wait of all jobs (s)")
    whole = Row(cell=cell, measured=Measurement(value=float((start - jobs.submit).mean())))
    return DECLARED.claims([*rows, whole])


def mean_over_sequences(
    jobs: BenchmarkJobs, capacity: int, rule: str, scheduler: Scheduler
) -> float:
    """Bounded slowdown, mean over the jobs of a sequence, then over the ten sequences."""
    means = []
    for first in SEQUENCE_STARTS:
        sequence = jobs.part(first, SEQUENCE_JOBS)
        wait = scheduler(sequence, capacity, rule) - sequence.submit
        means.append(float(bounded_slowdown(wait, sequence.run_time).mean()))
    return float(np.mean(means))
