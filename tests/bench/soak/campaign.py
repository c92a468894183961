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
import logging
import math
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from scipy.stats import t as student

from slurm_rl_plugin.accounting.swf.reader import SwfReader
from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.hook.memory.carried_factors import REMEMBERED_AFTER_END
from slurm_rl_plugin.units import DAY, HOUR, FloatArray
from slurm_rl_plugin.whole_file import replacing, write_whole
from tests.real.conftest import ACCOUNTS, running_slurm
from tests.real.daemon_under_test import RunningHook, running_hook
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.prometheus_server import api, prometheus_scraping

#: Interactive, in the log's own seconds; the papers' rule.
SHORT = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakJob:
    """A job as it is submitted; seconds of the run, not of the log.

    Attributes:
        submit: from the beginning.
        seconds: that it sleeps; at least one.
        account: index of one of two.
        interactive: of that class.
    """

    submit: float
    seconds: float
    account: int
    interactive: bool


def busiest_day(path: Path, speed: float, least: int) -> list[SoakJob]:
    """The jobs of the 24 hours with the fewest jobs of those with at least `least`.

    Args:
        path: of a log in SWF.
        speed: seconds of the log in one second of the run.
        least: jobs.

    Raises:
        ValueError: no day of the log has so many.
    """
    log, _ = SwfReader().read(path)
    begin = _begin(log.submit, least)
    chosen = np.flatnonzero((log.submit >= begin) & (log.submit < begin + DAY))
    largest = np.bincount(log.account[chosen]).argmax()
    return [
        SoakJob(
            submit=float(log.submit[job] - begin) / speed,
            seconds=max(float(log.run_time[job]) / speed, 1.0),
            account=int(log.account[job] != largest),
            interactive=bool(log.run_time[job] < SHORT),
        )
        for job in chosen
    ]


def day_after_day(day: Sequence[SoakJob], rounds: int, length: float) -> list[SoakJob]:
    """The same day several times, each beginning `length` seconds after the one before."""
    return [
        replace(job, submit=job.submit + number * length) for number in range(rounds) for job in day
    ]


def _begin(submit: Sequence[float] | np.ndarray, least: int) -> float:  # type: ignore[type-arg]
    times = np.asarray(submit)
    begins = np.arange(0.0, max(times[-1] - DAY, 1.0), HOUR)
    counts = np.searchsorted(times, begins + DAY) - np.searchsorted(times, begins)
    enough = np.flatnonzero(counts >= least)
    if not len(enough):
        raise ValueError(f"no day of this log has {least} jobs: take another log")
    return float(begins[enough[counts[enough].argmin()]])


