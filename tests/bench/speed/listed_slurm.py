"""A Slurm that is a folder of responses: its commands print them and record changes.

    python -m tests.bench.speed.listed_slurm FOLDER --jobs 100000

It runs as a process of its own, so that neither its time nor its memory counts as the hook's. Each
line that it reads is a minute: jobs start, end and arrive, and every fifth minute all priorities
rise with age (PriorityCalcPeriod). It prints a line when the responses are written.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from slurm_rl_plugin.batch_systems.slurm.answers.fields import QUEUE_FIELDS
from slurm_rl_plugin.units import HOUR, MINUTE

MARK = "@MARK@"
ACCOUNTS, PARTITIONS, USERS, RUNNING = 500, 10, 2_000, 2_000
#: Jobs that start, end and arrive in a minute.
CHURN = 100
#: Minutes between two calculations of priorities, and points that each adds.
CALCULATION, POINTS = 5, 8
BEGIN = 1_700_000_000
LIMITS = ("5:00", "15:00", "1:00:00", "4:00:00", "12:00:00", "1-00:00:00", "3-00:00:00")
COMMANDS = {
    "squeue": (
        'mark=${{SQUEUE_FORMAT2#*|}}; mark=${{mark%%|*}}\ncase " $* " in\n'
        "*' --jobs '*) answer=ended;; *) answer=squeue;;\nesac\n"
        f'exec sed "s/{MARK}/$mark/" {{folder}}/$answer\n'
    ),
    "sprio": "exec cat {folder}/sprio\n",
    "sshare": "exec cat {folder}/sshare\n",
    "sinfo": "exec cat {folder}/sinfo\n",
    "sdiag": "exec cat {folder}/sdiag\n",
    "scontrol": (
        'if [ "$1" = show ]; then exec cat {folder}/config; fi\nexec cat >> {folder}/writes\n'
    ),
}
CONFIG = """Configuration data as of 2026-11-22T03:00:00
ClusterName             = listed
PriorityMaxAge          = 7-00:00:00
PriorityType            = priority/multifactor
PriorityWeightAge       = 16000
SLURM_VERSION           = 22.05.8
SchedulerParameters     = (null)
"""
LOAD = (
    "sdiag output at Sun Nov 22 03:00:00 2026 (1700000000)\nServer thread count: 3\n"
    "Agent queue size: 0\nDBD Agent queue size: 0\n"
) + "".join(f"Jobs {each}: 0\n" for each in ("submitted", "started", "completed", "canceled"))


@dataclass
class ListedJobs:
    """The queue; jobs are dictionaries of squeue's fields."""

    rng: np.random.Generator
    now: int = BEGIN
    last: int = 0
    minutes: int = 0
    waiting: dict[int, dict[str, str]] = field(default_factory=dict)
    native: dict[int, int] = field(default_factory=dict)
    factor: dict[int, int] = field(default_factory=dict)
    running: list[dict[str, str]] = field(default_factory=list)
    ended: list[dict[str, str]] = field(default_factory=list)

    def submit(self, jobs: int) -> None:
        """Submits jobs."""
        limits = self.rng.choice(LIMITS, jobs).tolist()
        processors = self.rng.integers(1, 129, jobs).tolist()
        users = self.rng.integers(0, USERS, jobs).tolist()
        natives = self.rng.integers(1_000, 20_000, jobs).tolist()
        for limit, cpus, user, native in zip(limits, processors, users, natives, strict=True):
            self.last += 1
            self.native[self.last] = native
            self.waiting[self.last] = {
                "JobID": str(self.last),
                "ArrayJobID": str(self.last),
                "State": "PENDING",
                "Reason": "Priority",
                "Nice": "0",
                "NumCPUs": str(cpus),
                "SubmitTime": str(self.now),
                "EligibleTime": str(self.now),
                "AccrueTime": str(self.now),
                "StartTime": "N/A",
                "EndTime": "N/A",
                "TimeLimit": limit,
                "Account": f"department{user % ACCOUNTS:03}",
                "UserName": f"user{user:04}",
                "Partition": f"partition{user % PARTITIONS}",
                "QOS": "normal",
                "BatchFlag": "1",
                "NodeList": "",
                "ArrayTaskID": "N/A",
                "HetJobID": "N/A",
                "Name": f"job of user{user:04}",
            }

    def start(self, numbers: Sequence[int]) -> None:
        """Starts these jobs."""
        for number in numbers:
            job = self.waiting.pop(number)
            self.native.pop(number)
            self.factor.pop(number, None)
            node = f"n{number % 512:03}"
            self.running.append(
                {**job, "State": "RUNNING", "Reason": "None", "NodeList": node}
                | {"StartTime": str(self.now), "EndTime": str(self.now + 86_400)}
            )

    def minute(self, churn: int) -> None:
        """Lets a minute pass."""
        self.now += int(MINUTE)
        self.minutes += 1
        self.start(self.rng.choice(list(self.waiting), churn, replace=False).tolist())
        self.ended = [
            {**job, "State": "COMPLETED", "EndTime": str(self.now)} for job in self.running[:churn]
        ]
        del self.running[:churn]
        self.submit(churn)
        if self.minutes % CALCULATION == 0:
            self.native = {number: points + POINTS for number, points in self.native.items()}

    def hear(self, text: str) -> None:
        """Takes the factors that `scontrol` wrote."""
        for line in text.splitlines():
            _, job, factor = line.split()
            self.factor[int(job.partition("=")[2])] = int(factor.partition("=")[2])

    def answers(self) -> Iterator[tuple[str, str]]:
        """File and response of each command."""
        total = {job: native + self.factor.get(job, 0) for job, native in self.native.items()}
        waiting = (
            _record({**fields, "PriorityLong": str(total[job])})
            for job, fields in self.waiting.items()
        )
        running = "".join(_record({**fields, "PriorityLong": "1"}) for fields in self.running)
        yield "squeue", "".join(waiting) + running
        yield "ended", "".join(_record({**each, "PriorityLong": "1"}) for each in self.ended)
        yield (
            "sprio",
            "".join(
                f"{job}|{fields['Partition']}|{total[job]}|{self.factor.get(job, 0)}|0|"
                f"{self.native[job]}|0|0|0|0|0|cpu=0.00\n"
                for job, fields in self.waiting.items()
            ),
        )


