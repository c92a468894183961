"""Figures of sequences that are given, so that they are equal to published ones or are not."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_rl_plugin.papers.study.claim_tables import Report, TextTable
from slurm_rl_plugin.papers.study.claims import Cell, Claim, Judgement, Measurement, Printed

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
