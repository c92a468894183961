"""The measurements, each in a process of its own, so that another release can be measured too.

    python -m tests.bench.speed.figures.measurements decide

prints one JSON object: name of a figure -> value.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

PROGRAM = (sys.executable, "-m", "slurm_rl_plugin.cli.entry")
Values = Mapping[str, float]
MS, RATE, S, MB = "ms", "jobs/s", "s", "MB"
LOGS = {
    "SDSC-SP2": "SDSC-SP2-1998-4.2-cln.swf.gz",
    "CTC-SP2": "CTC-SP2-1996-3.1-cln.swf.gz",
    "HPC2N": "HPC2N-2002-2.2-cln.swf.gz",
}
#: Measured once and for no other commit: each takes minutes.
ONCE = frozenset({"conversion"})
#: Arguments of `evaluate` on a machine where nothing is compiled.
FIRST_LOG = "egee:jobs=10000,seed=1"
FIRST_POLICIES = tuple(f"--policy={name}" for name in ("fifo", "sjf", "saf", "default"))


def seconds_of(
    work: Callable[[], object],
    repeats: int = 1,
    clock: Callable[[], float] = time.process_time,
    of: Callable[[list[float]], float] = min,
) -> float:
    """Seconds of some work; of the processor, so that other load of the machine does not count."""
    times = []
    for _ in range(repeats):
        begin = clock()
        work()
        times.append(clock() - begin)
    return float(of(times))


def _said(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Any:
    """Output of a command with --json."""
    done = subprocess.run(
        [*PROGRAM, *arguments, "--json"],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def decide() -> Values:
    """`slurm-rl benchmark hook` for 10,000 and 100,000 pending jobs."""
    found = {}
    for jobs, name in ((10_000, "10,000"), (100_000, "100,000")):
        words = ["benchmark", "hook", "--jobs", str(jobs), "--repeats", "100"]
        told = _said(words, {"OPENBLAS_NUM_THREADS": "1"})  # as in the daemon's unit
        seconds, floor = told["decide_seconds"], told.get("floor_seconds", {})
        found[f"decide, {name} pending, median"] = 1e3 * seconds["median"]
        found[f"decide, {name} pending, p99"] = 1e3 * seconds["p99"]
        found[f"floor, {name} pending"] = 1e3 * sum(floor.values()) if floor else math.nan
        if "first_decide_seconds" in told:  # missing in earlier releases
            found[f"first decision, {name} pending"] = 1e3 * told["first_decide_seconds"]
    return found


def cycle() -> Values:
    """Whole cycles over 100,000 pending jobs in memory (`tests.bench.speed.large_queue`)."""
    from tests.bench.speed.large_queue import cycles_of  # noqa: PLC0415

    told = cycles_of(jobs=100_000, cycles=12)
    return {
        "cycle, 100,000 pending, median": told["seconds"]["whole cycle"]["median"],
        "cycle, 100,000 pending, longest": told["seconds"]["whole cycle"]["longest"],
        "cycle, 100,000 pending, memory": told["peak_bytes"] / 1e6,
    }


def simulated(name: str, prefix: str = "") -> Callable[[], Values]:
    """A function of `tests.bench.speed.simulations`, which loads numba."""

    def measure() -> Values:
        module = import_module("tests.bench.speed.simulations")
        return {f"{prefix}{what}": value for what, value in getattr(module, name)().items()}

    return measure


def metrics() -> Values:
    """The metrics of a large site (`tests.bench.speed.metrics_answer`)."""
    from tests.bench.speed.metrics_answer import metrics_figures  # noqa: PLC0415

    return metrics_figures()


def first_word() -> Values:
    """Seconds of `evaluate` and `demo` for a new user, with nothing compiled."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        mine = {
            "NUMBA_CACHE_DIR": str(Path(folder) / "mine"),
            "SLURM_RL_COMPILED": "",
        }  # of earlier releases
        for name in ("first", "second"):
            words = ["evaluate", FIRST_LOG, *FIRST_POLICIES]
            found[f"evaluate of 10,000 jobs, {name}"] = _seconds_of(words, mine)
        mine["NUMBA_CACHE_DIR"] += " for the demo"
        words = ["demo", "--output", str(Path(folder) / "demo")]
        found["demo, first"] = _seconds_of(words, mine)
    return found


