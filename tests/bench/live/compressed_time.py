"""A load on private Slurms in compressed time: submitted when due, watched, ended, kept.

Which load, on which machine, and what is asked of it stands in the file of each question.
"""

from __future__ import annotations

import gzip
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TypeVar

from tests.real.private_cluster import PrivateSlurm

#: Seconds that a command may take on a machine that others use as well.
PATIENCE = 120.0
#: What slurmctld tells, to the millisecond.
CONTROLLER_LOG = "slurmctld.log"


class Stopped(Exception):
    """The run was broken off."""


def tell(text: str) -> None:
    """Say how far we are."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def in_time(name: str, due: Sequence[float], act: Callable[[int], None], stop: Event) -> float:
    """Call `act` with each place in turn when it is due; seconds by which one was late at most.

    Args:
        name: of the run, for the words that say how far it is.
        due: seconds from now, rising.
        act: is given the place in `due`.
        stop: breaks it off once it is set.

    Raises:
        Stopped: `stop` is set.
    """
    begin, late = time.monotonic(), 0.0
    for place, at in enumerate(due):
        if stop.wait(max(begin + at - time.monotonic(), 0.0)):
            raise Stopped
        late = max(late, time.monotonic() - begin - at)
        act(place)
        if place % 40 == 0:
            tell(f"{name}: {place} of {len(due)} jobs submitted, at most {late:.1f} s late")
    return late


Run = TypeVar("Run")


def side_by_side(
    run: Callable[[Run, Event], None], missing: Sequence[Run], at_once: int, apart: float = 0.0
) -> None:
    """Do all runs, some at once; where one fails or we are stopped, all clusters go first.

    Args:
        run: does one; breaks it off once the event is set.
        missing: what to run.
        at_once: runs.
        apart: seconds between the first beginnings: bursts of submissions must not meet on a
            machine of few cores.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    stop = Event()

    def one(place: int) -> None:
        if not stop.wait(apart * (place % at_once) if place < at_once else 0.0):
            run(missing[place], stop)

    with ThreadPoolExecutor(at_once) as pool:
        try:
            list(pool.map(one, range(len(missing))))
        except BaseException:  # Ctrl-C and SIGTERM too
            stop.set()
            raise


def eligible_jobs(cluster: PrivateSlurm) -> int:
    """How many jobs wait that could start."""
    return len(cluster.run("sprio", "-h", "-o", "%i", timeout=PATIENCE).stdout.split())


def open_partition(cluster: PrivateSlurm, opened: bool) -> None:
    """Let jobs start, or not."""
    state = "up" if opened else "down"
    cluster.run("scontrol", "update", "partition=batch", f"state={state}", timeout=PATIENCE)


def wait_until_all_started(cluster: PrivateSlurm, stop: Event, seconds: float) -> None:
    """Wait until no job is pending.

    Raises:
        Stopped: `stop` is set.
    """

    def nobody_waits() -> bool:
        if stop.wait(1.0):
            raise Stopped
        waiting = cluster.run("squeue", "-h", "-t", "PD", "-o", "%A", timeout=PATIENCE)
        return not waiting.stdout

    cluster.wait_until(nobody_waits, seconds, "all started")


def wait_until_empty(cluster: PrivateSlurm, seconds: float) -> None:
    """Wait until no job is pending or runs, and accounting knows that all have ended."""
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
    """Cancel what these users have, the pending jobs first, so that accounting has all ends."""
    for state in ("PENDING", "RUNNING"):
        for user in users:
            cluster.run("scancel", f"--state={state}", f"--user={user}", timeout=PATIENCE)
    wait_until_empty(cluster, PATIENCE)


def keep_controller_log(cluster: PrivateSlurm, folder: Path) -> None:
    """slurmctld's log, gzip, in a folder."""
    log = cluster.directory.joinpath("log", CONTROLLER_LOG).read_bytes()
    folder.joinpath(f"{CONTROLLER_LOG}.gz").write_bytes(gzip.compress(log))
