"""The simulator of nodes held against what the campaign's real Slurm did with the same jobs.

Reads the folder that the campaign beside it wrote and needs nothing that runs. The machine is
read from the campaign's own slurm.conf; each repetition is simulated with its own submissions and
run times. What is beside them its slurmctld's log tells: how long it took from a submission, and
from an end, to its next look at the queue, and when it calculated priorities. Nothing is fitted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.whole_file import write_whole
from tests.bench.live.compressed_time import CONTROLLER_LOG
from tests.bench.node_hours.figures import Cell, Run, cells_of, starts_of, waits_of
from tests.bench.node_hours.simulated import Delays, delays_of, simulated_starts

#: A cell agrees where mean waits differ by no more than this part of the real one, or by no more
#: than a second: accounting tells whole ones.
WITHIN, A_SECOND = 0.15, 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what the campaign wrote, rep1 and on")
    chosen = parser.parse_args(arguments)
    folders = sorted(path.parent for path in chosen.folder.glob("rep*/jobs.json"))
    if not folders:
        sys.exit(f"{chosen.folder} has no rep1/jobs.json: run the campaign beside it first.")
    runs = [json.loads(folder.joinpath("jobs.json").read_text()) for folder in folders]
    delays = [delays_of(folder / f"{CONTROLLER_LOG}.gz") for folder in folders]
    simulated = [
        as_simulated(run, read_machine(folder), delay)
        for run, folder, delay in zip(runs, folders, delays, strict=True)
    ]
    result = {"delays": [asdict(each) for each in delays], **compared(runs, simulated)}
    write_whole(chosen.folder / "fidelity.json", json.dumps(result, indent=2) + "\n")
    print(table_of(result))
    return 0


def as_simulated(run: Run, machine: Machine, delays: Delays) -> dict[str, Any]:
    """The same run with the simulator's starts."""
    starts = simulated_starts(run["jobs"], machine, delays)
    jobs = [
        {**job, "outcome": {**job["outcome"], "start": start}}
        for job, start in zip(run["jobs"], starts.tolist(), strict=True)
    ]
    return {**run, "jobs": jobs}


def compared(runs: Sequence[Run], simulated: Sequence[Run]) -> dict[str, Any]:
    """Each repetition beside its simulation, and each beside the others: what is left to chance."""
    pairs = list(combinations(runs, 2))
    names = list(cells_of(runs[0]))
    cells = {" ".join(name): _cell(name, runs, simulated, pairs) for name in names}
    agree = [bool(each) for cell in cells.values() for each in cell["agrees"]]
    agree_real = [bool(each) for cell in cells.values() for each in cell["real_agrees"]]
    return {
        "cells": cells,
        "share_of_cells_that_agree": float(np.mean(agree)),
        "share_without_the_second": float(np.mean(_within_alone(cells.values()))),
        "share_of_real_cells_that_agree": float(np.mean(agree_real)) if pairs else None,
        "median_start_difference": _apart(runs, simulated),
        "median_start_difference_of_real": _apart(*zip(*pairs, strict=True)) if pairs else [],
    }


def _cell(
    name: Cell, runs: Sequence[Run], simulated: Sequence[Run], pairs: Sequence[tuple[Run, Run]]
) -> dict[str, Any]:
    real, ours = ([_mean_wait(each, name) for each in side] for side in (runs, simulated))
    others = [(_mean_wait(one, name), _mean_wait(other, name)) for one, other in pairs]
    return {
        "jobs": int(cells_of(runs[0])[name].sum()),
        "real": real,
        "simulated": ours,
        "agrees": [agrees(*both) for both in zip(real, ours, strict=True)],
        "real_agrees": [agrees(*both) for both in others],
    }


def _within_alone(cells: Iterable[Mapping[str, Any]]) -> list[bool]:
    return [
        abs(real - ours) <= WITHIN * real
        for cell in cells
        for real, ours in zip(cell["real"], cell["simulated"], strict=True)
    ]


def _mean_wait(run: Run, cell: Cell) -> float:
    return float(waits_of(run)[cells_of(run)[cell]].mean())


def agrees(real: float, other: float, before: float | None = None) -> bool:
    """Whether two mean waits, or two effects on a mean wait of `before`, are near enough."""
    return abs(real - other) <= max(WITHIN * (real if before is None else before), A_SECOND)


def _apart(ones: Sequence[Run], others: Sequence[Run]) -> list[float]:
    """Median difference of a job's start over the mean wait, of each pair."""
    return [
        float(np.median(np.abs(starts_of(one) - starts_of(other))) / waits_of(one).mean())
        for one, other in zip(ones, others, strict=True)
    ]


def table_of(result: Mapping[str, Any]) -> str:
    """For people: a line a cell."""
    lines = [f"{'CLASS AND PARTITION':28}{'JOBS':>5}  REAL AND SIMULATED MEAN WAIT, S; * DIFFERS"]
    for name, cell in result["cells"].items():
        told = [
            f"{real:8.1f} {ours:8.1f}{' ' if agrees else '*'}"
            for real, ours, agrees in zip(
                cell["real"], cell["simulated"], cell["agrees"], strict=True
            )
        ]
        lines.append(f"{name:28}{cell['jobs']:5}  {'  '.join(told)}")
    for words, key in (
        ("median difference of a start over the mean wait", "median_start_difference"),
        ("the same of two real repetitions", "median_start_difference_of_real"),
    ):
        lines.append(f"{words}: {', '.join(f'{each:.3f}' for each in result[key])}")
    agree, alone = result["share_of_cells_that_agree"], result["share_without_the_second"]
    lines.append(f"cells that agree: {agree:.2f}; {alone:.2f} without the second")
    if result["share_of_real_cells_that_agree"] is not None:
        lines.append(f"of two real ones: {result['share_of_real_cells_that_agree']:.2f}")
    for words, key in (("submission", "notice"), ("end", "handover")):
        seconds = ", ".join(f"{each[key]:.2f}" for each in result["delays"])
        lines.append(f"from a job's {words} to the next look at the queue, s: {seconds}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
