"""Tables 1 to 3 of the 2011 paper and the sentences that rest on them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date

import numpy as np

from slurm_rl_plugin.papers.non_markovian_2011.load import (
    BASELINES,
    FIFO,
    LEARNED,
    NATIVE,
    PRINTED,
    SJF,
    TABLE_1,
    TABLE_2,
    TABLE_2_COLUMNS,
    TABLE_3,
    TABLE_3_COLUMNS,
)
from slurm_rl_plugin.papers.study.claims import (
    Cell,
    Claim,
    Judgement,
    Measurement,
    Printed,
    as_bound,
    as_gain,
    as_one_draw,
    bounded,
    measure,
)
from slurm_rl_plugin.papers.study.trials import (
    PairedTrial,
    figures_by_learner,
    measure_over_learners,
)
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import DAY, SHORT_JOB_RUN_TIME

#: What sentences of section 5 say is at least .90 under every learned policy: mean R, and the parts
#: of the interactive jobs with R above .9 and within 2 minutes.
_BOUNDS = (
    ("Section 5.1", "interactive R"),
    ("Fig. 2", "interactive R > 0.9"),
    ("Fig. 3", "interactive within 120 s"),
)
#: Run times known, or the median of the class.
_ESTIMATES = ("ORA", "EST")
#: How much less responsiveness or fairness than native is none, as the paper prints two decimals.
_NEGLIGIBLE = 0.01
_OTHER_LOG = "another log, for that of LAL is not public"


def claims_of_tables(group: str, trial: PairedTrial) -> Iterator[Claim]:
    """Every cell of Tables 2 and 3 whose policy took part.

    Args:
        group: names the load.
        trial: with an entry for each of LEARNED, perhaps of AS_PRINTED.
    """
    for table, cells, columns in (
        ("Table 2", TABLE_2, TABLE_2_COLUMNS),
        ("Table 3", TABLE_3, TABLE_3_COLUMNS),
    ):
        for printed, row in cells.items():
            for policy in (printed, f"{printed}{PRINTED}"):
                if policy not in trial.measures:
                    continue
                for column, text in zip(columns, row.split(), strict=True):
                    yield _cell(f"{table}, {group}", trial, policy, column, text)


def _cell(group: str, trial: PairedTrial, policy: str, column: str, text: str) -> Claim:
    draws, printed = trial.figure(policy, column), Printed.of(text)
    bare = trial.figure(SJF, column).mean()
    remark = f"{_OTHER_LOG}, and on this one SJF with the oracle gives {bare:.3g}"
    return Claim(
        cell=Cell(group, policy, column),
        measured=measure(draws),
        printed=printed,
        source="paper (LAL log)",
        baselines=trial.means(column, BASELINES),
        judged=as_one_draw(printed, draws, remark),
    )


def claims_of_sentences(group: str, trial: PairedTrial) -> Iterator[Claim]:
    """What section 5 says in words, on one load.

    Args:
        group: names the load.
        trial: with an entry for each of LEARNED.
    """
    for section, column in _BOUNDS:
        for policy in LEARNED:
            yield _bound_claim(f"{section}, {group}", trial, policy, column)
    for network in ("NN", "ESN"):
        yield _estimate_claim(group, trial, network)
    for estimates in _ESTIMATES:
        yield memory_claim(group, trial, estimates, "NN")
        yield memory_claim(group, trial, estimates, "ESN0")
        yield _wait_claim(group, trial, estimates)
    if NATIVE in trial.measures:
        yield from claims_on_native(group, trial)


def claims_on_native(group: str, trial: PairedTrial) -> Iterator[Claim]:
    """What section 5 says of the native scheduler, on one load that records its starts."""
    for policy in LEARNED:
        yield from _native_claims(group, trial, policy)


def _bound_claim(group: str, trial: PairedTrial, policy: str, column: str) -> Claim:
    others = trial.means(column, (FIFO, SJF))
    remark = f"FIFO gives {others[FIFO]:.2f} and SJF with the oracle {others[SJF]:.2f} on this load"
    return bounded(
        Cell(group, policy, column),
        measure(trial.figure(policy, column)),
        "0.90",
        least=True,
        logs=_logs(trial),
        source="paper (LAL log)",
        baselines=trial.means(column, BASELINES),
        remark=remark,
    )


def _estimate_claim(group: str, trial: PairedTrial, network: str) -> Claim:
    """That the medians of the classes do as well as the known run times."""
    gain = _paired(trial, f"{network}-EST", f"{network}-ORA", "R")
    remark = "the order within a class is worth something wherever a queue builds up"
    return Claim(
        cell=Cell(f"Section 5.1, {group}", f"{network}-EST - {network}-ORA", "R"),
        measured=gain,
        printed=Printed(value=0.0, unit=0.01, text="0"),
        source="paper (LAL log)",
        baselines=trial.means("R", BASELINES),
        judged=as_bound(gain, -0.005, least=True, logs=_logs(trial), remark=remark),
    )


def memory_claim(group: str, trial: PairedTrial, estimates: str, other: str) -> Claim:
    """That the echo state network helps the 5 % least responsive interactive jobs.

    Args:
        group: names the load.
        trial: with the learners of both.
        estimates: "ORA" or "EST".
        other: "NN" as in the paper, or "ESN0", the same network without memory.
    """
    one, two = f"ESN-{estimates}", f"{other}-{estimates}"
    gain = _paired(trial, one, two, "worst 5 %")
    levels = [float(trial.figure(name, "worst 5 %").mean()) for name in (one, two)]
    judged = as_gain(gain, f"mean R of the worst 5 % is {levels[0]:.4f} and {levels[1]:.4f}")
    return Claim(
        cell=Cell(
            f"Memory, {group}", f"{one} - {two}", "R of the worst 5 % of the interactive jobs"
        ),
        measured=gain,
        source="paper (LAL log)",
        baselines=trial.means("worst 5 %", BASELINES),
        judged=judged,
    )


def _paired(trial: PairedTrial, one: str, two: str, column: str) -> Measurement:
    pair = [figures_by_learner(trial, name, column) for name in (one, two)]
    return measure_over_learners(pair[0] - pair[1])


def _wait_claim(group: str, trial: PairedTrial, estimates: str) -> Claim:
    """Mean wait of interactive jobs, echo state over feed-forward network, as in Table 3."""
    column = "interactive mean wait"
    names = [f"{network}-{estimates}" for network in ("ESN", "NN")]
    values = [float(TABLE_3[name].split()[2]) for name in names]
    draws = trial.figure(names[0], column) / np.maximum(trial.figure(names[1], column), 1.0)
    printed = Printed(value=values[0] / values[1], unit=0.01, text=f"{values[0] / values[1]:.2f}")
    return Claim(
        cell=Cell(f"Table 3, {group}", " / ".join(names), column),
        measured=measure(draws),
        printed=printed,
        source="paper (LAL log)",
        baselines=trial.means(column, BASELINES),
        judged=as_one_draw(printed, draws, "the two kinds of network learn the same order"),
    )


def _native_claims(group: str, trial: PairedTrial, policy: str) -> Iterator[Claim]:
    """That a learned policy beats the native scheduler, and FIFO beside it.

    Interactive jobs are said to gain massively, batch jobs to lose nothing, and the difference of
    fairness to be negligible (sections 5.1 and 5.3).
    """
    for column, section in (
        ("interactive R", "Section 5.1"),
        ("batch R", "Section 5.1"),
        ("F", "Fig. 4"),
    ):
        gain = measure(trial.figure(policy, column) - trial.figure(NATIVE, column))
        fifo = float((trial.figure(FIFO, column) - trial.figure(NATIVE, column)).mean())
        if column == "interactive R":
            judged = as_gain(gain)
        else:
            judged = as_bound(gain, -_NEGLIGIBLE, least=True, logs=_logs(trial))
        because = f"{policy} - native {judged.because}, FIFO - native {fifo:+.3g}"
        yield Claim(
            cell=Cell(f"{section}, {group}", f"{policy} - {NATIVE}", column),
            measured=gain,
            source="paper (LAL log)",
            baselines=_over_native(trial, column),
            judged=Judgement(judged.holds, because),
        )


def _over_native(trial: PairedTrial, column: str) -> Mapping[str, float]:
    means = trial.means(column, BASELINES)
    return {f"{name} - {NATIVE}": value - means[NATIVE] for name, value in means.items()}


def _logs(trial: PairedTrial) -> int:
    return len(trial.schedules[FIFO])


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
