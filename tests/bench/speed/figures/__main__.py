"""`make bench`: every figure with its goal, its floor and the last release's figure.

    python -m tests.bench.speed.figures --output bench-output
    python -m tests.bench.speed.figures --only decide,simulator --before main~20 --pairs 5

Each measurement runs in processes of its own, alternately of this checkout and of `--before`, so
that other load slows both. Figures are kept in speed.json. Exit code 1 if a figure is worse by more
than 10 % and the noise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.tables import print_table
from tests.bench.report import write_document
from tests.bench.speed.figures.measurements import (
    GOALS,
    MEASUREMENTS,
    ONCE,
    floor_of,
    unit_of,
)

Found = Mapping[str, Sequence[float]]
HEAD = ("FIGURE", "UNIT", "NOW", "GOAL", "", "FLOOR", "BEFORE", "NOW/BEFORE")
#: Top of this checkout, whose measurements are always used.
TOP = Path(__file__).parents[4]
#: 0.1.0: the last commit before the first entry of Unreleased in the CHANGELOG.
LAST_RELEASE = "cc3fba4b"
_PRODUCT = ("slurm_rl_plugin", "policy_models")
#: A figure is worse if it is worse by more than this factor and the noise.
WORSE = 1.1


def product_of(commit: str, folder: Path) -> Path:
    """Writes the package of a commit below a folder; returns its top."""
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


def compared(now: Sequence[float], before: Sequence[float], *, is_rate: bool) -> dict[str, Any]:
    """Ratio to the values before, from interleaved pairs; one value for each pair."""
    ratio = paired_ratio(now, before)
    low, high = sorted(np.asarray(ratio["ci95"], dtype=np.float64).tolist())
    worst = 1.0 / high if is_rate else low
    return {**ratio, "worse": bool(worst > WORSE)}


def asked(measurement: str, product: Path | None) -> dict[str, float]:
    """Runs a measurement; returns nothing, and says so, if an earlier package cannot run it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.speed.figures.measurements", measurement],
        env=environment(product), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode and product is None:
        sys.exit(f"{measurement}: {done.stderr}")
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no reason"])[-1]
        print(f"{measurement}: not measured in {product.name} ({why})", file=sys.stderr)
        return {}
    return dict(json.loads(done.stdout))


def measured(measurement: str, before: Path | None, pairs: int) -> tuple[Found, Found]:
    """Values of this checkout and of the earlier one, in interleaved pairs."""
    sides: tuple[dict[str, list[float]], ...] = ({}, {})
    with parts_bar(measurement, pairs) as progress:
        for pair in range(pairs):
            for side in (0, 1) if pair % 2 else (1, 0):
                if side and before is None:
                    continue
                found = asked(measurement, before if side else None)
                before = None if side and not found else before
                for name, value in found.items():
                    sides[side].setdefault(name, []).append(value)
            progress(1)
    return sides


def line_of(measurement: str, name: str, now: Found, before: Found) -> dict[str, Any]:
    """A figure for JSON."""
    unit, goal, values = unit_of(measurement, name), GOALS.get(name), now[name]
    median, floor, is_rate = float(np.median(values)), floor_of(name), unit.endswith("/s")
    line: dict[str, Any] = {
        "unit": unit, "rate": is_rate, "goal": goal, "values": list(values), "now": median,
        "met": None if goal is None else median >= goal if is_rate else median <= goal,
        "floor": float(np.median(now[floor])) if floor in now else None,
    }  # fmt: skip
    earlier = before.get(name, ())
    if len(earlier) == len(values):
        line["before"] = float(np.median(earlier))
        line["against_before"] = compared(values, earlier, is_rate=is_rate)
    return line


def row_of(name: str, line: Mapping[str, Any]) -> list[str]:
    """The figure as a row of the table."""
    verdict = {None: "", True: "met", False: "MISSED"}[line["met"]]
    return [
        name, line["unit"], shown(line["now"]), shown(line["goal"]), verdict,
        shown(line["floor"]), shown(line.get("before")), ratio_of(line.get("against_before")),
    ]  # fmt: skip


def ratio_of(compared: Mapping[str, Any] | None) -> str:
    """A ratio with its interval, if there is one."""
    if not compared:
        return ""
    bounds = "[{:.2f}, {:.2f}]".format(*compared["ci95"])
    return f"{compared['ratio']:.2f} {bounds}{' WORSE' if compared['worse'] else ''}"


def shown(value: float | None) -> str:
    """Three digits, or a whole number."""
    if value is None or np.isnan(value):
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def lines(chosen: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Name and line of each figure."""
    with tempfile.TemporaryDirectory() as folder:
        product = product_of(chosen.before, Path(folder)) if chosen.before else None
        for measurement in chosen.only.split(","):
            beside = (None, 1) if measurement in ONCE else (product, chosen.pairs)
            now, before = measured(measurement, *beside)
            floors = set(map(floor_of, now))
            for name in now:
                if name not in floors:
                    yield name, line_of(measurement, name, now, before)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    parser.add_argument("--only", default=",".join(MEASUREMENTS), help="some of %(default)s")
    parser.add_argument(
        "--before", metavar="COMMIT", default=LAST_RELEASE,
        help="package to measure too; '' for none (default: the last release)",
    )  # fmt: skip
    parser.add_argument("--pairs", type=int, default=5)
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.only.split(",")) - set(MEASUREMENTS)
    if unknown:
        parser.error(f"no measurement {', '.join(sorted(unknown))}: choose from {chosen.only}")
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints and keeps."""
    chosen = options(arguments)
    path = chosen.output / "speed.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    of_now = {}
    for name, line in lines(chosen):
        of_now[name] = {**line, "beside": chosen.before}
        write_document(path, found | of_now)  # an interrupted run keeps the rest
    print_table(list(HEAD), [row_of(*each) for each in of_now.items()])
    worse = [
        name for name, line in of_now.items() if line.get("against_before", {}).get("worse", False)
    ]
    if worse:
        print(f"worse than before: {'; '.join(worse)}", file=sys.stderr)
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())
