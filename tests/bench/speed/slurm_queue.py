"""`make bench-slurm`: writes, cycles and slurmctld's own scheduling on a deep queue of real Slurm.

Needs root and Slurm's daemons, see tests/real/install_daemons.sh. Ratios are taken in interleaved
pairs of one run; single absolute figures say little on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.speed.deep_queue import OrderedQueue, deep_queue, tell
from tests.bench.speed.live_queue import live_pairs
from tests.bench.speed.queue_writes import (
    FIRST_JOBS,
    first_ordering,
    first_thousand,
    looks,
    steady_cycles,
)

#: What a line of the table says: what was measured, the figure, and the goal with whether it is
#: met; "" and None where there is no goal.
Line = tuple[str, str, str, bool | None]
PARTS = ("first", "order", "steady", "look", "live")


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    parser.add_argument("--jobs", type=int, default=10_000, help="that wait")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of %(default)s")
    parser.add_argument("--orderings", type=int, default=5, help="pairs of whole orderings")
    parser.add_argument("--cycles", type=int, default=10, help="in the steady state")
    parser.add_argument("--pairs", type=int, default=20, help="of periods of the live queue")
    parser.add_argument("--period", type=float, default=15.0, help="seconds")
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.parts.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}: choose from {', '.join(PARTS)}")
    return chosen


def first_lines(found: Mapping[str, Any]) -> Iterator[Line]:
    """The head of a queue that is ordered for the first time."""
    seconds, standing = found["seconds"], found["standing"]
    name = f"until the first {FIRST_JOBS:,} stand"
    yield name, seconds_of(seconds), "mean <= 1.5 s", statistics.mean(seconds) <= 1.5
    yield "  that stand", f"{min(standing):,}", f">= {FIRST_JOBS:,}", min(standing) >= FIRST_JOBS


def order_lines(found: Mapping[str, Any]) -> Iterator[Line]:
    """A first ordering, beside `scontrol` alone."""
    for side in ("hook", "scontrol"):
        bursts = found[side]
        writes, seconds = (statistics.mean(b[key] for b in bursts) for key in ("writes", "seconds"))
        text = f"{writes:,.0f} writes in {seconds:.2f} s, {writes / seconds:,.0f}/s"
        yield f"whole ordering, {side}", text, "", None
    ratio = found["rate_ratio"]
    yield "rate, hook / scontrol", interval(ratio), ">= 0.9", ratio["ratio"] >= 0.9


def steady_lines(found: Mapping[str, Any]) -> Iterator[Line]:
    """Cycles of the steady state."""
    cycles = found["cycles"]
    writes, minimum, out = (
        [cycle[key] for cycle in cycles] for key in ("writes", "minimum", "out_of_order")
    )
    text = f"{sum(writes):,} writes, minimum {sum(minimum):,} ({sum(out):,} if room were endless)"
    yield f"{len(cycles)} steady cycles", text, "writes = minimum", writes == minimum
    for phase in cycles[0]["phase_seconds"]:
        yield f"  {phase}", seconds_of([c["phase_seconds"][phase] for c in cycles]), "", None
    seconds = [cycle["seconds"] for cycle in cycles]
    mean = statistics.mean(seconds)
    yield "  whole cycle", seconds_of(seconds), "mean <= .35 s", mean <= 0.35
    yield "  the longest", f"{max(seconds):.3f} s", "<= .6 s", max(seconds) <= 0.6
    yield "squeue and sprio alone", seconds_of(found["bare_seconds"]), "", None
    ratio = found["ratio_to_bare"]
    yield "whole cycle / the two", interval(ratio), "<= 1.3", ratio["ratio"] <= 1.3


def look_lines(found: Mapping[str, Any]) -> Iterator[Line]:
    """Reading alone."""
    for what, times in found.items():
        yield what, f"median {times['median']:.3f} s, longest {times['longest']:.3f} s", "", None


def live_lines(found: Mapping[str, Any]) -> Iterator[Line]:
    """Slurm's own cycles beside the hook's."""
    for scheduler, ratio in found["mean_cycle_ratio"].items():
        for side in ("with_hook", "without_hook"):
            means = [each["mean_cycle"].get(scheduler) for each in found[side]]
            known = [mean for mean in means if mean is not None]
            if known:
                yield f"{scheduler} cycle {side.replace('_', ' ')}", seconds_of(known), "", None
        if ratio is not None:
            name = f"{scheduler} cycle, with / without"
            yield name, interval(ratio), "upper end < 1.15", ratio["ci95"][1] < 1.15
    hook = [seconds for each in found["with_hook"] for seconds in each["hook_seconds"]]
    yield "hook's cycle on the live queue", seconds_of(hook), "", None
    longest = found["longest_call_seconds"]
    yield "longest call of ours", f"{longest:.2f} s", "<= 5 s", longest <= 5.0


def seconds_of(values: Sequence[float]) -> str:
    """Mean and range."""
    return f"mean {statistics.mean(values):.3f} s, {min(values):.3f} to {max(values):.3f}"


def interval(ratio: Mapping[str, Any]) -> str:
    """A ratio with its interval."""
    low, high = ratio["ci95"]
    return f"{ratio['ratio']:.3f} (95 %: {low:.3f} to {high:.3f}, {ratio['pairs']} pairs)"


LINES: dict[str, Callable[[Mapping[str, Any]], Iterator[Line]]] = {
    "first": first_lines,
    "order": order_lines,
    "steady": steady_lines,
    "look": look_lines,
    "live": live_lines,
}


def measure(
    queue: OrderedQueue, chosen: argparse.Namespace
) -> Iterator[tuple[str, dict[str, object]]]:
    """The chosen parts, one after the other: name and figures."""
    parts: dict[str, Callable[[], dict[str, object]]] = {
        "first": lambda: first_thousand(queue, chosen.orderings),
        "order": lambda: first_ordering(queue, chosen.orderings),
        "steady": lambda: steady_cycles(queue, chosen.cycles),
        "look": lambda: looks(queue, chosen.cycles),
        "live": lambda: live_pairs(queue, chosen.pairs, chosen.period),
    }
    for part in PARTS:
        if part in chosen.parts.split(","):
            before = os.getloadavg()[0]
            tell(f"part {part}, load average {before:.1f}")
            yield part, {**parts[part](), "load_average": [before, os.getloadavg()[0]]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    chosen = options(arguments)
    chosen.output.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the cluster goes too
    report: dict[str, Any] = {"jobs": chosen.jobs}
    with tempfile.TemporaryDirectory() as folder, deep_queue(chosen.jobs) as cluster:
        for part, found in measure(OrderedQueue.over(cluster, Path(folder)), chosen):
            report[part] = found
            # each at once: an interrupted run keeps what it has
            text = json.dumps(report, indent=2)
            chosen.output.joinpath("slurm-queue.json").write_text(text + "\n")
            print_table(part, report[part])


def print_table(part: str, found: Mapping[str, Any]) -> None:
    """One line for each figure."""
    loads = " to ".join(f"{load:.1f}" for load in found["load_average"])
    print(f"{part} (load average {loads})")
    figures = {name: value for name, value in found.items() if name != "load_average"}
    for what, figure, goal, met in LINES[part](figures):
        verdict = "" if met is None else f"  goal {goal}: {'met' if met else 'MISSED'}"
        print(f"  {what:32s} {figure}{verdict}", flush=True)


if __name__ == "__main__":
    main()
