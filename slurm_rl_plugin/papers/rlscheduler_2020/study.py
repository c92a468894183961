"""The heuristics of RLScheduler (Zhang et al., SC20) on its four traces.

Mean bounded slowdown over ten sequences of 1024 jobs, each on an empty machine: under the
benchmark's own scheduler as in the paper, and under EASY in this package's kernel.

The benchmark trains and tests on the same jobs. --search does the same: CMA-ES minimises the mean
bounded slowdown of a score on the sequences of the published figures, in the same way for all four
traces. Its result is the lowest of thousands of draws of a chaotic figure and does not generalise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cmaes import CMA

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import Candidate, starts_under
from slurm_rl_plugin.learning.side_by_side import side_by_side
from slurm_rl_plugin.papers.rlscheduler_2020 import protocol
from slurm_rl_plugin.papers.study.claims import Declared, Judgement, Printed, Report, Row, row_of
from slurm_rl_plugin.papers.study.figures import comparison
from slurm_rl_plugin.papers.study.study import Add, Asked, Outcome
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.time_utility import bounded_slowdown

#: Claims of this group must be at most as published, all others equal.
SEARCHED = "in-sample search, their backfilling"
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
    return float(np.mean([_slowdown(each, scheduler(each, capacity, rule)) for each in sequences]))


def _slowdown(jobs: protocol.BenchmarkJobs, start: FloatArray) -> float:
    return float(bounded_slowdown(start - jobs.submit, jobs.run_time).mean())


#: Terms known at submission; each has a weight for each of STATE_TERMS. The area is the sum of the
#: second and the third.
JOB_TERMS = (
    "one",
    "log_requested",
    "log_processors",
    "log_requested * log_processors",
    "log_requested ** 2",
    "log_processors ** 2",
)
#: Requested seconds, about a day, with a scaled logarithm of 1.
_LONG_REQUEST = 1e5
#: Weights of a score. Those of "one" with "one" and with "free_fraction" shift all jobs of a queue
#: equally and have no effect.
WEIGHTS = len(JOB_TERMS) * len(protocol.STATE_TERMS)


def job_terms(jobs: protocol.BenchmarkJobs, capacity: int) -> FloatArray:
    """JOB_TERMS of each job, of order 1, shape [n, len(JOB_TERMS)]; requests of at least 1 s."""
    requested = np.log(np.maximum(jobs.requested, 1.0)) / np.log(_LONG_REQUEST)
    processors = np.log(jobs.processors) / np.log(capacity)
    one = np.ones(len(requested))
    products = [requested * processors, requested**2, processors**2]
    return np.stack([one, requested, processors, *products], axis=1)


def sjf_weights() -> FloatArray:
    """Weights under which the shortest requested time starts first, shape [WEIGHTS]."""
    weights = np.zeros((len(JOB_TERMS), len(protocol.STATE_TERMS)))
    weights[JOB_TERMS.index("log_requested"), protocol.STATE_TERMS.index("one")] = 1.0
    return weights.ravel()


def weighed_starts(
    jobs: protocol.BenchmarkJobs, capacity: int, weights: FloatArray
) -> tuple[FloatArray, int]:
    """Starts under weights, with the benchmark's backfilling, and the number of decisions."""
    table = weights.reshape(len(JOB_TERMS), len(protocol.STATE_TERMS))
    return protocol.scored_starts(jobs, capacity, job_terms(jobs, capacity) @ table)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """Settings of one search by CMA-ES (Hansen and Ostermeier 2001), which begins at SJF."""

    generations: int = 100  #: updates of the search distribution
    population: int = 14
    step: float = 0.3  #: initial standard deviation of each weight


