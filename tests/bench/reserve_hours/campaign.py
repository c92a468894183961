"""`make bench-reserve`: hours of load on real Slurms: alone, with our order, with a reserve.

Needs root and Slurm's daemons, see tests/real/install_daemons.sh; ten minutes for each pair of
hours. The simulator predicts the same hours.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.measure.intervals import FEWEST_BLOCKS, Interval, drawn_places, interval_of
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.whole_file import replacing, write_whole
from tests.bench.live.harness import say
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
    predicted,
    run_hours,
)

mpl.use("Agg")

#: Hours of the published figures, fixed before they were run.
SHOWN = tuple(range(501, 513))
#: Longest run time of a batch job, seconds.
_LONGEST = 3600.0
#: The four goals: figure, its bound, and +1 if it must be at least the bound, else -1.
GOALS = (
    ("interactive within 120 s, reserve", 0.95, 1),
    ("interactive wait, reserve / Slurm", 0.2, -1),
    ("batch wait, reserve / order", 1.15, -1),
    ("utilization lost", 0.02, -1),
)
#: Name, figure, goal, and whether it is met.
Line = tuple[str, str, str, bool]
Figures = Mapping[str, Any]
_WORDS = {PLAIN: "Slurm alone", ORDER: "our order", RESERVE: "our order and a reserve"}
_COLOURS = {PLAIN: "#767676", ORDER: "#0072B2", RESERVE: "#D55E00"}
#: Shorter waits are drawn here, so that an immediate start shows on a logarithmic axis.
_LEAST = 4.0


def sums_of(hours: Sequence[Sequence[ReplayedJob]]) -> dict[str, FloatArray]:
    """Jobs, sums of waits and utilization of each hour, shape [hours] each."""
    rows = []
    for jobs in hours:
        found = figures_of(jobs)
        quick = sum(job.interactive for job in jobs)
        slow = sum(not job.interactive and job.submit > 0.0 for job in jobs)
        rows.append((
            quick, quick * found.interactive_wait, quick * found.within_120s,
            slow, slow * found.batch_wait, found.utilization,
        ))  # fmt: skip
    names = ("interactive", "waited", "soon", "batch", "batch_waited", "utilization")
    return dict(zip(names, np.array(rows, dtype=np.float64).T, strict=True))


def measures(runs: Runs, seeds: Sequence[int], hours: Any) -> FloatArray:
    """The figures of the four goals over groups of hours, shape [4, groups].

    Args:
        runs: all three of each hour.
        seeds: of the hours.
        hours: places of the hours in each group, shape [groups, n].
    """
    plain, order, kept = (
        {
            name: each[hours].sum(axis=1)
            for name, each in sums_of([runs[seed, side] for seed in seeds]).items()
        }
        for side in SIDES
    )
    return np.array([
        kept["soon"] / kept["interactive"],
        (kept["waited"] / kept["interactive"]) / (plain["waited"] / plain["interactive"]),
        (kept["batch_waited"] / kept["batch"]) / (order["batch_waited"] / order["batch"]),
        (order["utilization"] - kept["utilization"]) / hours.shape[1],
    ])  # fmt: skip


def over_hours(runs: Runs, seeds: Sequence[int]) -> Iterator[tuple[str, float, Interval]]:
    """Each goal's figure over all hours, and its 95 % interval over resampled hours.

    The interval is None for fewer than FEWEST_BLOCKS hours.
    """
    whole = measures(runs, seeds, np.arange(len(seeds))[None, :])[:, 0]
    drawn = measures(runs, seeds, drawn_places(len(seeds), np.random.default_rng(0)))
    for (name, _, _), value, draws in zip(GOALS, whole.tolist(), drawn, strict=True):
        yield name, value, interval_of(draws) if len(seeds) >= FEWEST_BLOCKS else None


def draw_hours(path: Path, real: Runs, simulated: Runs) -> None:
    """Draws one panel for each class: the part of its jobs that has started after some seconds."""
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.8), sharey=True, layout="constrained")
    for axis, interactive in zip(axes, (True, False), strict=True):
        for side in SIDES:
            for runs, style in ((real, {"lw": 2.0}), (simulated, {"lw": 0.9, "ls": "--"})):
                jobs = [job for key in runs if key[1] == side for job in runs[key]]
                waits = np.sort([
                    job.wait for job in jobs if job.interactive == interactive and job.submit > 0.0
                ])  # fmt: skip
                axis.step(
                    np.maximum(waits, _LEAST),
                    np.arange(1, len(waits) + 1) / len(waits),
                    color=_COLOURS[side],
                    where="post",
                    label=_WORDS[side] if runs is real else None,
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


def joined(runs: Runs, seeds: Sequence[int]) -> dict[str, dict[str, float]]:
    """Figures of each side over all hours; utilization is their mean."""
    sides: dict[str, dict[str, float]] = {}
    for side in SIDES:
        each = [runs[seed, side] for seed in seeds]
        sides[side] = asdict(figures_of([job for jobs in each for job in jobs]))
        sides[side]["utilization"] = float(np.mean([figures_of(jobs).utilization for jobs in each]))
    return sides


def goals(real: Mapping[str, Figures], simulated: Mapping[str, Figures]) -> Iterator[Line]:
    """The goals of the reserve and of the simulator's predictions."""
    plain, order, reserve = (real[name] for name in SIDES)
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
            ratio = simulated[side][what] / real[side][what]
            words = f"{what.replace('_', ' ')}, {side}: predicted / real"
            yield words, f"{ratio:.2f}", "0.85 to 1.15", abs(ratio - 1.0) <= 0.15


