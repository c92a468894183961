"""Table II and Fig. 3 of the 2008 paper: waiting times on the generated load."""

from __future__ import annotations

from collections.abc import Iterator

from slurm_rl_plugin.papers.reactive_grids_2008.conservation import implied_ratio, smallest_ratio
from slurm_rl_plugin.papers.reactive_grids_2008.tables import (
    BASELINES,
    FIFO,
    RL,
    SJF,
    TABLE_II,
    printed_waits,
)
from slurm_rl_plugin.papers.study.claims import Cell, Claim, Judgement, Printed, measure
from slurm_rl_plugin.papers.study.paired_trials import PairedTrial
from slurm_rl_plugin.papers.study.verdicts import as_one_draw, bounded

_STATISTICS = ("mean wait", "std of waits", "longest wait")
_MISPRINTED = ("454", "343")
_MISPRINT = "; 454 and 343 stand where 45.4 and 34.3 would fit the factors that the text names"
#: What the text of section VI.A says of Fig. 3.
_GOOD_PART, _FIFO_PART = "0.9", "0.30"


def claims_of_waits(interactive: float, trial: PairedTrial) -> Iterator[Claim]:
    """All claims on waits for one fraction p of interactive jobs."""
    yield from _claims_of_cells(interactive, trial)
    yield from _claims_of_factors(interactive, trial)
    yield _claim_of_conservation(interactive, trial)
    yield from _claims_of_figure_3(interactive, trial)


def _claims_of_cells(interactive: float, trial: PairedTrial) -> Iterator[Claim]:
    for (policy, job_class), row in TABLE_II[interactive].items():
        for statistic, text in zip(_STATISTICS, row.split(), strict=True):
            column, printed = f"{job_class} {statistic}", Printed.of(text)
            draws = trial.figure(policy, column)
            remark = _remark(interactive, policy, column, trial)
            yield Claim(
                cell=Cell(f"Table II, p = {interactive}", policy, f"{column} (s)"),
                measured=measure(draws),
                printed=printed,
                baselines=trial.means(column, BASELINES),
                judged=_qualified(as_one_draw(printed, draws, remark), interactive, text),
            )


def _qualified(judged: Judgement, interactive: float, text: str) -> Judgement:
    """Say where a printed figure is a usual one only because it is misprinted."""
    if not judged.holds or text not in _MISPRINTED:
        return judged
    longest = printed_waits(interactive, RL, "batch")[2]
    return judged._replace(
        because=f"{judged.because}{_MISPRINT}, and with the longest wait of {longest:g} s beside "
        "it the row is impossible"
    )


def _remark(interactive: float, policy: str, column: str, trial: PairedTrial) -> str:
    if policy == FIFO:
        return "one log in forty or fewer is as calm, while the printed mean is a usual one"
    if column.startswith("interactive"):
        means = trial.means(column, BASELINES)
        best = min(means, key=lambda each: means[each])
        return f"the smallest mean over the logs is that of {best}, {means[best]:.3g} s"
    name, ratio = smallest_ratio(trial)
    most = implied_ratio(interactive, most=True)
    return (
        f"physically impossible beside the printed FIFO, for the RL columns imply at most "
        f"{most:.2f} of FIFO's sum of run time * wait and no policy measured goes below "
        f"{ratio.value:.2f} ({name}){_MISPRINT if interactive > 0.2 else ''}"
    )


def _claims_of_factors(interactive: float, trial: PairedTrial) -> Iterator[Claim]:
    """That waits are divided by more than 8 at 20 % and nearly 20 at 50 %, in both classes."""
    for job_class in ("interactive", "batch"):
        column = f"{job_class} mean wait"
        fifo, learned = (printed_waits(interactive, p, job_class)[0] for p in (FIFO, RL))
        printed = Printed(value=fifo / learned, unit=0.1, text=f"{fifo / learned:.1f}")
        yield Claim(
            cell=Cell(f"Table II, p = {interactive}", f"{FIFO} / {RL}", column),
            measured=trial.ratio_of_means(column, FIFO, RL),
            printed=printed,
            baselines=_factors(trial, column),
            judged=as_one_draw(
                printed, trial.ratio(column, FIFO, RL), _remark(interactive, RL, column, trial)
            ),
        )


def _factors(trial: PairedTrial, column: str) -> dict[str, float]:
    mine = trial.means(column, BASELINES)
    return {f"{FIFO} / {name}": mine[FIFO] / value for name, value in mine.items() if value > 0}


def _claim_of_conservation(interactive: float, trial: PairedTrial) -> Claim:
    name, ratio = smallest_ratio(trial)
    product, most = (implied_ratio(interactive, most=each) for each in (False, True))
    sums = trial.means("work-weighted wait", trial.measures)
    because = (
        f"the printed RL columns imply {product:.2f}, and at most {most:.2f} whatever the order "
        f"within a class, while {name} has the smallest ratio of all policies measured, so that "
        "Table II breaks the conservation of work"
    )
    return Claim(
        cell=Cell(
            f"Table II, p = {interactive}",
            "any policy / FIFO",
            "sum of run time * wait, the smallest",
        ),
        measured=ratio,
        printed=Printed(value=most, unit=0.01, text=f"{most:.2f}"),
        source="implied by the paper",
        baselines={each: value / sums[FIFO] for each, value in sums.items() if each != FIFO},
        judged=Judgement(ratio.ends[0] <= most, because),
    )


def _claims_of_figure_3(interactive: float, trial: PairedTrial) -> Iterator[Claim]:
    best = trial.figure(SJF, "interactive within 120 s").mean()
    remark = f"even SJF with the oracle reaches {best:.2f}; only holding processors back does"
    yield _part(interactive, trial, "interactive within 120 s", remark)
    yield _part(interactive, trial, "overhead <= 1", "short jobs arrive at a full machine")
    draws = trial.figure(FIFO, "overhead <= 1")
    printed = Printed.of(_FIFO_PART)
    yield Claim(
        cell=Cell(f"Fig. 3, p = {interactive}", FIFO, "interactive, overhead <= 1"),
        measured=measure(draws),
        printed=printed,
        baselines=trial.means("overhead <= 1", BASELINES),
        judged=as_one_draw(printed, draws),
    )


def _part(interactive: float, trial: PairedTrial, column: str, remark: str) -> Claim:
    shown = column if column.startswith("interactive") else f"interactive, {column}"
    return bounded(
        Cell(f"Fig. 3, p = {interactive}", RL, shown),
        measure(trial.figure(RL, column)),
        _GOOD_PART,
        least=True,
        baselines=trial.means(column, BASELINES),
        remark=remark,
    )
