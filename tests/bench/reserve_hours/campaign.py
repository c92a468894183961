"""`make bench-reserve`: hours of load on real Slurms: alone, with our order, with a reserve.

Needs root and Slurm's daemons, see tests/real/install_daemons.sh; ten minutes for each pair of
hours. The simulator's prediction of the same hours stands beside what was measured.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.whole_file import write_whole
from tests.bench.reserve_hours.figure import draw_hours
from tests.bench.reserve_hours.goal_figures import each_hour, over_hours
from tests.bench.reserve_hours.load import HourPlan, lpc_like_hour
from tests.bench.reserve_hours.model import RESERVE_HEAD, hour_network
from tests.bench.reserve_hours.prediction import figures_of, predicted
from tests.bench.reserve_hours.replay import SPEED, ReplayedJob
from tests.bench.reserve_hours.runs import (
    LATENCY,
    LIMIT,
    MOST,
    ORDER,
    PLAIN,
    RESERVE,
    SIDES,
    Runs,
    run_hours,
)
from tests.bench.speed.deep_queue import tell

#: Hours that were shown, fixed before they were looked at.
SHOWN = tuple(range(501, 513))
#: Seconds of the hour; longest run time of a batch job.
_LONGEST = 3600.0

#: What was measured, the figure, and the goal with whether it is met.
Line = tuple[str, str, str, bool | None]
Figures = Mapping[str, Any]


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    parser.add_argument("--hours", type=int, nargs="+", default=SHOWN, help="their seeds")
    parser.add_argument("--at-once", type=int, default=2, help="hours, with 3 clusters each")
    return parser.parse_args(arguments)


def predictions(seeds: Sequence[int], plan: HourPlan, runs: Runs) -> Runs:
    """The same jobs at the same times in the simulator."""
    found: Runs = {}
    for seed in seeds:
        jobs = lpc_like_hour(seed, plan)
        for side in SIDES:
            sent = np.array([job.sent for job in runs[seed, side.name]])
            found[seed, side.name] = predicted(
                jobs,
                LATENCY,
                hour_network() if side.daemon else None,
                class_limit=LIMIT if side.name == RESERVE else None,
                sent=np.maximum.accumulate(sent),
            )
    return found


def joined(runs: Runs, seeds: Sequence[int]) -> dict[str, dict[str, float]]:
    """Figures of each side over all hours; utilization is their mean."""
    sides: dict[str, dict[str, float]] = {}
    for side in SIDES:
        each = [runs[seed, side.name] for seed in seeds]
        every: list[ReplayedJob] = [job for jobs in each for job in jobs]
        whole = asdict(figures_of(every))
        whole["utilization"] = float(np.mean([figures_of(jobs).utilization for jobs in each]))
        sides[side.name] = whole
    return sides


def goals(real: Mapping[str, Figures], simulated: Mapping[str, Figures]) -> Iterator[Line]:
    """What issue 10 asks for."""
    plain, order, reserve = (real[name] for name in (PLAIN, ORDER, RESERVE))
    soon = reserve["within_120s"]
    yield "interactive within 120 s, reserve", f"{soon:.3f}", ">= 0.95", soon >= 0.95
    ratio = reserve["interactive_wait"] / plain["interactive_wait"]
    yield "interactive wait, reserve / Slurm", f"{ratio:.3f}", "<= 0.2", ratio <= 0.2
    ratio = reserve["batch_wait"] / order["batch_wait"]
    yield "batch wait, reserve / order", f"{ratio:.3f}", "<= 1.15", ratio <= 1.15
    loss = 100.0 * (order["utilization"] - reserve["utilization"])
    yield "utilization lost, points", f"{loss:.2f}", "<= 2", loss <= 2.0
    wide, bound = reserve["wide_wait"], LIMIT.lift_after + _LONGEST
    yield "longest wait of a wide batch job", f"{wide:.0f} s", f"<= {bound:.0f} s", wide <= bound
    for side in SIDES:
        for what in ("interactive_wait", "batch_wait"):
            ratio = simulated[side.name][what] / real[side.name][what]
            words = f"{what.replace('_', ' ')}, {side.name}: predicted / real"
            yield words, f"{ratio:.2f}", "0.85 to 1.15", abs(ratio - 1.0) <= 0.15


def print_table(real: Mapping[str, Figures], simulated: Mapping[str, Figures]) -> None:
    """A row a side, real and predicted; then the goals."""
    print("RUN                  I-WAIT  I<=120S  B-WAIT  WIDEST-WAIT  UTILIZATION")
    for name in (side.name for side in SIDES):
        for kind, each in (("", real[name]), (" predicted", simulated[name])):
            print(
                f"{name + kind:20s} {each['interactive_wait']:6.1f} {each['within_120s']:8.3f} "
                f"{each['batch_wait']:7.1f} {each['wide_wait']:12.0f} {each['utilization']:12.3f}"
            )
    for what, figure, goal, met in goals(real, simulated):
        print(f"{what:48s} {figure:>8s}  goal {goal}: {'met' if met else 'MISSED'}")


def print_hours(runs: Runs, seeds: Sequence[int]) -> None:
    """Each hour alone, and the intervals over hours."""
    print("HOUR  I<=120S  I/SLURM  B/ORDER  UTIL.LOST")
    for seed, figures, met in each_hour(runs, seeds):
        cells = (
            f"{figure:.3f}{' ' if fine else '!'}" for figure, fine in zip(figures, met, strict=True)
        )
        print(f"{seed:4d}  " + "  ".join(f"{cell:>7s}" for cell in cells))
    for what, figure, ci95 in over_hours(runs, seeds):
        told = "{:.3f} to {:.3f}".format(*ci95) if ci95 else "none of so few hours"
        print(f"{what:48s} {figure:8.3f}  95 % CI over hours: {told}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write and draw."""
    chosen = options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the clusters go too
    plan, seeds = HourPlan(), list(chosen.hours)
    runs = run_hours(seeds, plan, chosen.output / "reserve-hours", at_once=chosen.at_once)
    simulated = predictions(seeds, plan, runs)
    both = {"real": joined(runs, seeds), "predicted": joined(simulated, seeds)}
    report = {
        "hours": seeds,
        "plan": asdict(plan),
        "speed": SPEED,
        "reserve": {"most": MOST, **asdict(RESERVE_HEAD)},
        "limit": asdict(LIMIT),
        "latency": asdict(LATENCY),
        **both,
        "each": {
            f"{seed} {name}": {
                "real": asdict(figures_of(runs[seed, name])),
                "predicted": asdict(figures_of(simulated[seed, name])),
            }
            for seed, name in runs
        },
        "intervals": [
            dict(zip(("what", "figure", "ci95"), line, strict=True))
            for line in over_hours(runs, seeds)
        ],
        "goals": [
            dict(zip(("what", "figure", "goal", "met"), line, strict=True))
            for line in goals(both["real"], both["predicted"])
        ],
    }
    write_whole(chosen.output / "reserve-hour.json", json.dumps(report, indent=2) + "\n")
    print_table(both["real"], both["predicted"])
    print_hours(runs, seeds)
    draw_hours(chosen.output / "reserve-hour.png", runs, simulated)
    tell(f"wrote reserve-hour.json and reserve-hour.png into {chosen.output}")


if __name__ == "__main__":
    main()
