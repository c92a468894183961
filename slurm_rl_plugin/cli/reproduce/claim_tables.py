"""Claims of a reproduction as tables, and their verdicts counted."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slurm_rl_plugin.cli.tables import print_json, print_table
from slurm_rl_plugin.papers.study.claims import Claim
from slurm_rl_plugin.papers.study.sampled_claims import SampledClaim


def print_claims(claims: Sequence[Claim]) -> None:
    """Figures of fixed input: published, measured, difference."""
    rows = []
    for claim in claims:
        places = claim.decimals
        figures = [f"{claim.published:.{places}f}", f"{claim.measured:.{places}f}"]
        difference = f"{claim.difference:.{places}f}"
        rows.append([claim.name, claim.source, *figures, difference, claim.because])
    print_table(["CELL", "SOURCE", "PUBLISHED", "MEASURED", "DIFFERENCE", "BECAUSE"], rows)
    equal = [claim.reproduces for claim in claims if not claim.at_most]
    print(f"\n{sum(equal)} of {len(equal)} reproduce.")
    bounds = [claim.reproduces for claim in claims if claim.at_most]
    if bounds:
        print(f"{sum(bounds)} of {len(bounds)} searched in-sample are at most as published.")


def print_sampled_claims(claims: Sequence[SampledClaim]) -> None:
    """Figures of random input with their errors, and what is known of those that differ."""
    rows = []
    for claim in claims:
        printed, measured = claim.printed, claim.measured
        error = None if measured.standard_error is None else f"{measured.standard_error:.2g}"
        text = None if printed is None else printed.text
        rows.append([claim.name, text, measured.value, error, claim.because])
    print_table(["CELL", "EARLIER", "MEASURED", "ERROR", "BECAUSE"], rows)
    print(f"\n{counted(claims)} What is known of the others:")
    differing = [claim for claim in claims if claim.reproduces is False]
    for remark in dict.fromkeys(claim.remark for claim in differing if claim.remark):
        cells = sum(claim.remark == remark for claim in differing)
        print(f"* {cells} {'cell' if cells == 1 else 'cells'}: {remark}.")


def print_judged_claims(claims: Sequence[SampledClaim]) -> None:
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
                _verdict(claim),
            ]
        )
    print_table(["CLAIM", "PUBLISHED", "MEASURED", "95 % INTERVAL", "VERDICT"], rows)
    print(f"\n{counted(claims)} What does not:")
    for claim in claims:
        if claim.reproduces is False:
            print(f"* {claim.name}: {claim.because}.")


def _verdict(claim: SampledClaim) -> str | None:
    if claim.reproduces is None:
        return None  # nobody published the figure
    return "reproduces" if claim.reproduces else "does not"


def counted(claims: Sequence[SampledClaim]) -> str:
    """How many of the claims with a verdict reproduce, as a sentence."""
    verdicts = [claim.reproduces for claim in claims if claim.reproduces is not None]
    return f"{sum(verdicts)} of {len(verdicts)} reproduce."


def print_reproduction(
    options: argparse.Namespace,
    seeds: Sequence[int],
    claims: Sequence[Claim | SampledClaim],
    figures: Sequence[str],
    table: Callable[[Any], None],
    facts: Mapping[str, Any] | None = None,
) -> None:
    """The document of `reproduce --json`, or the table.

    Args:
        options: of the command line, with `paper` and `json`.
        seeds: that were run.
        claims: all of one kind.
        figures: paths.
        table: prints the claims.
        facts: further entries of the document.
    """
    if not options.json:
        table(claims)
        return
    document: dict[str, Any] = {
        "paper": options.paper,
        "seeds": list(seeds),
        "claims": [claim.as_json() for claim in claims],
        "figures": list(figures),
        **(facts or {}),
    }
    print_json(document)
