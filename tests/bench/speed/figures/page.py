"""The tables of docs/research/performance.md, made from what `make bench` and `bench-slurm` keep.

python -m tests.bench.speed.figures.page bench-output docs/research/performance.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_rl_plugin.whole_file import write_whole
from tests.bench.report import with_part
from tests.bench.speed.figures.__main__ import ratio_of, shown
from tests.bench.speed.slurm_queue import LINES

#: Between these lines the document holds what is made here.
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
HEAD = (
    "| figure | unit | now | goal | | floor | before | now / before [95 %] |",
    "|---|---|---|---|---|---|---|---|",
)
VERDICTS = {None: "", True: "met", False: "**missed**"}
Kept = Mapping[str, Any]


def rows(kept: Kept) -> Iterator[str]:
    """A row for each figure that was measured."""
    for name, line in kept.items():
        cells = (
            name, line["unit"], shown(line["now"]), shown(line["goal"]), VERDICTS[line["met"]],
            shown(line["floor"]), shown(line.get("before")), ratio_of(line.get("against_before")),
        )  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def slurm_rows(kept: Kept) -> Iterator[str]:
    """A row for each line of `make bench-slurm`."""
    for part, lines in LINES.items():
        if part in kept:
            found = {name: value for name, value in kept[part].items() if name != "load_average"}
            for name, text, goal, met in lines(found):
                yield f"| {name.strip()} | {text} | {goal} | {VERDICTS[met]} |"


def tables_of(folder: Path) -> str:
    """Both tables, from the files of a folder."""
    speed = json.loads(folder.joinpath("speed.json").read_text())
    slurm = json.loads(folder.joinpath("slurm-queue.json").read_text())
    return "\n".join(
        [
            *HEAD, *rows(speed), "",
            f"A real slurmctld with {slurm['jobs']:,} pending jobs:", "",
            "| figure | now | goal | |", "|---|---|---|---|", *slurm_rows(slurm),
        ]
    )  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Write the tables into the document."""
    folder, document = map(Path, arguments)
    write_whole(document, with_part(document.read_text(), BEGIN, END, tables_of(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
