"""Writes the table of docs/research/reliability.md from faults.json.

python -m tests.bench.faults.reliability_table faults-output/faults.json \
    docs/research/reliability.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_rl_plugin.whole_file import write_whole
from tests.bench.faults.every_fault import FAULTS
from tests.bench.report import with_part

Result = Mapping[str, Any]
#: Lines around the table.
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
_HEAD = (
    "| fault | metric that shows it | line of the log | recovered after | jobs | harmed "
    "| factors left |",
    "|---|---|---|---|---|---|---|",
)
HARM = ("lost", "held", "failed", "starved")
LEFT = ("factors_left", "factors_after_kill")


def table_of(results: Sequence[Result]) -> str:
    """A row for each fault."""
    known = {fault.name: fault for fault in FAULTS}
    rows = list(_HEAD)
    for each in results:
        fault = known[each["name"]]
        harmed, left = (sum(len(each[name]) for name in names) for names in (HARM, LEFT))
        cells = (
            fault.name,
            fault.sign.words if each["metric"] else "none",
            f"`{fault.log}`" if each["log"] else "none",
            "no"
            if each["recovery"] is None
            else f"{each['recovery']:.1f} s of {each['allowed']:.0f}",
            str(each["jobs"]),
            str(harmed),
            str(left),
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def summary_of(results: Sequence[Result]) -> str:
    """A line with the totals."""
    jobs = sum(each["jobs"] for each in results)
    harm = {name: sum(len(each[name]) for each in results) for name in (*HARM, *LEFT)}
    survived = sum(each["survived"] for each in results)
    shown = sum(each["metric"] and each["log"] for each in results)
    return (
        f"{len(results)} faults injected, {survived} survived; of {jobs:,} jobs "
        f"{harm['lost']} lost, {harm['held']} held, {harm['failed']} failed, "
        f"{harm['starved']} starved; "
        f"{harm['factors_left'] + harm['factors_after_kill']} factors left; "
        f"{shown} shown by a metric and a line of the log."
    )


def with_table(document: str, results: Sequence[Result]) -> str:
    """The document with the table of these results."""
    return with_part(document, BEGIN, END, f"{summary_of(results)}\n\n{table_of(results)}")


def main(arguments: Sequence[str]) -> None:
    results, document = json.loads(Path(arguments[0]).read_text()), Path(arguments[1])
    write_whole(document, with_table(document.read_text(), results))


if __name__ == "__main__":
    main(sys.argv[1:])
