"""The heuristics of RLScheduler (Zhang et al., SC20) on its four traces.

Mean bounded slowdown over ten sequences of 1024 jobs, each on an empty machine: under the
benchmark's own scheduler as the paper prints it, and under EASY in this package's kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    Judgement,
    Measurement,
    Printed,
    Report,
    TextTable,
)
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.responsiveness import bounded_slowdown

#: Claims of this group are to be at most as published, all others equal.
SEARCHED = "in-sample search, their backfilling"


def fixed_claim(
    cell: Cell, published: float, measured: float, *, source: str = "paper", decimals: int = 2
) -> Claim:
    """A published figure against ours: equal as printed, or in the group SEARCHED at most as high.

    Args:
        cell: whose figure.
        published: as printed.
        measured: by this package.
        source: who published it.
        decimals: how many were printed.
    """
    off = round(round(measured, decimals) - published, decimals)
    if cell.group == SEARCHED:  # not rounded: a bound to keep to
        holds = measured <= published
        because = "at most as published" if holds else "above the published"
    else:
        holds = off == 0.0
        equal = "equal to two decimals" if decimals == 2 else "equal as printed"
        because = equal if holds else f"differs by {100.0 * off / published:+.2f} %"
    text = f"{published:.{decimals}f}"
    return Claim(
        cell=cell,
        measured=Measurement(value=measured),
        printed=Printed(value=published, unit=10.0**-decimals, text=text),
        source=source,
        judged=Judgement(holds, because),
        decimals=decimals,
    )


def fixed_claims(claims: Sequence[Claim]) -> Report:
    """A table for people: published, measured, difference; then how many reproduce."""
    rows = []
    for claim in claims:
        printed = "" if claim.printed is None else claim.printed.text
        texts = [f"{each:.{claim.decimals}f}" for each in (claim.measured.value, claim.difference)]
        rows.append([claim.name, claim.source, printed, *texts, claim.because])
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
        jobs: one sequence; none wider than the machine.
        capacity: processors.
        rule: as the benchmark calls it.
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


#: One figure for each of TRACES.
_Row = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Experiment:
    """What is known of the ten sequences under one scheduler.

    Attributes:
        group: its name.
        scheduler: gives the starts.
        paper: rule -> what the paper prints.
        other_code: rule -> what another re-implementation gave, which the paper does not tell.
        decimals: of the figures.
    """

    group: str
    scheduler: Scheduler
    paper: Mapping[str, _Row] = field(default_factory=dict)
    other_code: Mapping[str, _Row] = field(default_factory=dict)
    decimals: int = 2


EXPERIMENTS = (
    _Experiment(
        group="no backfilling",
        scheduler=benchmark_starts,
        paper={
            "FCFS": (7273.77, 1727.54, 297.18, 7842.47),
            "WFP3": (19753.53, 3000.88, 426.99, 9523.18),
            "UNICEP": (22274.74, 1848.45, 609.77, 11265.31),
            "SJF": (277.35, 2680.55, 157.71, 787.89),
            "F1": (258.37, 1232.06, 118.01, 698.34),
        },
        other_code={"SAF": (292.88, 1278.09, 103.26, 714.26)},
    ),
    _Experiment(
        group="their backfilling",
        scheduler=partial(benchmark_starts, backfilling=True),
        paper={
            "FCFS": (235.82, 1595.12, 127.38, 247.61),
            "WFP3": (133.87, 1083.12, 97.39, 318.35),
            "UNICEP": (307.23, 548.01, 175.12, 379.59),
            "SJF": (73.31, 2167.84, 122.04, 91.99),
            "F1": (75.07, 1098.22, 71.95, 148.25),
        },
        other_code={"SAF": (54.00, 1090.12, 70.74, 100.33)},
    ),
    _Experiment(
        group="no backfilling, wait mended",
        scheduler=partial(benchmark_starts, wait_is_known=True),
        other_code={"WFP3": (337, 1206, 213, 807), "UNICEP": (382, 1699, 114, 830)},
        decimals=0,
    ),
    _Experiment(
        group="EASY, our kernel",
        scheduler=kernel_starts,
        other_code={
            "FCFS": (271.40, 929.69, 84.69, 222.18),
            "WFP3": (80.33, 488.91, 64.85, 71.34),
            "UNICEP": (58.71, 672.37, 56.27, 88.73),
            "SJF": (42.08, 1892.57, 59.43, 82.63),
            "F1": (35.26, 997.63, 65.56, 109.57),
            "SAF": (34.38, 957.45, 52.15, 72.73),
        },
    ),
)


def reproduce(folder: Path) -> list[Claim]:
    """Measure every cell, the mean bounded slowdowns first.

    Args:
        folder: holds the four traces, plain or gzipped.

    Raises:
        ConfigurationError: a trace is missing.
        AccountingLogError: a trace cannot be read.
    """
    traces = {trace: read_benchmark_jobs(folder, name) for trace, (name, _) in TRACES.items()}
    claims = [claim for experiment in EXPERIMENTS for claim in _claims_of(experiment, traces)]
    return [*claims, _mean_wait(traces["Lublin-1"])]


def _claims_of(experiment: _Experiment, traces: Mapping[str, BenchmarkJobs]) -> Iterator[Claim]:
    sources = {"paper": experiment.paper, "other code": experiment.other_code}
    rows = [(source, *row) for source, table in sources.items() for row in table.items()]
    for place, (trace, jobs) in enumerate(traces.items()):
        for source, rule, published in rows:
            yield fixed_claim(
                Cell(experiment.group, f"{trace} {rule}"),
                published[place],
                mean_over_sequences(jobs, TRACES[trace][1], rule, experiment.scheduler),
                source=source,
                decimals=experiment.decimals,
            )


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


def _mean_wait(jobs: BenchmarkJobs) -> Claim:
    """The whole log, which another simulator has run as well."""
    start = kernel_starts(jobs, TRACES["Lublin-1"][1], "FCFS", backfilling="none")
    cell = Cell("no backfilling, our kernel", "Lublin-1 FCFS", "mean wait of all jobs (s)")
    return fixed_claim(cell, 2388443.76, float((start - jobs.submit).mean()), source="AccaSim")
