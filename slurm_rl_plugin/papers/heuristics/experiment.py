"""The rules that need no learning, on the loads of the 2008 and 2011 papers.

The papers print figures that no policy can reach; what these rules do reach was measured once with
other code. Here this package's kernel measures it again, on the same random numbers: seed k
stands for numpy's default generator of seed k, which gave the earlier measurement the same jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.learning.evaluation.paired import estimates_of
from slurm_rl_plugin.papers.heuristics.earlier_figures import (
    COLUMNS_OF_2011,
    EGEE_LIKE,
    FIFO,
    GRID_OF_2008,
    HEURISTICS,
    RATIO_QUANTILES,
    RATIOS,
    SEGMENTS,
    SJF,
    Heuristic,
    Table,
)
from slurm_rl_plugin.papers.reactive_grids_2008.load import FEASIBLE
from slurm_rl_plugin.papers.study.claims import (
    Cell,
    Claim,
    Printed,
    Statistic,
    measure,
    median,
    quantile,
    ratio_of_means,
    sampled_claims,
)
from slurm_rl_plugin.papers.study.comparison_figure import comparison
from slurm_rl_plugin.papers.study.logs import PROCESSORS_OF_2011, SEGMENT_DROP, read_lpc, segment_of
from slurm_rl_plugin.papers.study.study import Asked, Outcome
from slurm_rl_plugin.papers.study.trials import Contender, columns_of, measures_of
from slurm_rl_plugin.simulator.workloads.generators import egee_log, mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.fairness import fairness_at_starts

_DROP_GENERATED = (0, 500)
_NOMINAL = "J with nominal shares"

#: Policy -> column -> one figure a seed.
Sample = dict[str, dict[str, FloatArray]]


def steps(seeds: int, *, with_segments: bool) -> int:
    """How many logs are simulated."""
    return (len(GRID_OF_2008) + 1) * seeds + with_segments * len(SEGMENTS)


def reproduce(seeds: int, traces: Path | None, after_log: Callable[[], None]) -> list[Claim]:
    """Measure every figure.

    Args:
        seeds: how many generated logs of each kind, seeds 0 to `seeds` - 1.
        traces: folder that holds LPC-EGEE; without it the segments are left out.
        after_log: told after each log.

    Raises:
        ConfigurationError: the folder does not hold LPC-EGEE.
        AccountingLogError: LPC-EGEE cannot be read.
    """
    segments = None if traces is None else _segments(traces)
    sample_of = partial(_sample, after_log=after_log)
    claims: list[Claim] = []
    for interactive, table in GRID_OF_2008.items():
        logs = (mmn_log(np.random.default_rng(k), interactive=interactive) for k in range(seeds))
        sample = sample_of(logs, table, capacity=50, drop=_DROP_GENERATED)
        group = f"2008, p = {interactive}"
        claims += [*_claims_of_table(group, table, sample), *_ratios(group, interactive, sample)]
    logs = (egee_log(np.random.default_rng(seed)) for seed in range(seeds))
    sample = sample_of(logs, EGEE_LIKE, capacity=PROCESSORS_OF_2011, drop=_DROP_GENERATED)
    claims += _claims_of_table("EGEE-like", EGEE_LIKE, sample)
    for number, log in (segments or {}).items():
        table = SEGMENTS[number]
        sample = sample_of([log], table, capacity=PROCESSORS_OF_2011, drop=SEGMENT_DROP)
        claims += _claims_of_table(f"LPC-EGEE segment {number}", table, sample)
    return claims


def _segments(folder: Path) -> dict[int, JobLog]:
    log = read_lpc(folder)
    return {number: segment_of(log, number) for number in SEGMENTS}


def _sample(
    logs: Iterable[JobLog],
    policies: Collection[str],
    *,
    capacity: int,
    drop: tuple[int, int],
    after_log: Callable[[], None],
) -> Sample:
    """The figures of every policy on every log."""
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in policies}
    for log in logs:
        prepared = prepare_log(log, capacity=capacity)
        for name in policies:
            rows[name].append(figures_of(HEURISTICS[name], prepared, drop))
        after_log()
    return {name: columns_of(each) for name, each in rows.items()}


def figures_of(
    heuristic: Heuristic, prepared: PreparedLog, drop: tuple[int, int]
) -> dict[str, float]:
    """Columns of `measures_of` for one log, and J with nominal shares.

    Class medians are those of the log itself.
    """
    contender = Contender(
        rule=heuristic.rule,
        estimates=estimates_of(heuristic.estimates, prepared),
        reserve=heuristic.reserve,
    )
    jobs = contender.schedule(prepared)
    found = measures_of(jobs, drop)
    fairness = _fairness_of_nominal_shares(prepared, jobs.start)
    fairness = fairness[drop[0] : len(fairness) - drop[1]]
    return {**found, _NOMINAL: (found["U"] + float(fairness.mean())) / 2}


def _fairness_of_nominal_shares(prepared: PreparedLog, start: FloatArray) -> FloatArray:
    log = prepared.log
    shares = np.array([FEASIBLE.get(name, 0.0) for name in log.accounts])
    if not shares.any():
        return np.full(len(start), np.nan)  # not the 2008 load
    return fairness_at_starts(start, log.run_time, log.processors, log.account, shares)


def _claims_of_table(group: str, table: Table, sample: Sample) -> Iterator[Claim]:
    for policy, row in table.items():
        for column, text in _cells(row):
            yield Claim(
                cell=Cell(group, policy, column),
                measured=measure(sample[policy][column]),
                printed=Printed.of(text) if text else None,
                remark=_remark(group, policy, column),
                source="earlier measurement",
            )


def _cells(row: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What was printed, J a second time, and what is to be told without an earlier figure."""
    for column, text in (row or dict.fromkeys(COLUMNS_OF_2011, "")).items():
        yield column, text
        if column == "J":
            yield _NOMINAL, text


