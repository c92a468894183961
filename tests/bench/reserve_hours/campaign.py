"""`make bench-reserve`: hours of load on real Slurms: alone, with our order, with a reserve.

Needs root and Slurm's daemons, see tests/real/install_daemons.sh; ten minutes for each pair of
hours. The simulator's prediction of the same hours stands beside what was measured.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.measure.intervals import FEWEST_BLOCKS, Interval, drawn_places, interval_of
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.whole_file import replacing, write_whole
from tests.bench.live.compressed_time import tell
from tests.bench.reserve_hours.load import HourPlan, lpc_like_hour
from tests.bench.reserve_hours.runs import (
    LATENCY,
    LIMIT,
    MOST,
    ORDER,
    PLAIN,
    RESERVE,
    RESERVE_HEAD,
    SIDES,
    SOON,
    SPEED,
    ReplayedJob,
    Runs,
    figures_of,
    hour_network,
    predicted,
    run_hours,
)

#: The four figures of the goals, as `measures` gives them.
FIGURES = (
    "interactive within 120 s, reserve",
    "interactive wait, reserve / Slurm",
    "batch wait, reserve / order",
    "utilization lost",
)


@dataclass(frozen=True, slots=True)
class Sums:
    """Of each hour, shape [hours]: jobs and waits of both classes, soon started, utilization."""

    interactive: FloatArray
    waited: FloatArray
    soon: FloatArray
    batch: FloatArray
    batch_waited: FloatArray
    utilization: FloatArray


def sums_of(hours: Sequence[Sequence[ReplayedJob]]) -> Sums:
    """What is added up over hours."""
    rows = []
    for jobs in hours:
        found = figures_of(jobs)
        quick = sum(job.interactive for job in jobs)
        slow = sum(not job.interactive and job.submit > 0.0 for job in jobs)
        rows.append(
            (
                *(quick, quick * found.interactive_wait, quick * found.within_120s),
                *(slow, slow * found.batch_wait, found.utilization),
            )
        )
    return Sums(*np.array(rows, dtype=np.float64).T)


def measures(plain: Sums, order: Sums, kept: Sums, hours: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """The figures of the four goals, shape [4, groups], of hours [groups, n]."""

    def total(each: FloatArray) -> FloatArray:
        return np.asarray(each[hours].sum(axis=1))

    batch = (total(kept.batch_waited) / total(kept.batch)) / (
        total(order.batch_waited) / total(order.batch)
    )
    return np.array(
        [
            total(kept.soon) / total(kept.interactive),
            (total(kept.waited) / total(kept.interactive))
            / (total(plain.waited) / total(plain.interactive)),
            batch,
            (total(order.utilization) - total(kept.utilization)) / hours.shape[1],
        ]
    )


def meets(figures: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Whether each goal is met, shape [4, groups]."""
    return np.array([figures[0] >= 0.95, figures[1] <= 0.2, figures[2] <= 1.15, figures[3] <= 0.02])


def _sides(runs: Runs, seeds: Sequence[int]) -> list[Sums]:
    return [sums_of([runs[seed, name] for seed in seeds]) for name in (PLAIN, ORDER, RESERVE)]


def over_hours(runs: Runs, seeds: Sequence[int]) -> Iterator[tuple[str, float, Interval]]:
    """Each figure of the goals over all hours, and its 95 % interval over hours drawn anew.

    None for an interval where the hours are fewer than FEWEST_BLOCKS.

    Args:
        runs: all three of each hour.
        seeds: of the hours.
    """
    sides = _sides(runs, seeds)
    whole = measures(*sides, np.arange(len(seeds))[None, :])[:, 0]
    drawn = measures(*sides, drawn_places(len(seeds), np.random.default_rng(0)))
    for figure, value, draws in zip(FIGURES, whole.tolist(), drawn, strict=True):
        yield figure, value, interval_of(draws) if len(seeds) >= FEWEST_BLOCKS else None


def each_hour(runs: Runs, seeds: Sequence[int]) -> Iterator[tuple[int, list[float], list[bool]]]:
    """Seed, the four figures of this hour alone, and whether each meets its goal."""
    figures = measures(*_sides(runs, seeds), np.arange(len(seeds))[:, None])
    met = meets(figures)
    for place, seed in enumerate(seeds):
        yield seed, figures[:, place].tolist(), met[:, place].tolist()


mpl.use("Agg")

_WORDS = {PLAIN: "Slurm alone", ORDER: "our order", RESERVE: "our order and a reserve"}
_COLOURS = {PLAIN: "#767676", ORDER: "#0072B2", RESERVE: "#D55E00"}
#: Waits below this are drawn here, so that an immediate start shows on a logarithmic axis.
_LEAST = 4.0


def draw_hours(path: Path, real: Runs, simulated: Runs) -> None:
    """One panel a class: which part of its jobs has started after so many seconds."""
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.8), sharey=True, layout="constrained")
    for axis, interactive in zip(axes, (True, False), strict=True):
        for side in (PLAIN, ORDER, RESERVE):
            for runs, style in ((real, {"lw": 2.0}), (simulated, {"lw": 0.9, "ls": "--"})):
                waits = _waits(
                    [job for key in runs if key[1] == side for job in runs[key]], interactive
                )
                part = np.arange(1, len(waits) + 1) / len(waits)
                label = _WORDS[side] if runs is real else None
                axis.step(
                    np.maximum(waits, _LEAST),
                    part,
                    color=_COLOURS[side],
                    where="post",
                    label=label,
                    **style,
                )
        axis.set_xscale("log")
        axis.set_xlabel("wait, seconds of the hour")
        axis.set_title("interactive jobs" if interactive else "batch jobs")
        axis.grid(alpha=0.3)
    axes[0].axvline(SOON, color="black", lw=0.8, ls=":")
    axes[0].annotate("120 s", (SOON, 0.02), xytext=(4, 0), textcoords="offset points")
    axes[0].set_ylabel("part of the jobs that has started")
    axes[1].plot([], [], color="black", lw=0.9, ls="--", label="predicted by the simulator")
    axes[0].set_ylim(0.0, 1.02)
    axes[1].legend(loc="lower right", fontsize="small")
    with replacing(path) as file:
        figure.savefig(file, dpi=150, format="png")
    plt.close(figure)


def _waits(jobs: Sequence[ReplayedJob], interactive: bool) -> FloatArray:
    counted = [job for job in jobs if job.interactive == interactive and job.submit > 0.0]
    return np.sort(np.array([job.wait for job in counted]))


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
