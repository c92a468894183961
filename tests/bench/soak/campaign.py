"""`make soak`: a busy day of a real log, again and again, on a real Slurm in accelerated time.

Needs root, Slurm's daemons and Prometheus (tests/real/install_daemons.sh), and the log LPC-EGEE of
the Parallel Workloads Archive in the folder $SLURM_RL_TRACES; about 75 minutes at the usual speed.
Slurm, the daemon and Prometheus run on across the rounds. Growth is judged between rounds that
carry the same load at the same times; what it starts with is the first round's. Writes soak.json,
samples.json and soak.png to --output. Exit code 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.hook.memory.carried_factors import REMEMBERED_AFTER_END
from slurm_rl_plugin.units import DAY, FloatArray
from slurm_rl_plugin.whole_file import write_whole
from tests.bench.soak.figure import draw_soak
from tests.bench.soak.load import busiest_day, day_after_day
from tests.bench.soak.rounds import LEAST_ROUNDS, growth_between
from tests.bench.soak.run import CYCLE, Soak, soak

LOG = "LPC-EGEE-2004-1.2-cln.swf.gz"
#: Jobs that the run must have.
LEAST = 5000
#: A cycle is missed for each so many seconds without a good one.
ALLOWED = 2.0 * CYCLE
#: Jobs that have ended are remembered for so many seconds: until then memory has to grow.
WARM_UP = REMEMBERED_AFTER_END
#: Series whose growth is judged -> value of a phase; files between calls of Slurm are the fewest.
JUDGED: dict[str, Callable[[FloatArray], float]] = {
    "memory": lambda values: float(values.mean()),
    "files": lambda values: float(values.min()),
}
#: What a resource may grow in an hour, part of its mean.
FLAT = 0.05
Samples = dict[str, list[tuple[float, float]]]
#: What was measured, the figure, and the goal with whether it is met.
Line = tuple[str, str, str, bool]


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """How to run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    traces = os.environ.get("SLURM_RL_TRACES", ".")
    parser.add_argument("--log", type=Path, default=Path(traces) / LOG)
    parser.add_argument("--speed", type=float, default=144.0, help="seconds of the log in one")
    parser.add_argument("--jobs", type=int, default=1800, help="that the day must have")
    parser.add_argument("--rounds", type=int, default=7, help="how often the day is repeated")
    parser.add_argument(
        "--warm-up", type=float, default=WARM_UP, metavar="SECONDS", help="that are not judged"
    )
    parser.add_argument("--model", default="default")
    parser.add_argument("--output", type=Path, default=Path("soak-output"))
    parser.add_argument("--kept", action="store_true", help="figures anew, of the kept samples")
    chosen = parser.parse_args(arguments)
    length = DAY / chosen.speed
    judged = judged_rounds(0.0, chosen.rounds, length, chosen.warm_up)
    if len(judged) < LEAST_ROUNDS and not chosen.kept:
        least = LEAST_ROUNDS + math.ceil(chosen.warm_up / length)
        parser.error(f"at this speed growth can be judged with --rounds {least} or more")
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it, print figures and goals, draw; 1 where one is missed."""
    chosen = options(arguments)
    output: Path = chosen.output
    if chosen.kept:
        result = json.loads((output / "soak.json").read_text())
        samples = json.loads((output / "samples.json").read_text())
    else:
        result, samples = _run(chosen)
        write_whole(output / "soak.json", json.dumps(result, indent=1) + "\n")
        write_whole(output / "samples.json", json.dumps(samples) + "\n")
    length = DAY / result["speed"]
    begins = judged_rounds(result["began"], result["rounds"], length, chosen.warm_up)
    if len(begins) < LEAST_ROUNDS:
        print(f"{result['rounds']} whole rounds: too few to judge growth; samples are kept")
        return 1
    result |= growth(samples, begins, length) | {"warm_up": chosen.warm_up}
    write_whole(output / "soak.json", json.dumps(result, indent=1) + "\n")
    draw_soak(output / "soak.png", samples, result["began"], result["rounds"], length)
    lines = list(goals(result))
    for what, figure, goal, met in lines:
        print(f"{what:30s} {figure:>50s}  goal {goal}: {'met' if met else 'MISSED'}")
    return 0 if all(line[3] for line in lines) else 1


def _run(chosen: argparse.Namespace) -> tuple[dict[str, Any], Samples]:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    length = DAY / chosen.speed
    day = busiest_day(chosen.log, chosen.speed, chosen.jobs)
    folder = chosen.output.resolve() / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    found = soak(day_after_day(day, chosen.rounds, length), chosen.model, folder, port)
    whole = found.submitted == chosen.rounds * len(day)  # the last day's jobs may end early
    rounds = chosen.rounds if whole else min(chosen.rounds, int(found.seconds / length))
    result = figures_of(found) | {"rounds": rounds}
    source = {"log": chosen.log.name, "sha256": hashlib.sha256(chosen.log.read_bytes()).hexdigest()}
    result |= {"source": source, "speed": chosen.speed, "cycle": CYCLE, "model": chosen.model}
    return result, found.samples


def figures_of(found: Soak) -> dict[str, Any]:
    """Counts and missed cycles."""
    last = {name: found.samples[name][-1][1] for name in ("cycles", "writes", "failures")}
    return {
        "began": found.began,
        "jobs": found.submitted,
        "states": found.states,
        "latest_submission": found.latest,
        "seconds": found.seconds,
        "cycles": last["cycles"],
        "writes": last["writes"],
        "failed_cycles": last["failures"],
        "missed": missed_cycles(found.samples["last_success"]),
        "longest_queue": max(value for _, value in found.samples["pending"]),
        "exit_code": found.exit_code,
    }


def judged_rounds(
    began: float, rounds: int, length: float, warm_up: float = WARM_UP
) -> list[float]:
    """Begins of the whole rounds that follow the warm-up."""
    begins = [began + number * length for number in range(rounds)]
    return [begin for begin in begins if begin >= began + warm_up]


def growth(samples: Samples, begins: Sequence[float], length: float) -> dict[str, Any]:
    """Of memory and open files between the judged rounds; see `growth_between`."""
    return {
        name: asdict(growth_between(samples[name], begins, length, of_phase))
        for name, of_phase in JUDGED.items()
    }


def missed_cycles(last_success: Sequence[tuple[float, float]]) -> int:
    """Cycles that did not come in time: one for each ALLOWED seconds without a good one."""
    ends = sorted({value for _, value in last_success if value})
    gaps = np.diff([*ends, last_success[-1][0]])
    return int(np.floor(gaps / ALLOWED).sum())


def goals(result: dict[str, Any]) -> Iterator[Line]:
    """Each goal of a soak; growth is flat where even the upper end of its interval is small."""
    jobs, done = result["jobs"], result["states"].get("COMPLETED", 0)
    yield "jobs", f"{jobs:,}", f">= {LEAST:,}", jobs >= LEAST
    yield "completed", f"{done:,}", "all", done == jobs
    part = result["missed"] / max(result["cycles"], 1)
    yield "missed cycles", f"{result['missed']} of {result['cycles']:.0f}", "<= 1 %", part <= 0.01
    for name, scale, unit in (("memory", 1e6, "MB"), ("files", 1.0, "files")):
        each = result[name]
        low, high, mean = each["lowest"] / scale, each["highest"] / scale, each["mean"] / scale
        words = f"{each['an_hour'] / scale:+.2f} [{low:+.2f}, {high:+.2f}] {unit}/h"
        words = f"mean {mean:.1f}, {words}"
        yield f"growth of {name}", words, f"<= {FLAT:.0%} of it an hour", high <= FLAT * mean
    yield "exit code of the daemon", str(result["exit_code"]), "0", result["exit_code"] == 0


if __name__ == "__main__":
    sys.exit(main())
