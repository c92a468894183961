"""RLScheduler's ten sequences searched and measured at once: an in-sample check, no forecast.

The benchmark trains and tests on the same jobs. This does so openly: CMA-ES looks for the weights
of `rlscheduler_2020.scorer` with the least mean bounded slowdown on the very sequences on which the
published figures were measured, in the same way for all four traces. What it finds is the lowest
of thousands of draws of a chaotic figure, and says nothing of other jobs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cmaes import CMA

from slurm_rl_plugin.papers.rlscheduler_2020.claims import SEARCHED, fixed_claim
from slurm_rl_plugin.papers.rlscheduler_2020.experiment import (
    SEQUENCE_JOBS,
    SEQUENCE_STARTS,
    TRACES,
)
from slurm_rl_plugin.papers.rlscheduler_2020.jobs import read_benchmark_jobs
from slurm_rl_plugin.papers.rlscheduler_2020.scorer import Scored, ScoredSequences, sjf_weights
from slurm_rl_plugin.papers.study.claims import Cell, Claim
from slurm_rl_plugin.units import FloatArray

#: Trace -> the best that others reach there with that backfilling, what reaches it, and whose
#: figure that is.
BEST_OF_OTHERS = {
    "Lublin-1": (54.00, "SAF", "other code"),
    "SDSC-SP2": (397.82, "RL", "paper"),
    "HPC2N": (70.74, "SAF", "other code"),
    "Lublin-2": (91.99, "SJF", "paper"),
}

#: Called after each generation with the lowest mean bounded slowdown of this search so far.
Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """Settings of one search (Hansen and Ostermeier 2001: CMA-ES), which begins at SJF.

    Attributes:
        generations: how often the search distribution is updated.
        population: candidates a generation.
        step: initial standard deviation of each weight.
    """

    generations: int = 100
    population: int = 14
    step: float = 0.3


FULL = SearchSettings()
#: To see that it runs; its figures say nothing.
QUICK = SearchSettings(generations=2, population=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What one search found.

    Attributes:
        seed: of the search.
        slowdown: the lowest mean bounded slowdown that any candidate had.
        weights: of that candidate, shape [WEIGHTS].
        decisions: how often a job was chosen, over all candidates.
    """

    seed: int
    slowdown: float
    weights: FloatArray
    decisions: int


def search_weights(
    sequences: ScoredSequences,
    settings: SearchSettings,
    seed: int,
    progress: Progress | None = None,
) -> SearchResult:
    """The weights of the least mean bounded slowdown among all that a search tries.

    Args:
        sequences: of one trace.
        settings: of the search.
        seed: of the search; the same gives the same, bit by bit.
        progress: see Progress.
    """
    search = CMA(
        mean=sjf_weights(), sigma=settings.step, seed=seed, population_size=settings.population
    )
    best, decisions = (np.inf, sjf_weights()), 0
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for _ in range(settings.generations):
            candidates = [search.ask() for _ in range(settings.population)]
            tried: list[Scored] = list(pool.map(sequences.scored, candidates))
            values = [each.slowdown for each in tried]
            search.tell(list(zip(candidates, values, strict=True)))
            decisions += sum(each.decisions for each in tried)
            lowest = int(np.argmin(values))
            if values[lowest] < best[0]:
                best = (values[lowest], candidates[lowest])
            if progress is not None:
                progress(best[0])
    return SearchResult(seed=seed, slowdown=best[0], weights=best[1], decisions=decisions)


#: Trace -> what was found there, one a seed.
Searches = Mapping[str, Sequence[SearchResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """One method for all traces.

    Attributes:
        traces: folder with the four traces, plain or gzipped.
        settings: of each search.
        seeds: one search each on each trace.
    """

    traces: Path
    settings: SearchSettings
    seeds: Sequence[int]

    @property
    def steps(self) -> int:
        """Generations of all searches."""
        return len(TRACES) * len(self.seeds) * self.settings.generations


def search_all(plan: SearchPlan, progress: Progress | None = None) -> Searches:
    """Search on each trace once a seed.

    Raises:
        ConfigurationError: a trace is missing.
        AccountingLogError: a trace cannot be read.
    """
    found = {}
    for trace, (name, capacity) in TRACES.items():
        jobs = read_benchmark_jobs(plan.traces, name)
        parts = [jobs.part(first, SEQUENCE_JOBS) for first in SEQUENCE_STARTS]
        sequences = ScoredSequences.of(parts, capacity)
        found[trace] = [
            search_weights(sequences, plan.settings, seed, progress) for seed in plan.seeds
        ]
    return found


def search_claims(found: Searches) -> list[Claim]:
    """Best and median over the seeds, each beside the best that others reach on that trace."""
    claims = []
    for trace, searches in found.items():
        slowdowns = [each.slowdown for each in searches]
        published, rule, source = BEST_OF_OTHERS[trace]
        for statistic, measured in (("best", min(slowdowns)), ("median", np.median(slowdowns))):
            cell = Cell(SEARCHED, f"{trace} {statistic} of {len(searches)} seeds, to {rule}")
            claims.append(fixed_claim(cell, published, float(measured), source=source))
    return claims


def search_facts(plan: SearchPlan, found: Searches) -> dict[str, Any]:
    """What was searched and found, for the document of `reproduce --json`."""
    return {
        "in_sample": True,
        **asdict(plan.settings),
        "seeds": list(plan.seeds),
        "simulated_decisions": sum(each.decisions for all_of in found.values() for each in all_of),
        "traces": {trace: _facts_of(searches) for trace, searches in found.items()},
    }


def described(plan: SearchPlan, found: Searches) -> str:
    """The same in one sentence."""
    facts = search_facts(plan, found)
    return (
        f"In-sample: searches of seeds {', '.join(map(str, plan.seeds))} on each trace, "
        f"{plan.settings.generations} generations of {plan.settings.population} candidates, "
        f"step {plan.settings.step}; {facts['simulated_decisions']} simulated decisions."
    )


def _facts_of(searches: Sequence[SearchResult]) -> dict[str, Any]:
    best = min(searches, key=lambda each: each.slowdown)
    return {
        "slowdowns": [each.slowdown for each in searches],
        "simulated_decisions": sum(each.decisions for each in searches),
        "best_seed": best.seed,
        "best_weights": best.weights.tolist(),
    }
