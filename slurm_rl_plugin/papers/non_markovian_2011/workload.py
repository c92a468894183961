"""Table 1 of the 2011 paper: what the run times are said to be, and whether they can be that."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date

import numpy as np

from slurm_rl_plugin.papers.non_markovian_2011.tables import TABLE_1
from slurm_rl_plugin.papers.study.claims import Cell, Claim, Judgement, Printed, measure
from slurm_rl_plugin.papers.study.verdicts import as_one_draw
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import DAY, SHORT_JOB_RUN_TIME

#: "25 Jul 2006 to 19 Oct 2006", said to be more than seven weeks.
_PERIOD = (date(2006, 7, 25), date(2006, 10, 19))
_PRINTED_WEEKS = "7"
_OPEN = "the generator has the class means of the paper, about its class sizes, and no more of it"


def largest_deviation(mean: float, median: float, longest: float) -> float:
    """Largest standard deviation of times in [0, longest] with that mean and median.

    The variance is largest with mass at 0, at the median and at the longest time only; let b be
    the mass at the median. Then E[x^2] = mean * longest - b * median * (longest - median), and at
    most half of the mass on either side of the median keeps b above a bound.

    Args:
        mean: seconds, in (0, longest).
        median: seconds, in (0, longest).
        longest: seconds.
    """
    low_side = (0.5 - mean / longest) / (1.0 - median / longest)  # at most half lies at 0
    high_side = (mean - 0.5 * longest) / median  # at most half lies at the longest
    at_median = max(low_side, high_side, 0.0)
    second = mean * longest - at_median * median * (longest - median)
    return math.sqrt(second - mean**2)


def claims_of_table_1(logs: Sequence[PreparedLog]) -> Iterator[Claim]:
    """Every figure of Table 1 on the generated load, its deviation, and the weeks of the trace.

    Args:
        logs: generated, one a seed.
    """
    yield _claim_of_deviation()
    for job_class, row in TABLE_1.items():
        for statistic, text in row.items():
            draws = np.array([_statistic(log, job_class, statistic) for log in logs])
            printed = Printed.of(text)
            yield Claim(
                cell=Cell(
                    "Table 1, EGEE-like load",
                    job_class,
                    statistic if statistic == "jobs" else f"{statistic} of run times (s)",
                ),
                measured=measure(draws),
                printed=printed,
                judged=as_one_draw(printed, draws, _OPEN),
            )
    yield _claim_of_weeks()


def _statistic(log: PreparedLog, job_class: str, statistic: str) -> float:
    times = log.log.run_time[log.interactive == (job_class == "interactive")]
    if statistic == "jobs":
        return float(len(times))
    if statistic == "standard deviation":
        return float(times.std())
    return float(times.mean() if statistic == "mean" else np.median(times))


def _claim_of_deviation() -> Claim:
    row = {name: float(text) for name, text in TABLE_1["interactive"].items()}
    possible = largest_deviation(row["mean"], row["median"], SHORT_JOB_RUN_TIME)
    swapped = largest_deviation(row["median"], row["mean"], SHORT_JOB_RUN_TIME)
    because = (
        f"physically impossible: times in [0, 900] s with mean 108 and median 160 deviate by at "
        f"most {possible:.1f} s; with mean and median swapped up to {swapped:.0f} s are possible"
    )
    return Claim(
        cell=Cell(
            "Table 1, as printed",
            "interactive",
            "largest possible standard deviation of run times (s)",
        ),
        measured=measure(np.array([possible])),
        printed=Printed.of(TABLE_1["interactive"]["standard deviation"]),
        judged=Judgement(row["standard deviation"] <= possible, because),
    )


def _claim_of_weeks() -> Claim:
    weeks = (_PERIOD[1] - _PERIOD[0]).total_seconds() / (7 * DAY)
    return Claim(
        cell=Cell("Table 1, as printed", "trace", "weeks from 25 Jul to 19 Oct 2006"),
        measured=measure(np.array([weeks])),
        printed=Printed.of(_PRINTED_WEEKS),
        judged=Judgement(
            round(weeks) == int(_PRINTED_WEEKS), f"the dates lie {weeks:.1f} weeks apart"
        ),
    )
