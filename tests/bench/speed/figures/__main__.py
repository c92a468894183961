"""`make bench`: every figure with its goal, its floor and the last release's figure.

    python -m tests.bench.speed.figures --output bench-output
    python -m tests.bench.speed.figures --only decide,simulator --before main~20 --pairs 5

Each measurement runs in processes of its own, alternately of this checkout and of `--before`, so
that other load slows both. Figures are kept in speed.json, and the next run is compared with them.
Exit code 1 if a figure is worse by more than 10 % and the noise.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.tables import print_table
from slurm_rl_plugin.whole_file import write_whole
from tests.bench.speed.figures.figure import (
    LAST_RELEASE,
    Figure,
    against_kept,
    compared,
    environment,
    product_of,
)
from tests.bench.speed.figures.measurements import MEASUREMENTS, ONCE

Found = Mapping[str, Sequence[float]]
HEAD = ("FIGURE", "UNIT", "NOW", "GOAL", "", "FLOOR", "BEFORE", "NOW/BEFORE", "NOW/KEPT")


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


def line_of(figure: Figure, now: Found, before: Found, kept: Mapping[str, Any]) -> dict[str, Any]:
    """The figure for JSON."""
    values = now[figure.name]
    line: dict[str, Any] = {
        "unit": figure.unit, "rate": figure.rate, "goal": figure.goal or None,
        "values": list(values), "now": float(np.median(values)),
        "met": figure.met(float(np.median(values))),
        "floor": float(np.median(now[figure.floor])) if figure.floor in now else None,
    }  # fmt: skip
    earlier = before.get(figure.name, ())
    if len(earlier) == len(values):
        line["before"] = float(np.median(earlier))
        line["against_before"] = compared(figure, values, earlier)
    if figure.name in kept:
        line["against_kept"] = against_kept(figure, values, kept[figure.name]["values"])
    return line


def row_of(name: str, line: Mapping[str, Any]) -> list[str]:
    """The figure as a row of the table."""
    verdict = {None: "", True: "met", False: "MISSED"}[line["met"]]
    return [
        name, line["unit"], shown(line["now"]), shown(line["goal"]), verdict,
        shown(line["floor"]), shown(line.get("before")),
        *(ratio_of(line.get(f"against_{side}")) for side in ("before", "kept")),
    ]  # fmt: skip


def ratio_of(compared: Mapping[str, Any] | None) -> str:
    """A ratio with its interval, if it has one."""
    if not compared:
        return ""
    bounds = " [{:.2f}, {:.2f}]".format(*compared["ci95"]) if compared["ci95"] else ""
    return f"{compared['ratio']:.2f}{bounds}{' WORSE' if compared['worse'] else ''}"


def shown(value: float | None) -> str:
    """Three digits, or a whole number."""
    if value is None or np.isnan(value):
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def lines(chosen: argparse.Namespace, kept: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Name and line of each figure."""
    with tempfile.TemporaryDirectory() as folder:
        product = product_of(chosen.before, Path(folder)) if chosen.before else None
        for measurement in chosen.only.split(","):
            beside = (None, 1) if measurement in ONCE else (product, chosen.pairs)
            now, before = measured(measurement, *beside)
            for figure in MEASUREMENTS[measurement][1]:
                if figure.name in now:
                    yield figure.name, line_of(figure, now, before, kept)


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
    chosen.output.mkdir(parents=True, exist_ok=True)
    path = chosen.output / "speed.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    found = dict(kept)
    for name, line in lines(chosen, kept):
        found[name] = {**line, "beside": chosen.before}
        write_whole(path, json.dumps(found, indent=2) + "\n")  # an interrupted run keeps the rest
    of_now = [name for name in found if found[name] is not kept.get(name)]
    print_table(list(HEAD), [row_of(name, found[name]) for name in of_now])
    for side in ("before", "kept"):
        worse = [name for name in of_now if is_worse(found[name], side)]
        if worse:
            print(f"worse than {side}: {'; '.join(worse)}", file=sys.stderr)
    return int(any(is_worse(found[name], side) for name in of_now for side in ("before", "kept")))


def is_worse(line: Mapping[str, Any], side: str) -> bool:
    """Whether a figure is worse by more than the noise."""
    return bool(line.get(f"against_{side}", {}).get("worse"))


if __name__ == "__main__":
    sys.exit(main())