def _seconds_of(words: Sequence[str], environment: Mapping[str, str]) -> float:
    """Seconds of a command."""
    whole = {**os.environ, **environment}
    return seconds_of(
        lambda: subprocess.run([*PROGRAM, *words], env=whole, capture_output=True, check=True),
        clock=time.perf_counter,
    )


def conversion() -> Values:
    """Conversion of a dump of ten million rows (`tests.bench.speed.log_conversion`)."""
    from tests.bench.speed.log_conversion import conversion_figures  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        return conversion_figures(Path(folder))


def training() -> Values:
    """Simulated jobs per second in two generations of the policy search."""
    traces = os.environ.get("SLURM_RL_TRACES")
    if not traces:
        return {}
    names = [str(Path(traces, file)) for file in LOGS.values()]
    options = ["--algorithm=policy-search", "--preset=slowdown", "--steps=2", "--seed=1"]
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        told = _said(["train", *names, "-o", str(Path(folder, "model.onnx")), *options])
        seconds = time.perf_counter() - begin
    return {"training": told["simulated_jobs"] / seconds}


#: Measurement -> its function and the unit of its figures.
MEASUREMENTS: Mapping[str, tuple[Callable[[], Values], str]] = {
    "decide": (decide, MS),
    "cycle": (cycle, S),
    "simulator": (simulated("whole_logs"), RATE),
    "nodes": (simulated("on_nodes", "nodes, "), RATE),
    "metrics": (metrics, MS),
    "training": (training, RATE),
    "conversion": (conversion, "rows/s"),
    "first-word": (first_word, S),
}
#: Last word of a figure's name -> its unit, whatever the measurement.
UNITS = {"memory": MB, "length": "kB"}
#: What a figure is to be: at least, if it is a rate, else at most.
GOALS = {
    "decide, 10,000 pending, median": 3.0,
    "decide, 10,000 pending, p99": 6.0,
    "decide, 100,000 pending, median": 50.0,
    "cycle, 100,000 pending, median": 2.5,
    "cycle, 100,000 pending, memory": 300.0,
    "HPC2N, saf": 1e6,
    "HPC2N, linear scorer": 3e5,
    "HPC2N, 16 hidden units": 1.5e5,
    "CTC-SP2, saf": 7e5,
    "CTC-SP2, linear scorer": 2e5,
    "CTC-SP2, 16 hidden units": 1.5e5,
    "SDSC-SP2, saf": 7e5,
    "SDSC-SP2, linear scorer": 2e5,
    "SDSC-SP2, 16 hidden units": 1.5e5,
    "nodes, fifo, easy": 5e4,
    "nodes, fifo, slurm": 5e4,
    "nodes, sjf, easy": 5e4,
    "nodes, sjf, slurm": 5e4,
    "nodes, default, easy": 2e4,
    "nodes, default, slurm": 2e4,
    "metrics of a large site, length": 300.0,
    "conversion of 10 million rows, memory": 1000.0,
    "evaluate of 10,000 jobs, first": 15.0,
    "evaluate of 10,000 jobs, first, installed": 15.0,
    "demo, first, installed": 75.0,
}
#: Figures by their names -> the figure with the best that the machine can do.
FLOORS = (
    (r"decide, (.*), median", r"floor, \1"),
    (r"(HPC2N|CTC-SP2|SDSC-SP2|generated), .*", r"\1, events alone"),
    (r"(evaluate .*), first(.*)", r"\1, second\2"),
)


def floor_of(name: str) -> str:
    """Name of the figure that is a figure's floor; "" for none."""
    return next((re.sub(a, b, name) for a, b in FLOORS if re.fullmatch(a, name)), "")


def unit_of(measurement: str, name: str) -> str:
    return UNITS.get(name.rpartition(", ")[2], MEASUREMENTS[measurement][1])


if __name__ == "__main__":
    print(json.dumps(MEASUREMENTS[sys.argv[1]][0]()))
