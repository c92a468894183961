"""Compares the simulator of nodes with the real Slurm of the campaign, for the same jobs.

Reads the campaign's folder and needs no daemon. The machine is that of the run's own slurm.conf;
each repetition is simulated with its own submissions and run times. slurmctld's log gives the
delays from a submission and from an end to the next scheduling pass, and the time at which
priorities were calculated. No parameter is fitted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.whole_file import write_whole
from tests.bench.live.harness import CONTROLLER_LOG
from tests.bench.node_hours.simulated import (
    Run,
    as_simulated,
    cells_of,
    delays_of,
    runs_in,
    starts_of,
    waits_of,
)

#: Two mean waits agree within this part of the real one, or within a second, since accounting has
#: whole seconds.
WITHIN, A_SECOND = 0.15, 1.0


def agrees(real: float, other: float, before: float | None = None) -> bool:
    """Whether two mean waits, or two effects on a mean wait of `before`, agree."""
    return abs(real - other) <= max(WITHIN * (real if before is None else before), A_SECOND)


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulates, compares, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what the campaign wrote, rep1 and on")
    chosen = parser.parse_args(arguments)
    folders, runs = runs_in(chosen.folder)
    delays = [delays_of(folder / f"{CONTROLLER_LOG}.gz") for folder in folders]
    simulated = [
        as_simulated(run, read_machine(folder), delay)
        for run, folder, delay in zip(runs, folders, delays, strict=True)
    ]
    result = {"delays": [asdict(each) for each in delays], **compared(runs, simulated)}
    write_whole(chosen.folder / "fidelity.json", json.dumps(result, indent=2) + "\n")
    print(table_of(result))
    return 0


def compared(runs: Sequence[Run], simulated: Sequence[Run]) -> dict[str, Any]:
    """Each repetition with its simulation, and the repetitions with each other, which is chance."""
    pairs, cells = list(combinations(runs, 2)), {}
    for name, mask in cells_of(runs[0]).items():
        real, ours = ([_mean(run, mask) for run in side] for side in (runs, simulated))
        cells[" ".join(name)] = {
            "jobs": int(mask.sum()),
            "real": real,
            "simulated": ours,
            "agrees": list(map(agrees, real, ours)),
            "real_agrees": [agrees(_mean(one, mask), _mean(other, mask)) for one, other in pairs],
        }
    agree, agree_real = (
        [each for cell in cells.values() for each in cell[name]]
        for name in ("agrees", "real_agrees")
    )
    within = [
        abs(real - ours) <= WITHIN * real
        for cell in cells.values()
        for real, ours in zip(cell["real"], cell["simulated"], strict=True)
    ]
    return {
        "cells": cells,
        "share_of_cells_that_agree": float(np.mean(agree)),
        "share_without_the_second": float(np.mean(within)),
        "share_of_real_cells_that_agree": float(np.mean(agree_real)) if pairs else None,
        "median_start_difference": [*map(_apart, runs, simulated)],
        "median_start_difference_of_real": [_apart(one, other) for one, other in pairs],
    }


def _mean(run: Run, mask: Any) -> float:
    return float(waits_of(run)[mask].mean())


def _apart(one: Run, other: Run) -> float:
    """Median difference of a job's start over the mean wait."""
    return float(np.median(np.abs(starts_of(one) - starts_of(other))) / waits_of(one).mean())


def table_of(result: Mapping[str, Any]) -> str:
    """A line for each cell, then the summary."""
    lines = [f"{'CLASS AND PARTITION':28}{'JOBS':>5}  REAL AND SIMULATED MEAN WAIT, S; * DIFFERS"]
    for name, cell in result["cells"].items():
        waits = waits_in_line(cell["real"], cell["simulated"], cell["agrees"], "  ")
        lines.append(f"{name:28}{cell['jobs']:5}  {waits}")
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
        lines.append(f"from a job's {words} to the next pass of a scheduler, s: {seconds}")
    return "\n".join(lines)


def waits_in_line(
    real: Sequence[float], ours: Sequence[float], near: Sequence[bool], space: str = " "
) -> str:
    """Real and simulated mean waits of each repetition."""
    every = zip(real, ours, near, strict=True)
    return space.join(
        f"{one:8.1f} {other:8.1f}{' ' if agree else '*'}" for one, other, agree in every
    )


if __name__ == "__main__":
    sys.exit(main())