FULL = SearchSettings()
#: For a smoke test; its figures mean nothing.
QUICK = SearchSettings(generations=2, population=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Result of one search."""

    seed: int
    slowdown: float  #: the lowest mean bounded slowdown of any candidate
    weights: FloatArray  #: of that candidate, shape [WEIGHTS]
    decisions: int  #: number of choices of a job, over all candidates


def search_weights(
    sequences: Sequence[protocol.BenchmarkJobs],
    capacity: int,
    settings: SearchSettings,
    seed: int,
    add: Add,
) -> SearchResult:
    """The weights with the least mean bounded slowdown of all candidates of a search.

    `add` is called for each generation.
    """

    def scored(weights: FloatArray) -> tuple[float, int]:
        found = [weighed_starts(each, capacity, weights) for each in sequences]
        pairs = zip(sequences, found, strict=True)
        slowdown = float(np.mean([_slowdown(jobs, start) for jobs, (start, _) in pairs]))
        return slowdown, sum(chosen for _, chosen in found)

    search = CMA(
        mean=sjf_weights(), sigma=settings.step, seed=seed, population_size=settings.population
    )
    best, decisions = (np.inf, sjf_weights()), 0
    for _ in range(settings.generations):
        candidates = [search.ask() for _ in range(settings.population)]
        values, chosen = zip(*side_by_side(scored, candidates), strict=True)
        search.tell(list(zip(candidates, values, strict=True)))
        decisions += sum(chosen)
        lowest = int(np.argmin(values))
        if values[lowest] < best[0]:
            best = (values[lowest], candidates[lowest])
        add(1)
    return SearchResult(seed=seed, slowdown=best[0], weights=best[1], decisions=decisions)


#: Trace -> results, one a seed.
Searches = Mapping[str, Sequence[SearchResult]]


def search_claims(found: Searches) -> list[Row]:
    """Best and median over the seeds, compared with the best published figure of each trace."""
    rows = []
    for trace, searches in found.items():
        slowdowns = [each.slowdown for each in searches]
        text, rule = DECLARED.tables["best_of_others"][trace]
        published = Printed.of(text)
        for statistic, measured in (("best", min(slowdowns)), ("median", np.median(slowdowns))):
            holds = bool(measured <= published.value)
            judged = Judgement(holds, "at most as published" if holds else "above the published")
            policy = f"{trace} {statistic} of {len(searches)} seeds, to {rule}"
            rows.append(row_of(SEARCHED, policy, "", measured, printed=published, judged=judged))
    return DECLARED.claims(rows)


def search_facts(settings: SearchSettings, found: Searches) -> dict[str, Any]:
    """Settings and results of the searches, for `reproduce --json`."""
    best = {trace: min(each, key=lambda one: one.slowdown) for trace, each in found.items()}
    decisions = {trace: sum(one.decisions for one in each) for trace, each in found.items()}
    return {
        "in_sample": True,
        **asdict(settings),
        "seeds": [each.seed for each in next(iter(found.values()))],
        "simulated_decisions": sum(decisions.values()),
        "traces": {
            trace: {
                "slowdowns": [each.slowdown for each in searches],
                "simulated_decisions": decisions[trace],
                "best_seed": best[trace].seed,
                "best_weights": best[trace].weights.tolist(),
            }
            for trace, searches in found.items()
        },
    }


_NO_TRACES = "no traces: give their directory, or name it in the variable SLURM_RL_TRACES."


def run(asked: Asked) -> Outcome:
    """Simulate the ten sequences of each trace under every rule; search if asked."""
    if asked.seeds is not None and not asked.search:
        raise ConfigurationError(
            "--seeds is for heuristics: rlscheduler's sequences are given, but for --search."
        )
    seeds = range(asked.number_of_seeds(fewest=1, why="a search needs at least 1"))
    traces = asked.traces_or_refuse(_NO_TRACES)
    claims = reproduce(traces)
    more: Report = ()
    facts: dict[str, Any] = {}
    if asked.search:
        settings, found = QUICK if asked.quick else FULL, {}
        with asked.bar("searching", len(TRACES) * len(seeds) * settings.generations) as add:
            for trace, (name, capacity) in TRACES.items():
                jobs = protocol.read_benchmark_jobs(traces, name)
                parts = [jobs.part(first, SEQUENCE_JOBS) for first in SEQUENCE_STARTS]
                found[trace] = [
                    search_weights(parts, capacity, settings, each, add) for each in seeds
                ]
        searched = search_claims(found)
        claims += searched
        facts = {"search": search_facts(settings, found)}
        reached = sum(bool(each.reproduces) for each in searched)
        more = [
            f"{reached} of {len(searched)} searched in-sample are at most as published.",
            f"In-sample: searches of seeds {', '.join(map(str, seeds))} on each trace, "
            f"{settings.generations} generations of {settings.population} candidates, step "
            f"{settings.step}; {facts['search']['simulated_decisions']} simulated decisions.",
        ]
    slowdowns = [claim for claim in claims if not claim.cell.column]
    return Outcome(
        claims=claims,
        seeds=SEQUENCE_STARTS,
        more=more,
        facts=facts,
        drawings={"rlscheduler.png": lambda: comparison(slowdowns, "mean bounded slowdown")},
    )
