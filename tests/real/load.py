"""A mixed load of short interactive and longer batch jobs, the same twice for a fair comparison."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.real.private_cluster import PrivateSlurm

INTERACTIVE_MINUTES, BATCH_MINUTES = 1, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A job to submit; `seconds` is what it really runs."""

    user: str
    interactive: bool
    seconds: float


def mixed_load(interactive: int, batch: int, seed: int) -> list[PlannedJob]:
    """Jobs of both classes and both accounts in one seeded order."""
    rng = random.Random(seed)
    jobs = []
    for number in range(interactive + batch):
        quick = number < interactive
        jobs.append(
            PlannedJob(
                user="alice" if rng.random() < 0.7 else "bob",
                interactive=quick,
                seconds=rng.randint(1, 3) if quick else rng.randint(10, 20),
            )
        )
    rng.shuffle(jobs)
    return jobs


def submit_all(slurm: PrivateSlurm, jobs: list[PlannedJob]) -> dict[int, PlannedJob]:
    """Submit in order; job id -> what was planned."""
    return {
        slurm.submit(
            user=job.user,
            seconds=job.seconds,
            minutes=INTERACTIVE_MINUTES if job.interactive else BATCH_MINUTES,
            name="quick" if job.interactive else "long",
        ): job
        for job in jobs
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What sacct says of a job; times in seconds since the epoch, its limit in minutes."""

    submit: int
    start: int
    end: int
    state: str
    limit: int


def outcomes(slurm: PrivateSlurm, job_ids: list[int]) -> dict[int, Outcome]:
    """What became of each job, from the accounting database."""
    done = slurm.run(
        "sacct",
        *("-a", "-X", "-D", "-P", "-n", "-S", "now-1day"),
        *("-j", ",".join(map(str, job_ids))),
        *("-o", "JobIDRaw,Submit,Start,End,State,TimelimitRaw"),
        env={"SLURM_TIME_FORMAT": "%s"},
    )
    found = {}
    for line in done.stdout.splitlines():
        job, submit, start, end, state, limit = line.split("|")
        if start.isdigit() and end.isdigit():
            found[int(job)] = Outcome(
                submit=int(submit),
                start=int(start),
                end=int(end),
                state=state,
                limit=int(limit or 0),
            )
    return found


@contextmanager
def repeating(act: Callable[[], object], pause: Callable[[], float]) -> Iterator[None]:
    """Calls `act` again and again in a thread during the block, after pauses in seconds."""
    stopped = threading.Event()

    def repeat() -> None:
        while not stopped.is_set():
            act()
            stopped.wait(pause())

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def mean(values: list[float]) -> float:
    return sum(values) / len(values)
