"""Claims as reports for people: a table, how many reproduce, and what is known of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from slurm_rl_plugin.papers.study.claims import GOAL, READING, Claim


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
                _bound(claim),
                f"{claim.measured.value:.4g}",
                None if interval is None else f"{interval[0]:.4g} .. {interval[1]:.4g}",
                claim.algorithm,
                _VERDICTS[claim.reproduces],
            ]
        )
    return [
        TextTable(["CLAIM", "PRINTED", "MEASURED", "95 % INTERVAL", "ALGORITHM", "VERDICT"], rows),
        f"\n{_counted(claims)} What does not:",
        *(f"* {claim.name}: {claim.because}." for claim in claims if claim.reproduces is False),
    ]


def _bound(claim: Claim) -> str | None:
    """What a figure is held against, with its source where that is not a paper."""
    if claim.printed is None:
        return None
    whose = {GOAL: " (goal)", READING: " (ours)"}.get(claim.source, "")
    return f"{claim.printed.text}{whose}"


#: None where nobody published the figure.
_VERDICTS = {True: "reproduces", False: "does not", None: None}


def counts(claims: Sequence[Claim]) -> dict[str, dict[str, int]]:
    """How many claims reproduce, by whose algorithm was measured.

    Goals, and bounds that are our reading of a paper's word, count apart.

    Returns:
        "paper", "readings", "ours" or "goals" -> "reproduce" and "judged", for those that have any
        claim.
    """
    found = dict[str, dict[str, int]]()
    for claim in claims:
        if claim.reproduces is not None:
            apart = {(GOAL, claim.algorithm): "goals", (READING, "paper"): "readings"}
            kind = apart.get((claim.source, claim.algorithm), claim.algorithm)
            count = found.setdefault(kind, {"reproduce": 0, "judged": 0})
            count["judged"] += 1
            count["reproduce"] += claim.reproduces
    return found


def _counted(claims: Sequence[Claim]) -> str:
    """One sentence for each count."""
    sentences = {
        "paper": "{reproduce} of {judged} reproduce.",
        "readings": "By our reading of words that have no number, {reproduce} of {judged} do.",
        "ours": "With our algorithm in place of the paper's, {reproduce} of {judged} do.",
        "goals": "{reproduce} of {judged} goals of this project are met.",
    }
    found = counts(claims)
    return " ".join(text.format(**found[kind]) for kind, text in sentences.items() if kind in found)
