"""Figures of `make bench` and how they are compared."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

#: Top of this checkout, whose measurements are always used.
TOP = Path(__file__).parents[4]
#: 0.1.0: the last commit before the first entry of Unreleased in the CHANGELOG.
LAST_RELEASE = "cc3fba4b"
_PRODUCT = ("slurm_rl_plugin", "policy_models")


def product_of(commit: str, folder: Path) -> Path:
    """Writes the package of a commit below a folder; returns its top.

    Raises:
        SystemExit: git knows no such commit, as in a copy without its history.
    """
    top = folder / commit.replace("/", "-")
    done = subprocess.run(
        ["git", "archive", commit, *_PRODUCT], cwd=TOP, capture_output=True, check=False
    )
    if done.returncode:
        sys.exit(f"git has no {commit} here: {done.stderr.decode().strip()}: give --before another")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(top, filter="data")
    return top


def environment(product: Path | None) -> dict[str, str]:
    """Variables that import the package of `product` and the measurements of this checkout."""
    path = [str(each) for each in (product, TOP) if each is not None]
    # the working folder must not be first
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}


def paired_ratio(over: Sequence[float], under: Sequence[float]) -> dict[str, object]:
    """Geometric mean of the ratios of pairs, with a 95 % percentile bootstrap over the pairs."""
    # an earlier release may lack it
    from slurm_rl_plugin.measure.intervals import (  # noqa: PLC0415
        ratio_over_windows,
    )

    found = ratio_over_windows(np.asarray(over), np.asarray(under), np.random.default_rng(1))
    ratio = found.geometric_mean
    return {"ratio": ratio, "ci95": list(found.ci95 or (ratio, ratio)), "pairs": len(over)}


LOGS = {
    "SDSC-SP2": "SDSC-SP2-1998-4.2-cln.swf.gz",
    "CTC-SP2": "CTC-SP2-1996-3.1-cln.swf.gz",
    "HPC2N": "HPC2N-2002-2.2-cln.swf.gz",
}


#: A figure is worse if it is worse by more than this factor and the noise.
WORSE = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A line of the table.

    Attributes:
        name: name in the measurement.
        unit: of the value.
        goal: 0 for none.
        rate: whether more is better.
        floor: name of the figure with the machine's best; "" for none.
    """

    name: str
    unit: str
    goal: float = 0.0
    rate: bool = False
    floor: str = ""

    def met(self, value: float) -> bool | None:
        """Whether the goal is reached; None without a goal."""
        if not self.goal:
            return None
        return value >= self.goal if self.rate else value <= self.goal


def compared(figure: Figure, now: Sequence[float], before: Sequence[float]) -> dict[str, Any]:
    """Ratio to the values before, from interleaved pairs; one value for each pair."""
    ratio = paired_ratio(now, before)
    low, high = sorted(np.asarray(ratio["ci95"], dtype=np.float64).tolist())
    worst = 1.0 / high if figure.rate else low
    return {**ratio, "worse": bool(worst > WORSE)}


def against_kept(figure: Figure, now: Sequence[float], kept: Sequence[float]) -> dict[str, Any]:
    """Ratio to an unpaired earlier run; worse if the best value is worse than the worst kept."""
    ratio = float(np.median(now) / np.median(kept))
    best, worst = (max(now), min(kept)) if figure.rate else (min(now), max(kept))
    beyond = worst / best if figure.rate else best / worst
    return {"ratio": ratio, "ci95": None, "pairs": 0, "worse": bool(beyond > WORSE)}
