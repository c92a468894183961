"""Tables 2 and 3 of the 2011 paper and the sentences that rest on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from slurm_rl_plugin.papers.non_markovian_2011.tables import (
    BASELINES,
    FIFO,
    LEARNED,
    NATIVE,
    PRINTED,
    SJF,
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
    measure,
)
from slurm_rl_plugin.papers.study.learner_average import figures_by_learner, measure_over_learners
from slurm_rl_plugin.papers.study.paired_trials import PairedTrial
from slurm_rl_plugin.papers.study.verdicts import as_bound, as_gain, as_one_draw, bounded

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
