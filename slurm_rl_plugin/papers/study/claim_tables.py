"""Claims as reports for people: a table, how many reproduce, and what is known of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from slurm_rl_plugin.papers.study.claims import GOAL, Claim


class TextTable(NamedTuple):
    """A table of a report: its header in capitals, and rows of as many cells."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]


#: Lines or tables one below the other.
Report = Sequence[str | TextTable]


def sampled_claims(claims: Sequence[Claim]) -> Report:
    """Figures of random input with their errors, and what is known of those that differ."""
    rows = []
    for claim in claims:
        printed, measured = claim.printed, claim.measured
        error = None if measured.standard_error is None else f"{measured.standard_error:.2g}"
        text = None if printed is None else printed.text
        rows.append([claim.name, text, measured.value, error, claim.because])
    differing = [claim.remark for claim in claims if claim.reproduces is False and claim.remark]
    known = {remark: differing.count(remark) for remark in differing}
    return [
        TextTable(["CELL", "EARLIER", "MEASURED", "ERROR", "BECAUSE"], rows),
        f"\n{_counted(claims)} What is known of the others:",
        *(
            f"* {cells} {'cell' if cells == 1 else 'cells'}: {remark}."
            for remark, cells in known.items()
        ),
    ]


def judged_claims(claims: Sequence[Claim]) -> Report:
    """Claims of a paper: its figure, ours with its interval and the verdict; then why not."""
    rows = []
    for claim in claims:
        interval = claim.measured.ci95
        rows.append(
            [
                claim.name,
                None if claim.printed is None else claim.printed.text,
                f"{claim.measured.value:.4g}",
                None if interval is None else f"{interval[0]:.4g} .. {interval[1]:.4g}",
                _VERDICTS[claim.reproduces],
            ]
        )
    return [
        TextTable(["CLAIM", "PUBLISHED", "MEASURED", "95 % INTERVAL", "VERDICT"], rows),
        f"\n{_counted(claims)} What does not:",
        *(f"* {claim.name}: {claim.because}." for claim in claims if claim.reproduces is False),
    ]


#: None where nobody published the figure.
_VERDICTS = {True: "reproduces", False: "does not", None: None}


def _counted(claims: Sequence[Claim]) -> str:
    """How many goals of ours are met and, apart from them, how many figures of others reproduce."""
    judged = [claim for claim in claims if claim.reproduces is not None]
    goals = [claim.reproduces for claim in judged if claim.source == GOAL]
    published = [claim.reproduces for claim in judged if claim.source != GOAL]
    told = []
    if goals:
        told.append(f"{sum(map(bool, goals))} of {len(goals)} goals of ours are met.")
    if published or not goals:
        told.append(f"{sum(map(bool, published))} of {len(published)} reproduce.")
    return " ".join(told)