#: Seconds of a phase: long enough to hold several cycles, so that some samples lie between calls.
PHASE = 30.0
#: Two differences are the fewest that have an interval.
LEAST_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Growth an hour with its 95 % interval.

    Attributes:
        an_hour: mean of `differences`.
        lowest: end of the interval.
        highest: the other end.
        mean: over the judged rounds.
        largest: over the whole run.
        differences: from each judged round to the next one, an hour.
    """

    an_hour: float
    lowest: float
    highest: float
    mean: float
    largest: float
    differences: list[float]


def growth_between(
    samples: Sequence[tuple[float, float]],
    begins: Sequence[float],
    length: float,
    of_phase: Callable[[FloatArray], float],
) -> Growth:
    """The mean difference between successive rounds at the same phase, an hour.

    Rounds carry the same load at the same times, so a phase of one round is paired with that phase
    of the next. One number a pair of rounds enters the interval (Student's t): neighbouring samples
    are alike, what one round leaves is there in all phases of the next.

    Args:
        samples: (time, value), in order.
        begins: of the rounds that are judged.
        length: seconds of a round.
        of_phase: value of a phase, of its samples.

    Raises:
        ValueError: fewer rounds than LEAST_ROUNDS, or two without a common phase.
    """
    if len(begins) < LEAST_ROUNDS:
        raise ValueError(f"{len(begins)} whole rounds to judge: {LEAST_ROUNDS} are needed")
    at, values = np.array(samples).T
    table = np.array([_phases(at - begin, values, length, of_phase) for begin in begins])
    steps = np.diff(table, axis=0)
    known = np.isfinite(steps).any(axis=1)
    if not known.all():
        raise ValueError("two successive rounds have no phase in common that was sampled")
    differences = np.nanmean(steps, axis=1) / (np.diff(begins) / HOUR)
    low, high = _interval(differences)
    return Growth(
        an_hour=float(differences.mean()),
        lowest=low,
        highest=high,
        mean=float(np.nanmean(table)),
        largest=float(values.max()),
        differences=differences.tolist(),
    )


def _phases(
    since: FloatArray, values: FloatArray, length: float, of_phase: Callable[[FloatArray], float]
) -> FloatArray:
    """A value for each phase of one round; NaN where it was not sampled."""
    phase = np.floor(since / PHASE).astype(np.int64)
    inside = (since >= 0.0) & (since < length)
    found = np.full(int(np.ceil(length / PHASE)), np.nan)
    for each in np.unique(phase[inside]):
        found[each] = of_phase(values[inside & (phase == each)])
    return found


def _interval(differences: FloatArray) -> tuple[float, float]:
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    reach = float(student.ppf(0.975, len(differences) - 1)) * float(error)
    mean = float(differences.mean())
    return mean - reach, mean + reach


logger = logging.getLogger(__name__)

#: Seconds between two cycles at most.
CYCLE = 5.0
#: Seconds between samples.
STEP = 2.0
PROCESSORS = 32
PLAN = ClusterPlan(
    nodes=1,
    processors_per_node=PROCESSORS,
    accounts=ACCOUNTS,
    options={"MinJobAge": "60", "MessageTimeout": "60"},
    partitions=("PartitionName=grid Nodes=ALL Default=YES MaxTime=1-0 State=UP",),
)
_USERS = (("alice", "physics"), ("bob", "biology"))
_LINES = "busy_share = 0.5\n"
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


@dataclass(slots=True, kw_only=True)
class Soak:
    """What was measured.

    Attributes:
        began: when the first round did, on Prometheus' clock.
        submitted: jobs.
        latest: seconds that the last of them was late at most.
        states: final state -> jobs, as Slurm's log of completions tells.
        seconds: of the run.
        samples: name of SERIES -> (time, value) of each sample of Prometheus.
        exit_code: of the daemon's stop.
        log: of the daemon.
    """

    began: float = 0.0
    submitted: int = 0
    latest: float = 0.0
    states: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    samples: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    exit_code: int | None = None
    log: str = ""


def soak(jobs: Sequence[SoakJob], model: str, folder: Path, prometheus_port: int) -> Soak:
    """Run them; an interruption (Ctrl-C) keeps what was seen until then.

    Args:
        jobs: in order of submission.
        model: of the daemon.
        folder: of the daemon's and Prometheus' files; must be empty.
        prometheus_port: on which Prometheus listens.
    """
    found = Soak()
    with running_slurm(PLAN) as cluster:
        with (
            running_hook(cluster, folder, model, cycle=CYCLE, more=_LINES) as hook,
            prometheus_scraping(hook.port, prometheus_port, folder),
        ):
            found.began = time.time()  # noqa: TID251 - Prometheus' clock
            try:
                _submit_in_time(cluster, jobs, hook, found)
                _wait_until_done(cluster, hook, found.submitted)
            except KeyboardInterrupt:
                logger.warning("interrupted: the figures are of what was seen until now")
            ended = time.time()  # noqa: TID251
            found.seconds = ended - found.began
            found.samples = _samples(prometheus_port, found.began, ended)
            found.exit_code = hook.stop()
            found.log = hook.log
        found.states = _states(cluster)
    return found


def _submit_in_time(
    cluster: PrivateSlurm, jobs: Sequence[SoakJob], hook: RunningHook, found: Soak
) -> None:
    begin = time.monotonic()
    with progress_bar("submitted", len(jobs), "seconds late") as progress:
        for place, job in enumerate(jobs):
            due = begin + job.submit
            time.sleep(max(due - time.monotonic(), 0.0))
            found.latest = max(found.latest, time.monotonic() - due)
            user, account = _USERS[job.account]
            cluster.submit(
                user=user,
                account=account,
                minutes=5 if job.interactive else 120,  # the class rule goes by it
                seconds=job.seconds,
            )
            found.submitted += 1
            progress(place, time.monotonic() - due)
            assert hook.process.poll() is None, f"the daemon ended:\n{hook.log[-3000:]}"


def _wait_until_done(cluster: PrivateSlurm, hook: RunningHook, submitted: int) -> None:
    def done() -> bool:
        time.sleep(1.0)
        assert hook.process.poll() is None, f"the daemon ended:\n{hook.log[-3000:]}"
        return not cluster.run("squeue", "-h", "-o", "%A", timeout=60).stdout

    cluster.wait_until(done, 3600.0, f"all {submitted} jobs done")


def _samples(port: int, begin: float, end: float) -> dict[str, list[tuple[float, float]]]:
    samples = {}
    for name, expression in SERIES.items():
        data = api(port, "query_range", query=expression, start=begin, end=end, step=STEP)
        (series,) = data["result"]
        samples[name] = [(float(at), float(value)) for at, value in series["values"]]
    return samples


def _states(cluster: PrivateSlurm) -> dict[str, int]:
    """What accounting says of every job."""
    time.sleep(3.0)  # slurmdbd is told of the last ends in a bundle
    done = cluster.run(
        *("sacct", "-a", "-X", "-P", "-n", "-S", "now-1day", "-o", "JobIDRaw,State"), timeout=60
    )
    states: dict[str, int] = {}
    for line in done.stdout.splitlines():
        state = line.partition("|")[2].split()[0]
        states[state] = states.get(state, 0) + 1
    return states


mpl.use("Agg")

#: Series, what its axis says, what a unit of it is, colour.
_PANELS = (
    ("memory", "resident memory, MB", 1e6, "#0072B2"),
    ("files", "open files", 1.0, "#D55E00"),
    ("pending", "pending jobs", 1.0, "#009E73"),
)


def draw_soak(path: Path, samples: Samples, began: float, rounds: int, length: float) -> None:
    """One panel a series over the run, and one with the memory of each round by its phase.

    Args:
        path: of the PNG.
        samples: name -> (time, value).
        began: time of the first round's begin.
        rounds: whole ones.
        length: of a round, seconds.
    """
    figure, axes = plt.subplots(
        len(_PANELS) + 1,
        1,
        figsize=(8.0, 8.5),
        height_ratios=[1.0] * len(_PANELS) + [1.4],
        layout="constrained",
    )
    for axis, (name, words, unit, colour) in zip(axes[:-1], _PANELS, strict=True):
        at, values = _whole(samples[name], samples["memory"]).T
        axis.plot((at - began) / 60.0, values / unit, color=colour, lw=1.0)
        axis.set_ylabel(words)
        axis.set_ylim(0.0, max(1.1 * float(values.max()) / unit, 1.0))
        for number in range(rounds + 1):
            axis.axvline(number * length / 60.0, color="0.6", lw=0.8, ls=":")
        axis.sharex(axes[0])
        axis.grid(alpha=0.3)
    axes[-2].set_xlabel("minutes of the run; dotted: a round begins")
    _draw_rounds(axes[-1], samples["memory"], began, rounds, length)
    with replacing(path) as file:
        figure.savefig(file, dpi=120, format="png", pil_kwargs={"optimize": True})
    plt.close(figure)


def _whole(
    series: Sequence[tuple[float, float]], scrapes: Sequence[tuple[float, float]]
) -> np.ndarray:
    """A value for each scrape: pending jobs have no series while there are none."""
    known = dict(series)
    return np.array([(at, known.get(at, 0.0)) for at, _ in scrapes])


def _draw_rounds(
    axis: Axes, memory: Sequence[tuple[float, float]], began: float, rounds: int, length: float
) -> None:
    """A line a round, the later the darker."""
    at, values = np.array(memory).T
    for number in range(rounds):
        since = at - began - number * length
        inside = (since >= 0.0) & (since < length)
        shade = mpl.colormaps["Blues"](0.25 + 0.75 * (number + 1) / rounds)
        words = f"round {number + 1}"
        axis.plot(since[inside] / 60.0, values[inside] / 1e6, color=shade, lw=1.2, label=words)
    axis.set_xlabel("minutes of the round")
    axis.set_ylabel("resident memory, MB")
    axis.grid(alpha=0.3)
    axis.legend(ncols=4, fontsize="small")


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
