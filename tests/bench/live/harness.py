"""Private Slurms under a load in compressed time: submit, watch, keep the results, resume.

The load, the cluster and the figures are in the file of each question.
"""

from __future__ import annotations

import gzip
import json
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, TypeVar

from slurm_rl_plugin.whole_file import write_whole
from tests.real.private_cluster import PrivateSlurm

#: Seconds that a command may take on a busy machine.
PATIENCE = 120.0
#: Log of slurmctld; its times are in milliseconds.
CONTROLLER_LOG = "slurmctld.log"
Document = dict[str, Any]


class Stopped(Exception):
    """The run was interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveJob:
    """A job to submit `submit` seconds after the start; it sleeps for `seconds`.

    `options` are further options of sbatch. Its account is that of the user in the cluster's plan.
    """

    user: str
    seconds: float
    minutes: int
    processors: int = 1
    submit: float = 0.0
    options: tuple[str, ...] = ()

    def submit_to(self, cluster: PrivateSlurm) -> int:
        """Submits the job now; returns its id."""
        return cluster.submit(
            *self.options,
            user=self.user,
            processors=self.processors,
            minutes=self.minutes,
            seconds=self.seconds,
        )


def say(text: str) -> None:
    """Prints the progress with the time of day."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def in_time(name: str, due: Sequence[float], act: Callable[[int], None], stop: Event) -> float:
    """Calls `act` with each place in `due` when it is due; returns the longest delay in seconds.

    `due` has seconds from now, rising. A set `stop` raises Stopped, here and in each wait of a run.
    """
    begin, late = time.monotonic(), 0.0
    for place, at in enumerate(due):
        if stop.wait(max(begin + at - time.monotonic(), 0.0)):
            raise Stopped
        late = max(late, time.monotonic() - begin - at)
        act(place)
        if place % 40 == 0:
            say(f"{name}: {place} of {len(due)} jobs submitted, at most {late:.1f} s late")
    return late


class Submitted(NamedTuple):
    """Submitted jobs: their ids, seconds from the start to each submission, longest delay."""

    numbers: list[int]
    at: list[float]
    late: float


def submit_in_time(
    name: str, cluster: PrivateSlurm, jobs: Sequence[LiveJob], stop: Event
) -> Submitted:
    """Submits the jobs, which are in order of submission."""
    numbers, at, begin = list[int](), list[float](), time.monotonic()

    def submit(place: int) -> None:
        numbers.append(jobs[place].submit_to(cluster))
        at.append(time.monotonic() - begin)

    late = in_time(name, [job.submit for job in jobs], submit, stop)
    return Submitted(numbers, at, late)


Run = TypeVar("Run")


def kept_runs(
    runs: Mapping[Path, Run],
    key: Callable[[Run], Document],
    play: Callable[[Run, Path, Event], Document],
    *,
    at_once: int = 1,
    apart: float = 0.0,
) -> list[Document]:
    """Plays the runs whose results are missing, and returns the results of all.

    If a run fails or the program is stopped, all other runs end and their clusters go.

    Args:
        runs: file of the result -> run.
        key: what a kept result must have been made with; it is written with the result.
        play: plays one run in the folder of its file; it raises Stopped once the event is set.
        at_once: number of clusters that run at the same time.
        apart: seconds between their first starts, so that bursts of submissions do not meet.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    missing = [path for path, run in runs.items() if not _is_kept(path, key(run))]
    stop = Event()

    def one(place: int) -> None:
        if stop.wait(apart * place if place < at_once else 0.0):
            return
        path = missing[place]
        path.parent.mkdir(parents=True, exist_ok=True)
        found = play(runs[path], path.parent, stop)
        write_whole(path, json.dumps({**key(runs[path]), **found}) + "\n")
        say(f"{path}: done")

    with ThreadPoolExecutor(at_once) as pool:
        try:
            list(pool.map(one, range(len(missing))))
        except BaseException:  # Ctrl-C and SIGTERM too
            stop.set()
            raise
    return [json.loads(path.read_text()) for path in runs]


def _is_kept(path: Path, key: Document) -> bool:
    if not path.exists():
        return False
    kept, wanted = json.loads(path.read_text()), json.loads(json.dumps(key))
    return all(kept.get(name) == value for name, value in wanted.items())


def eligible_jobs(cluster: PrivateSlurm) -> int:
    """Number of pending jobs that could start."""
    return len(cluster.run("sprio", "-h", "-o", "%i", timeout=PATIENCE).stdout.split())


def open_partition(cluster: PrivateSlurm, opened: bool) -> None:
    """Lets jobs of the partition `batch` start, or not."""
    state = "up" if opened else "down"
    cluster.run("scontrol", "update", "partition=batch", f"state={state}", timeout=PATIENCE)


def wait_until_all_started(cluster: PrivateSlurm, stop: Event, seconds: float) -> None:
    """Waits until no job is pending."""

    def none_pending() -> bool:
        if stop.wait(1.0):
            raise Stopped
        return not cluster.run("squeue", "-h", "-t", "PD", "-o", "%A", timeout=PATIENCE).stdout

    cluster.wait_until(none_pending, seconds, "all started")


def wait_until_empty(cluster: PrivateSlurm, seconds: float) -> None:
    """Waits until no job is pending or runs, and accounting knows the end of each."""
    for what, command in (
        ("an empty queue", ("squeue", "-h", "-o", "%A")),
        # slurmctld sends slurmdbd the last ends in a bundle
        ("all ends", ("sacct", "-a", "-X", "-n", "-s", "RUNNING,PENDING", "-o", "JobIDRaw")),
    ):
        cluster.wait_until(
            lambda command=command: (  # type: ignore[misc]
                not cluster.run(*command, timeout=PATIENCE).stdout.strip()
            ),
            seconds,
            what,
        )


def end_all(cluster: PrivateSlurm, users: Sequence[str]) -> None:
    """Cancels the jobs of these users, pending ones first; waits until accounting has all ends."""
    for state in ("PENDING", "RUNNING"):
        for user in users:
            cluster.run("scancel", f"--state={state}", f"--user={user}", timeout=PATIENCE)
    wait_until_empty(cluster, PATIENCE)


def keep_files(cluster: PrivateSlurm, folder: Path, *configured: str) -> None:
    """Copies files of the cluster's configuration, and slurmctld's log with gzip."""
    for name in configured:
        folder.joinpath(name).write_text(cluster.directory.joinpath("etc", name).read_text())
    log = cluster.directory.joinpath("log", CONTROLLER_LOG).read_bytes()
    folder.joinpath(f"{CONTROLLER_LOG}.gz").write_bytes(gzip.compress(log))
