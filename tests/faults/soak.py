"""`make soak`: the busiest day of a real log on a real Slurm in accelerated time.

Needs root, Slurm's daemons and Prometheus (tests/real/install_daemons.sh), and the log LPC-EGEE of
the Parallel Workloads Archive in the folder $SLURM_RL_TRACES; about 20 minutes at the usual speed.
Writes soak.json and soak.png to --output. Exit code 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.log_file import read_log_file
from slurm_rl_plugin.whole_file import write_whole
from tests.faults.soak_figure import draw_soak
from tests.faults.soak_load import busiest_day
from tests.faults.soak_run import CYCLE, SERIES, Soak, soak
from tests.faults.soak_slopes import slope_of

LOG = "LPC-EGEE-2004-1.2-cln.swf.gz"
#: Jobs that the day must have.
LEAST = 5000
#: A cycle is missed for each so many seconds without a good one.
ALLOWED = 2.0 * CYCLE
#: Part of the run at its begin in which caches fill.
WARM_UP = 0.1
#: What was measured, the figure, and the goal with whether it is met.
Line = tuple[str, str, str, bool]


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """How to run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    traces = os.environ.get("SLURM_RL_TRACES", ".")
    parser.add_argument("--log", type=Path, default=Path(traces) / LOG)
    parser.add_argument("--speed", type=float, default=96.0, help="seconds of the log in one")
    parser.add_argument("--jobs", type=int, default=LEAST, help="that the day must have")
    parser.add_argument("--model", default="default")
    parser.add_argument("--output", type=Path, default=Path("soak-output"))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it, print figures and goals, draw; 1 where one is missed."""
    chosen = options(arguments)
    jobs = busiest_day(chosen.log, chosen.speed, chosen.jobs)
    folder = chosen.output.resolve() / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    found = soak(jobs, chosen.model, folder, port)
    result = figures_of(found)
    source = {"log": chosen.log.name, "sha256": read_log_file(chosen.log).checksum}
    result |= {"source": source, "speed": chosen.speed, "cycle": CYCLE, "model": chosen.model}
    write_whole(chosen.output / "soak.json", json.dumps(result, indent=1) + "\n")
    write_whole(chosen.output / "samples.json", json.dumps(found.samples) + "\n")
    draw_soak(chosen.output / "soak.png", found.samples)
    lines = list(goals(result))
    for what, figure, goal, met in lines:
        print(f"{what:46s} {figure:>34s}  goal {goal}: {'met' if met else 'MISSED'}")
    return 0 if all(line[3] for line in lines) else 1


def figures_of(found: Soak) -> dict[str, Any]:
    """Counts, missed cycles, slopes."""
    at, _ = np.array(found.samples["memory"]).T
    begin = at[0] + WARM_UP * (at[-1] - at[0])
    kept = at[at >= begin]
    values = {name: np.interp(kept, *np.array(found.samples[name]).T) for name in SERIES}
    return {
        "jobs": found.submitted,
        "states": found.states,
        "latest_submission": found.latest,
        "seconds": found.seconds,
        "cycles": values["cycles"][-1],
        "writes": values["writes"][-1],
        "failed_cycles": values["failures"][-1],
        "missed": missed_cycles(found.samples["last_success"]),
        "longest_queue": values["pending"].max(),
        "exit_code": found.exit_code,
        **{
            name: asdict(slope_of(kept - kept[0], values[name], values["pending"]))
            for name in ("memory", "files")
        },
    }


def missed_cycles(last_success: Sequence[tuple[float, float]]) -> int:
    """Cycles that did not come in time: one for each ALLOWED seconds without a good one."""
    ends = sorted({value for _, value in last_success if value})
    gaps = np.diff([*ends, last_success[-1][0]])
    return int(np.floor(gaps / ALLOWED).sum())


def goals(result: dict[str, Any]) -> Iterator[Line]:
    """What issue 11 asks for."""
    jobs, done = result["jobs"], result["states"].get("COMPLETED", 0)
    yield "jobs", f"{jobs:,}", f">= {LEAST:,}", jobs >= LEAST
    yield "completed", f"{done:,}", "all", done == jobs
    part = result["missed"] / max(result["cycles"], 1)
    yield "missed cycles", f"{result['missed']} of {result['cycles']:.0f}", "<= 1 %", part <= 0.01
    for name, scale, unit, most in (("memory", 1e6, "MB", 0.05), ("files", 1.0, "files", 0.05)):
        each = result[name]
        low, high, mean = each["lowest"] / scale, each["highest"] / scale, each["mean"] / scale
        words = f"{each['an_hour'] / scale:+.2f} [{low:+.2f}, {high:+.2f}] {unit}/h"
        words = f"mean {mean:.1f}, {words}"
        yield f"growth of {name}", words, f"<= {most:.0%} of it an hour", low <= most * mean
    yield "exit code of the daemon", str(result["exit_code"]), "0", result["exit_code"] == 0


if __name__ == "__main__":
    sys.exit(main())
