"""`make soak`: a busy day of a real log, repeated, on a real Slurm in compressed time.

Needs root, Slurm's daemons and Prometheus (tests/real/install_daemons.sh), and the log LPC-EGEE of
the Parallel Workloads Archive in the folder $SLURM_RL_TRACES; about 75 minutes at the default
speed. Slurm, the daemon and Prometheus run through all rounds. Growth is measured between rounds
with the same load at the same times. Writes soak.json, samples.json and soak.png to --output. Exit
code 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from scipy.stats import t as student

from slurm_rl_plugin.accounting.swf.reader import SwfReader
from slurm_rl_plugin.hook.memory.carried_factors import REMEMBERED_AFTER_END
from slurm_rl_plugin.units import DAY, HOUR, FloatArray
from slurm_rl_plugin.whole_file import replacing, write_whole
from tests.bench.live.harness import LiveJob, in_time, say, wait_until_empty
from tests.bench.report import Goal, print_goals, write_document
from tests.fakes.running_daemon import free_port
from tests.real.conftest import ACCOUNTS, running_slurm
from tests.real.daemon_under_test import RunningHook, running_hook
from tests.real.private_cluster import ClusterPlan
from tests.real.prometheus_server import api, prometheus_scraping

mpl.use("Agg")

LOG = "LPC-EGEE-2004-1.2-cln.swf.gz"
#: Longest run time of an interactive job in the log, seconds; the papers' rule.
SHORT = 900.0
#: Most seconds between two cycles, and seconds between samples.
CYCLE, STEP = 5.0, 2.0
PLAN = ClusterPlan(
    nodes=1,
    processors_per_node=32,
    accounts=ACCOUNTS,
    options={"MinJobAge": "60", "MessageTimeout": "60"},
    partitions=("PartitionName=grid Nodes=ALL Default=YES MaxTime=1-0 State=UP",),
)
_USERS = ("alice", "bob")
#: Name here -> series of the daemon.
SERIES = {
    "memory": "slurm_rl_process_resident_memory_bytes",
    "files": "slurm_rl_process_open_fds",
    "pending": "sum(slurm_rl_pending_jobs)",
    "cycles": "slurm_rl_cycles_total",
    "failures": "sum(slurm_rl_cycle_failures_total)",
    "last_success": "slurm_rl_last_success_timestamp_seconds",
    "writes": "sum(slurm_rl_adjustments_total)",
}
#: Seconds of a phase: several cycles, so that some samples are between Slurm calls.
PHASE = 30.0
#: Two differences are the fewest that have an interval.
LEAST_ROUNDS = 3
#: Jobs that the run must have.
LEAST = 5000
#: A cycle is missed for each period of this length without a successful one, seconds.
ALLOWED = 2.0 * CYCLE
#: Until then memory must grow: jobs that have ended are remembered for this time, seconds.
WARM_UP = REMEMBERED_AFTER_END
#: Series whose growth is measured -> value of a phase: of open files the fewest, between calls.
JUDGED: dict[str, Callable[[FloatArray], float]] = {
    "memory": lambda values: float(values.mean()),
    "files": lambda values: float(values.min()),
}
#: Most growth in an hour, part of the mean.
FLAT = 0.05
#: Series, label of its axis, unit, colour.
_PANELS = (
    ("memory", "resident memory, MB", 1e6, "#0072B2"),
    ("files", "open files", 1.0, "#D55E00"),
    ("pending", "pending jobs", 1.0, "#009E73"),
)
Series = Sequence[tuple[float, float]]
Samples = dict[str, list[tuple[float, float]]]


def busiest_day(path: Path, speed: float, least: int) -> list[LiveJob]:
    """The jobs of the 24 hours with the fewest jobs, among those with at least `least`.

    The time of the log, in SWF, passes `speed` times as fast.
    """
    log, _ = SwfReader().read(path)
    begins = np.arange(0.0, max(log.submit[-1] - DAY, 1.0), HOUR)
    counts = np.searchsorted(log.submit, begins + DAY) - np.searchsorted(log.submit, begins)
    enough = np.flatnonzero(counts >= least)
    if not len(enough):
        raise ValueError(f"no day of this log has {least} jobs: take another log")
    begin = float(begins[enough[counts[enough].argmin()]])
    chosen = np.flatnonzero((log.submit >= begin) & (log.submit < begin + DAY))
    largest = np.bincount(log.account[chosen]).argmax()
    jobs = []
    for job in chosen:
        user = _USERS[int(log.account[job] != largest)]
        ran = float(log.run_time[job])
        minutes = 5 if ran < SHORT else 120  # the limit gives the class
        submit, seconds = float(log.submit[job] - begin) / speed, max(ran / speed, 1.0)
        jobs.append(LiveJob(submit=submit, user=user, seconds=seconds, minutes=minutes))
    return jobs


def growth_between(
    samples: Series,
    begins: Sequence[float],
    length: float,
    of_phase: Callable[[FloatArray], float],
) -> dict[str, Any]:
    """The mean difference between successive rounds at the same phase, in an hour.

    Each pair of rounds gives one number for the interval (Student's t): neighbouring samples are
    correlated, and what a round leaves is in all phases of the next.

    Args:
        samples: (time, value), in order.
        begins: start times of the rounds.
        length: seconds of a round.
        of_phase: value of a phase, from its samples.

    Returns:
        `an_hour`, its 95 % interval from `lowest` to `highest`, the `mean` over the rounds, the
        `largest` value of the whole run, and the `differences` from each round to the next.
    """
    if len(begins) < LEAST_ROUNDS:
        raise ValueError(f"{len(begins)} whole rounds: {LEAST_ROUNDS} are needed")
    at, values = np.array(samples).T
    table = np.full((len(begins), math.ceil(length / PHASE)), np.nan)
    for row, begin in zip(table, begins, strict=True):
        phase = np.floor((at - begin) / PHASE).astype(np.int64)
        inside = (at >= begin) & (at < begin + length)
        for each in np.unique(phase[inside]):
            row[each] = of_phase(values[inside & (phase == each)])
    steps = np.diff(table, axis=0)
    if not np.isfinite(steps).any(axis=1).all():
        raise ValueError("two successive rounds have no phase in common that was sampled")
    differences = np.nanmean(steps, axis=1) / (np.diff(begins) / HOUR)
    error = float(differences.std(ddof=1) / np.sqrt(len(differences)))
    reach = float(student.ppf(0.975, len(differences) - 1)) * error
    mean = float(differences.mean())
    return {
        "an_hour": mean,
        "lowest": mean - reach,
        "highest": mean + reach,
        "mean": float(np.nanmean(table)),
        "largest": float(values.max()),
        "differences": differences.tolist(),
    }


def soak(
    jobs: Sequence[LiveJob], model: str, folder: Path, port: int
) -> tuple[dict[str, Any], Samples]:
    """Runs the jobs, in order of submission; Ctrl-C keeps what was seen until then."""
    numbers, late, stop = list[int](), list[float](), Event()
    with running_slurm(PLAN) as cluster:
        with (
            running_hook(cluster, folder, model, cycle=CYCLE, more="busy_share = 0.5\n") as hook,
            prometheus_scraping(hook.port, port, folder),
        ):
            began = time.time()  # noqa: TID251 - Prometheus' clock

            def submit(place: int) -> None:
                late.append(time.time() - began - jobs[place].submit)  # noqa: TID251
                numbers.append(jobs[place].submit_to(cluster))
                _must_run(hook)

            try:
                in_time("soak", [job.submit for job in jobs], submit, stop)
                wait_until_empty(cluster, HOUR)
            except KeyboardInterrupt:
                say("interrupted: the figures are of what was seen until now")
            _must_run(hook)
            ended = time.time()  # noqa: TID251
            samples = _samples(port, began, ended)
            code = hook.stop()
        time.sleep(3.0)  # slurmctld sends slurmdbd the last ends in a bundle
        done = cluster.run(
            *("sacct", "-a", "-X", "-P", "-n", "-S", "now-1day", "-o", "State"), timeout=60
        )
    last = {name: samples[name][-1][1] for name in ("cycles", "writes", "failures")}
    states = [line.split()[0] for line in done.stdout.splitlines()]
    figures = {
        "began": began,
        "jobs": len(numbers),
        "states": dict(Counter(states)),
        "latest_submission": max(late, default=0.0),
        "seconds": ended - began,
        "cycles": last["cycles"],
        "writes": last["writes"],
        "failed_cycles": last["failures"],
        "missed": missed_cycles(samples["last_success"]),
        "longest_queue": max(value for _, value in samples["pending"]),
        "exit_code": code,
    }
    return figures, samples


def _must_run(hook: RunningHook) -> None:
    assert hook.process.poll() is None, f"the daemon ended:\n{hook.log[-3000:]}"


def _samples(port: int, begin: float, end: float) -> Samples:
    samples = {}
    for name, expression in SERIES.items():
        data = api(port, "query_range", query=expression, start=begin, end=end, step=STEP)
        (series,) = data["result"]
        samples[name] = [(float(at), float(value)) for at, value in series["values"]]
    return samples


def missed_cycles(last_success: Series) -> int:
    """Number of missed cycles: one for each ALLOWED seconds without a successful one."""
    ends = sorted({value for _, value in last_success if value})
    gaps = np.diff([*ends, last_success[-1][0]])
    return int(np.floor(gaps / ALLOWED).sum())


def draw_soak(path: Path, samples: Samples, began: float, rounds: int, length: float) -> None:
    """Draws a panel for each series, and one with the memory of each whole round by its phase."""
    figure, axes = plt.subplots(
        len(_PANELS) + 1,
        1,
        figsize=(8.0, 8.5),
        height_ratios=[1.0] * len(_PANELS) + [1.4],
        layout="constrained",
    )
    at, memory = np.array(samples["memory"]).T
    for axis, (name, words, unit, colour) in zip(axes[:-1], _PANELS, strict=True):
        known = dict(samples[name])  # pending jobs have no series while there are none
        values = np.array([known.get(each, 0.0) for each in at.tolist()])
        axis.plot((at - began) / 60.0, values / unit, color=colour, lw=1.0)
        axis.set_ylabel(words)
        axis.set_ylim(0.0, max(1.1 * float(values.max()) / unit, 1.0))
        for number in range(rounds + 1):
            axis.axvline(number * length / 60.0, color="0.6", lw=0.8, ls=":")
        axis.sharex(axes[0])
        axis.grid(alpha=0.3)
    axes[-2].set_xlabel("minutes of the run; dotted: a round begins")
    for number in range(rounds):
        since = at - began - number * length
        inside = (since >= 0.0) & (since < length)
        shade = mpl.colormaps["Blues"](0.25 + 0.75 * (number + 1) / rounds)
        words = f"round {number + 1}"
        axes[-1].plot(since[inside] / 60.0, memory[inside] / 1e6, color=shade, lw=1.2, label=words)
    axes[-1].set_xlabel("minutes of the round")
    axes[-1].set_ylabel("resident memory, MB")
    axes[-1].grid(alpha=0.3)
    axes[-1].legend(ncols=4, fontsize="small")
    with replacing(path) as file:
        figure.savefig(file, dpi=120, format="png", pil_kwargs={"optimize": True})
    plt.close(figure)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What to run."""
    parser = argparse.ArgumentParser(description=__doc__)
    traces = os.environ.get("SLURM_RL_TRACES", ".")
    parser.add_argument("--log", type=Path, default=Path(traces) / LOG)
    parser.add_argument("--speed", type=float, default=144.0, help="seconds of the log in one")
    parser.add_argument("--jobs", type=int, default=1800, help="jobs that the day must have")
    parser.add_argument("--rounds", type=int, default=7, help="how often the day is repeated")
    parser.add_argument(
        "--warm-up", type=float, default=WARM_UP, metavar="SECONDS", help="left out of the growth"
    )
    parser.add_argument("--model", default="default")
    parser.add_argument("--output", type=Path, default=Path("soak-output"))
    parser.add_argument("--kept", action="store_true", help="new figures from kept samples")
    chosen = parser.parse_args(arguments)
    length = DAY / chosen.speed
    judged = judged_rounds(0.0, chosen.rounds, length, chosen.warm_up)
    if len(judged) < LEAST_ROUNDS and not chosen.kept:
        least = LEAST_ROUNDS + math.ceil(chosen.warm_up / length)
        parser.error(f"at this speed growth needs --rounds {least} or more")
    return chosen


def judged_rounds(began: float, rounds: int, length: float, warm_up: float) -> list[float]:
    """Start times of the whole rounds after the warm-up."""
    begins = [began + number * length for number in range(rounds)]
    return [begin for begin in begins if begin >= began + warm_up]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs, prints figures and goals, draws; 1 if a goal is missed."""
    chosen = options(arguments)
    output: Path = chosen.output
    if chosen.kept:
        result = json.loads((output / "soak.json").read_text())
        samples = json.loads((output / "samples.json").read_text())
    else:
        result, samples = _run(chosen)
        write_document(output / "soak.json", result)
        write_whole(output / "samples.json", json.dumps(samples) + "\n")
    length = DAY / result["speed"]
    begins = judged_rounds(result["began"], result["rounds"], length, chosen.warm_up)
    if len(begins) < LEAST_ROUNDS:
        print(f"{result['rounds']} whole rounds: too few to measure growth; samples are kept")
        return 1
    result |= {"warm_up": chosen.warm_up}
    result |= {
        name: growth_between(samples[name], begins, length, of_phase)
        for name, of_phase in JUDGED.items()
    }
    write_document(output / "soak.json", result)
    draw_soak(output / "soak.png", samples, result["began"], result["rounds"], length)
    return 0 if print_goals(goals(result)) else 1


def _run(chosen: argparse.Namespace) -> tuple[dict[str, Any], Samples]:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    length = DAY / chosen.speed
    day = busiest_day(chosen.log, chosen.speed, chosen.jobs)
    jobs = [
        replace(job, submit=job.submit + number * length)
        for number in range(chosen.rounds)
        for job in day
    ]
    folder = chosen.output.resolve() / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    result, samples = soak(jobs, chosen.model, folder, free_port())
    whole = result["jobs"] == len(jobs)  # the last day's jobs may end early
    result["rounds"] = chosen.rounds if whole else int(result["seconds"] / length)
    source = {"log": chosen.log.name, "sha256": hashlib.sha256(chosen.log.read_bytes()).hexdigest()}
    result |= {"source": source, "speed": chosen.speed, "cycle": CYCLE, "model": chosen.model}
    return result, samples


def goals(result: dict[str, Any]) -> Iterator[Goal]:
    """Each goal; growth is flat if the upper end of its interval is small."""
    jobs, done = result["jobs"], result["states"].get("COMPLETED", 0)
    yield Goal("jobs", f"{jobs:,}", f">= {LEAST:,}", jobs >= LEAST)
    yield Goal("completed", f"{done:,}", "all", done == jobs)
    part = result["missed"] / max(result["cycles"], 1)
    missed = f"{result['missed']} of {result['cycles']:.0f}"
    yield Goal("missed cycles", missed, "<= 1 %", part <= 0.01)
    for name, scale, unit in (("memory", 1e6, "MB"), ("files", 1.0, "files")):
        each = result[name]
        low, high, mean = each["lowest"] / scale, each["highest"] / scale, each["mean"] / scale
        words = f"{each['an_hour'] / scale:+.2f} [{low:+.2f}, {high:+.2f}] {unit}/h"
        goal = f"<= {FLAT:.0%} of it an hour"
        yield Goal(f"growth of {name}", f"mean {mean:.1f}, {words}", goal, high <= FLAT * mean)
    code = result["exit_code"]
    yield Goal("exit code of the daemon", str(code), "0", code == 0)


if __name__ == "__main__":
    sys.exit(main())