def _ratios(group: str, interactive: float, sample: Sample) -> Iterator[Claim]:
    def claim(name: str, values: FloatArray, statistic: Statistic, text: str = "") -> Claim:
        return Claim(
            cell=Cell(group, f"{FIFO} / {SJF}", name),
            measured=measure(values, statistic),
            printed=Printed.of(text) if text else None,
            source="earlier measurement",
        )

    for column, text in RATIOS[interactive].items():
        pair = np.stack([sample[FIFO][column], sample[SJF][column]])
        ratio = pair[0] / pair[1]
        yield claim(f"{column}, median of the seeds", ratio, median, text)
        yield claim(f"{column}, ratio of the means", pair, ratio_of_means)
        if column == "mean wait":
            for level, printed in RATIO_QUANTILES.items():
                name = f"{column}, {level:.0%} quantile of the seeds"
                yield claim(name, ratio, quantile(level), printed)


#: Beginnings of group, policy and column -> why a figure may differ, as far as is known.
_REMARKS: Sequence[tuple[tuple[str, str, str], str]] = (
    (
        ("2008", "", "J"),
        "the earlier fairness took the nominal shares, this one each account's part of the work",
    ),
    (
        ("2008", "utility-greedy", ""),
        "the earlier rule is not known to the letter; the utility lost over the next 300 s, in "
        "place of the rate, makes the interactive tail nearly as long as it was",
    ),
    (
        ("EGEE", "", ""),
        "the description leaves open how the sizes of bursts vary and how dense a burst is; "
        "lognormal sizes (sigma 1.5) spread over minutes come near",
    ),
    (
        ("LPC-EGEE segment 17", "", "interactive within"),
        "30 % of the jobs share their second of submission with another; the order of those moves "
        "the share from .396 to .417 (interactive first) and from .600 to .612 (min(run + wait)), "
        "which leaves the latter unexplained",
    ),
    (
        ("LPC-EGEE segment 18", "", "interactive within"),
        "not explained: the order of jobs of one second moves it by .001 only",
    ),
)


def _remark(group: str, policy: str, column: str) -> str:
    if column == _NOMINAL:
        return ""
    for beginnings, remark in _REMARKS:
        cell = zip((group, policy, column), beginnings, strict=True)
        if all(text.startswith(beginning) for text, beginning in cell):
            return remark
    return ""


#: File -> name and unit of the figures that it shows, and their columns.
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
    with asked.bar("simulating", steps(seeds, with_segments=traces is not None)) as add:
        claims = reproduce(seeds, traces, partial(add, 1))
    return Outcome(
        claims=claims,
        seeds=range(seeds),
        table=sampled_claims,
        drawings={file: partial(_drawn, claims, *shown) for file, shown in _FIGURES.items()},
    )


def _drawn(claims: Sequence[Claim], quantity: str, columns: Collection[str]) -> Any:
    drawn = [claim for claim in claims if claim.printed and claim.cell.column in columns]
    return comparison(drawn, quantity)