def _record(fields: dict[str, str]) -> str:
    first, *others = (fields[name] for name in QUEUE_FIELDS)
    return f"{first}|{MARK}|" + "|".join(others) + "\n"


@dataclass
class ListedSlurm:
    """The process and the environment with its commands."""

    environment: dict[str, str]
    _child: subprocess.Popen[str]
    _now: float = BEGIN

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._now

    @classmethod
    def begun(cls, folder: Path, jobs: int) -> Self:
        """Starts it and waits for the first responses."""
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.speed.listed_slurm", str(folder), f"--jobs={jobs}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        listed = cls({"PATH": f"{folder / 'bin'}:/usr/bin:/bin"}, child)
        listed._ready()
        return listed

    def grow_older(self) -> None:
        """Lets a minute pass."""
        self._now += MINUTE
        assert self._child.stdin is not None
        self._child.stdin.write("minute\n")
        self._child.stdin.flush()
        self._ready()

    def end(self) -> None:
        """Ends the process."""
        self._child.terminate()
        self._child.wait()

    def _ready(self) -> None:
        assert self._child.stdout is not None
        if self._child.stdout.readline() != "ready\n":
            raise RuntimeError("the listed Slurm has ended")


def _write_commands(folder: Path) -> None:
    programs = folder / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name, text in COMMANDS.items():
        program = programs / name
        program.write_text("#!/bin/sh\n" + text.format(folder=folder))
        program.chmod(0o755)
    tree = ["root||1|100"]
    for number in range(ACCOUNTS):
        name, usage = f"department{number:03}", 1 + number % 7
        tree += [f" {name}||{1 + number % 5}|{usage}", f"  {name}|user{number:04}|1|{usage}"]
    nodes = [
        f"n{node:03}|8/120/0/128|partition{partition}|1"
        for node in range(512) for partition in range(PARTITIONS)
    ]  # fmt: skip
    files = {"sshare": tree, "sinfo": nodes, "config": [CONFIG], "writes": [], "sdiag": [LOAD]}
    for name, lines in files.items():
        folder.joinpath(name).write_text("".join(f"{line}\n" for line in lines))
    with folder.joinpath("sdiag").open("a") as file:
        file.write("Jobs failed: 0\n")


def main() -> None:
    """Writes the responses, and again for each line that it reads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=100_000)
    options = parser.parse_args()
    _write_commands(options.folder)
    queue = ListedJobs(np.random.default_rng(1))
    queue.now -= int(240 * HOUR)
    for _ in range(240):  # ages up to ten days
        queue.submit((options.jobs + RUNNING) // 240)
        queue.now += int(HOUR)
    queue.start(list(queue.waiting)[:RUNNING])
    writes = options.folder / "writes"
    while True:
        for name, text in queue.answers():
            options.folder.joinpath(name).write_text(text)
        print("ready", flush=True)
        if not sys.stdin.readline():
            return
        queue.hear(writes.read_text())
        writes.write_text("")
        queue.minute(CHURN)


if __name__ == "__main__":
    main()