def print_tables(
    runs: Runs, seeds: Sequence[int], real: Mapping[str, Figures], simulated: Mapping[str, Figures]
) -> None:
    """Prints each side, the goals, each hour, and the intervals over hours."""
    print("RUN                  I-WAIT  I<=120S  B-WAIT  WIDEST-WAIT  UTILIZATION")
    for name in SIDES:
        for kind, each in (("", real[name]), (" predicted", simulated[name])):
            print(
                f"{name + kind:20s} {each['interactive_wait']:6.1f} {each['within_120s']:8.3f} "
                f"{each['batch_wait']:7.1f} {each['wide_wait']:12.0f} {each['utilization']:12.3f}"
            )
    for what, figure, goal, met in goals(real, simulated):
        print(f"{what:48s} {figure:>8s}  goal {goal}: {'met' if met else 'MISSED'}")
    print("HOUR  I<=120S  I/SLURM  B/ORDER  UTIL.LOST")
    figures = measures(runs, seeds, np.arange(len(seeds))[:, None]).T.tolist()
    for seed, row in zip(seeds, figures, strict=True):
        cells = [
            f"{value:.3f}{' ' if sign * (value - bound) >= 0.0 else '!'}"
            for value, (_, bound, sign) in zip(row, GOALS, strict=True)
        ]
        print(f"{seed:4d}  " + "  ".join(f"{cell:>7s}" for cell in cells))
    for what, value, ci95 in over_hours(runs, seeds):
        bounds = "{:.3f} to {:.3f}".format(*ci95) if ci95 else "none: too few hours"
        print(f"{what:48s} {value:8.3f}  95 % CI over hours: {bounds}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints, writes and draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    parser.add_argument("--hours", type=int, nargs="+", default=SHOWN, help="their seeds")
    parser.add_argument("--at-once", type=int, default=2, help="hours, with 3 clusters each")
    chosen = parser.parse_args(arguments)
    plan, seeds = HourPlan(), list(chosen.hours)
    runs = run_hours(seeds, plan, chosen.output / "reserve-hours", at_once=chosen.at_once)
    simulated: Runs = {}
    for seed, side in runs:
        sent = np.maximum.accumulate([job.sent for job in runs[seed, side]])
        simulated[seed, side] = predicted(lpc_like_hour(seed, plan), side, sent)
    both = {"real": joined(runs, seeds), "predicted": joined(simulated, seeds)}
    report = {
        "hours": seeds,
        "plan": asdict(plan),
        "speed": SPEED,
        "reserve": {"most": MOST, **RESERVE_HEAD},
        "limit": asdict(LIMIT),
        "latency": asdict(LATENCY),
        **both,
        "each": {
            f"{seed} {side}": {
                name: asdict(figures_of(each[seed, side]))
                for name, each in (("real", runs), ("predicted", simulated))
            }
            for seed, side in runs
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
    print_tables(runs, seeds, both["real"], both["predicted"])
    draw_hours(chosen.output / "reserve-hour.png", runs, simulated)
    say(f"wrote reserve-hour.json and reserve-hour.png into {chosen.output}")


if __name__ == "__main__":
    main()
