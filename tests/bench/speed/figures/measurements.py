"""The measurements, each in a process of its own, so that another release can be measured too.

    python -m tests.bench.speed.figures.measurements decide

prints one JSON object: name of a figure -> value.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A line of the table."""

    name: str  #: name in the measurement
    unit: str  #: of the value
    goal: float = 0.0  #: 0 for none
    rate: bool = False  #: whether more is better
    floor: str = ""  #: name of the figure with the machine's best; "" for none

    def met(self, value: float) -> bool | None:
        """Whether the goal is reached; None without a goal."""
        if not self.goal:
            return None
        return value >= self.goal if self.rate else value <= self.goal


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
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.speed.large_queue", "--cycles", "12"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    told = json.loads(done.stdout)
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
    """Seconds of `evaluate` and `demo` for a new user: with nothing compiled, and as installed."""
    from slurm_rl_plugin.cli.entry import VERBS  # noqa: PLC0415 - of the measured release

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for_all = {"SLURM_RL_COMPILED": str(Path(folder) / "for all")}
        for when, compiled in (("", {"SLURM_RL_COMPILED": ""}), (", installed", for_all)):
            if compiled == for_all:
                if "compile" not in VERBS:
                    break  # an earlier release
                words = ["compile", "evaluate", "demo"]
                found["compile at installation"] = _seconds_of(words, for_all)
            mine = {"NUMBA_CACHE_DIR": str(Path(folder) / f"mine{when}"), **compiled}
            for name in ("first", "second"):
                words = ["evaluate", FIRST_LOG, *FIRST_POLICIES]
                found[f"evaluate of 10,000 jobs, {name}{when}"] = _seconds_of(words, mine)
            mine["NUMBA_CACHE_DIR"] += " for the demo"
            words = ["demo", "--output", str(Path(folder) / "demo")]
            found[f"demo, first{when}"] = _seconds_of(words, mine)
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
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.speed.log_conversion", "--output", folder],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    told = json.loads(done.stdout)
    return {
        "conversion of 10 million rows": told["convert"]["rows_per_second"],
        "conversion of 10 million rows, memory": told["convert"]["peak_bytes"] / 1e6,
        "two weeks of 10 million rows, memory": told["two weeks"]["peak_bytes"] / 1e6,
    }


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


MEASUREMENTS: Mapping[str, tuple[Callable[[], Values], tuple[Figure, ...]]] = {
    "decide": (
        decide,
        tuple(
            figure
            for jobs, median, p99 in (("10,000", 3.0, 6.0), ("100,000", 50.0, 0.0))
            for figure in (
                Figure(
                    name=f"decide, {jobs} pending, median", unit=MS, goal=median,
                    floor=f"floor, {jobs} pending",
                ),
                Figure(name=f"decide, {jobs} pending, p99", unit=MS, goal=p99),
                Figure(name=f"first decision, {jobs} pending", unit=MS),
            )
        ),
    ),
    "cycle": (
        cycle,
        (
            Figure(name="cycle, 100,000 pending, median", unit=S, goal=2.5),
            Figure(name="cycle, 100,000 pending, longest", unit=S),
            Figure(name="cycle, 100,000 pending, memory", unit=MB, goal=300.0),
        ),
    ),
    "simulator": (
        simulated("whole_logs"),
        tuple(
            Figure(
                name=f"{log}, {what}", unit=RATE, rate=True, goal=goals.get(what, 0.0),
                floor=f"{log}, events alone",
            )
            for log, goals in {
                "HPC2N": {"saf": 1e6, "linear scorer": 3e5, "16 hidden units": 1.5e5},
                "CTC-SP2": {"saf": 7e5, "linear scorer": 2e5, "16 hidden units": 1.5e5},
                "SDSC-SP2": {"saf": 7e5, "linear scorer": 2e5, "16 hidden units": 1.5e5},
                "generated": {},
            }.items()
            for what in (
                "fifo", "saf", "linear scorer", "16 hidden units", "16 hidden units, past runs",
            )
        ),
    ),
    "nodes": (
        simulated("on_nodes", "nodes, "),
        tuple(
            Figure(name=f"nodes, {what}", unit=RATE, rate=True, goal=goal)
            for what, goal in (
                ("fifo, easy", 5e4), ("fifo, slurm", 5e4), ("sjf, easy", 5e4), ("sjf, slurm", 5e4),
                ("multifactor, slurm", 0.0), ("default, easy", 2e4), ("default, slurm", 2e4),
            )
        ),
    ),
    "metrics": (
        metrics,
        (
            Figure(name="metrics of a large site, cycle", unit=MS),
            Figure(name="metrics of a large site, answer", unit=MS),
            Figure(name="metrics of a large site, length", unit="kB", goal=300.0),
        ),
    ),
    "training": (training, (Figure(name="training", unit=RATE, rate=True),)),
    "conversion": (
        conversion,
        (
            Figure(name="conversion of 10 million rows", unit="rows/s", rate=True),
            Figure(name="conversion of 10 million rows, memory", unit=MB, goal=1000.0),
            Figure(name="two weeks of 10 million rows, memory", unit=MB),
        ),
    ),
    "first-word": (
        first_word,
        (
            Figure(name="evaluate of 10,000 jobs, first", unit=S, goal=15.0,
                   floor="evaluate of 10,000 jobs, second"),
            Figure(name="demo, first", unit=S),
            Figure(name="compile at installation", unit=S),
            Figure(name="evaluate of 10,000 jobs, first, installed", unit=S, goal=15.0,
                   floor="evaluate of 10,000 jobs, second, installed"),
            Figure(name="demo, first, installed", unit=S, goal=75.0),
        ),
    ),
}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(MEASUREMENTS[sys.argv[1]][0]()))
