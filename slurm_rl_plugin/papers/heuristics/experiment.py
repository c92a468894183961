"""The rules that need no learning, on the loads of the 2008 and 2011 papers.

The papers print figures that no policy can reach. What these rules reach was measured once with
other code; this package's kernel measures it again on the same jobs: seed k is that of numpy's
default generator in both measurements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.learning.evaluation.paired import medians_of
from slurm_rl_plugin.papers.reactive_grids_2008.load import FEASIBLE
from slurm_rl_plugin.papers.study import claims, trials
from slurm_rl_plugin.papers.study.figures import comparison
from slurm_rl_plugin.papers.study.study import Add, Asked, Outcome
from slurm_rl_plugin.simulator.workloads.generators import egee_log, mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.fairness import fairness_at_starts

DECLARED = claims.Declared(__package__)
#: Interactive fractions p of the 2008 load, and segments of LPC-EGEE.
FRACTIONS, SEGMENTS = (0.2, 0.4, 0.5), (14, 17, 18, 19)
_DROP_GENERATED = (0, 500)
_NOMINAL = "J with nominal shares"


#: Policy -> column -> one figure a seed.
Sample = dict[str, dict[str, FloatArray]]


def reproduce(seeds: int, traces: Path | None, add: Add) -> list[claims.Row]:
    """Measure every figure; `add` is called for each log."""
    segments: dict[str, Iterable[JobLog]] = {}
    if traces is not None:
        log = trials.read_lpc(traces)
        segments = {f"LPC-EGEE segment {each}": [trials.segment_of(log, each)] for each in SEGMENTS}
    rows: list[claims.Row] = []
    for p in FRACTIONS:
        drawn = (mmn_log(np.random.default_rng(seed), interactive=p) for seed in range(seeds))
        group = f"2008, p = {p}"
        sample = _sample(group, drawn, 50, _DROP_GENERATED, add)
        rows += [*_rows(group, sample), *_ratios(group, sample)]
    loads = {"EGEE-like": (egee_log(np.random.default_rng(seed)) for seed in range(seeds))}
    for group, logs in {**loads, **segments}.items():
        drop = trials.SEGMENT_DROP if group in segments else _DROP_GENERATED
        rows += _rows(group, _sample(group, logs, trials.PROCESSORS_OF_2011, drop, add))
    return DECLARED.claims(rows)


def _cells(group: str) -> Iterator[tuple[str, str]]:
    """Rules and columns of a group with an earlier figure."""
    for entry in DECLARED.entries:
        if entry.group == group:
            for policy in entry.printed:
                if " / " not in policy:
                    yield from ((policy, column) for column in entry.columns)


def _sample(
    group: str, logs: Iterable[JobLog], capacity: int, drop: tuple[int, int], add: Add
) -> Sample:
    found: dict[str, list[dict[str, float]]] = {policy: [] for policy, _ in _cells(group)}
    for log in logs:
        prepared = prepare_log(log, capacity=capacity)
        for name, each in found.items():
            each.append(figures_of(name, prepared, drop))
        add(1)
    return {name: trials.columns_of(each) for name, each in found.items()}


def figures_of(name: str, prepared: PreparedLog, drop: tuple[int, int]) -> dict[str, float]:
    """Columns of `measures_of` for one log under a rule, and J with nominal shares.

    Class medians are those of the log itself.
    """
    jobs, log = (
        trials.scheduled(trials.rules(name, medians=medians_of(prepared))[name], prepared),
        prepared.log,
    )
    found = trials.measures_of(jobs, drop)
    shares = np.array([FEASIBLE.get(name, 0.0) for name in log.accounts])
    fairness = np.full(len(log), np.nan)  # of other loads than that of 2008
    if shares.any():
        fairness = fairness_at_starts(jobs.start, log.run_time, log.processors, log.account, shares)
    fairness = fairness[drop[0] : len(fairness) - drop[1]]
    return {**found, _NOMINAL: (found["U"] + float(fairness.mean())) / 2}


def _rows(group: str, sample: Sample) -> Iterator[claims.Row]:
    for policy, column in _cells(group):
        yield claims.row_of(group, policy, column, claims.measure(sample[policy][column]))


def _ratios(group: str, sample: Sample) -> Iterator[claims.Row]:
    def row(name: str, values: FloatArray, statistic: claims.Statistic) -> claims.Row:
        return claims.row_of(
            group, f"{trials.FIFO} / {trials.SJF}", name, claims.measure(values, statistic)
        )

    for column in ("mean wait", "interactive mean wait", "batch mean wait"):
        pair = np.stack([sample[trials.FIFO][column], sample[trials.SJF][column]])
        ratio = pair[0] / pair[1]
        yield row(f"{column}, median of the seeds", ratio, claims.median)
        yield row(f"{column}, ratio of the means", pair, claims.ratio_of_means)
        if column == "mean wait":
            for level in (0.05, 0.95):
                name = f"{column}, {level:.0%} quantile of the seeds"
                yield row(name, ratio, claims.quantile(level))


#: File -> name and unit of its figures, and their columns.
_FIGURES = {
    "heuristics-waits.png": (
        "mean waits (s)",
        ("mean wait", "interactive mean wait", "batch mean wait"),
    ),
    "heuristics-fractions.png": ("fractions", ("interactive within 120 s", "U", "R", "J")),
}


def run(asked: Asked) -> Outcome:
    """Simulate every rule on every load."""
    seeds = asked.number_of_seeds(why="a standard error needs at least 2")
    traces = asked.traces_or_less("the segments of LPC-EGEE are left out")
    steps = (len(FRACTIONS) + 1) * seeds + (traces is not None) * len(SEGMENTS)
    with asked.bar("simulating", steps) as add:
        found = reproduce(seeds, traces, add)
    return Outcome(
        claims=found,
        seeds=range(seeds),
        drawings={file: partial(comparison, found, *shown) for file, shown in _FIGURES.items()},
    )
