"""A fake Slurm in this process, whose jobs come, run and go with a clock that only we set."""

from __future__ import annotations

import io
import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from slurm_rl_plugin.batch_systems.command_process import Answer, KillableCommands
from tests.fakes.fake_cluster import BIN, NOW, FakeCluster

#: Seconds between two looks, and for which Slurm knows a job that has ended.
STEP, MIN_JOB_AGE = 5.0, 60.0
_PROCESSORS = 16
#: Jobs that come between two looks in the burst of a period, and after it.
_MANY, _FEW = 18, 5


@dataclass(slots=True)
class PassingJobs:
    """The fake's state, in memory.

    Attributes:
        state: as `FakeCluster` writes it.
        rng: of arrivals and run times.
        now: seconds since the epoch.
    """

    state: dict[str, Any]
    rng: random.Random
    now: float = float(NOW)
    _last: int = 0
    _until: dict[int, float] = field(default_factory=dict)

    def step(self, *, burst: bool) -> None:
        """Let STEP seconds pass: jobs come, end and start."""
        self.now += STEP
        for _ in range((_MANY if burst else _FEW) + self.rng.randint(-2, 2)):
            self._come()
        jobs = self.state["jobs"]
        for job in jobs:
            if job["state"] == "RUNNING" and self._until[job["job_id"]] <= self.now:
                del self._until[job["job_id"]]
                job.update(state="COMPLETED", end=int(self.now))
        waiting = [job for job in jobs if job["state"] == "PENDING"]
        waiting.sort(key=lambda job: (-job["site"], job["job_id"]))
        for job in waiting[: _PROCESSORS - len(self._until)]:
            job.update(state="RUNNING", start=int(self.now), nodes="n1", reason="None")
            self._until[job["job_id"]] = self.now + self.rng.choice([1.0, 2.0, 3.0, 5.0, 9.0])
        self.state["jobs"] = [job for job in jobs if not self._is_forgotten(job)]

    def _come(self) -> None:
        self._last += 1
        physics = self.rng.random() < 0.5
        self.state["jobs"].append(
            {
                **self.state["job"],
                "job_id": self._last,
                "array_id": self._last,
                "submit": int(self.now),
                "eligible": int(self.now),
                "time_limit": self.rng.choice(["0:50", "2:00:00"]),
                "account": "physics" if physics else "biology",
                "user": "alice" if physics else "bob",
            }
        )

    def _is_forgotten(self, job: dict[str, Any]) -> bool:
        return job["state"] == "COMPLETED" and self.now - job["end"] > MIN_JOB_AGE


@contextmanager
def passing_jobs(folder: Path, seed: int) -> Iterator[PassingJobs]:
    """Slurm's commands are answered in this process meanwhile, by the fakes of tests/fakes."""
    fake = FakeCluster(folder)
    fake.add(1)
    state = fake.state
    state["job"] = state["jobs"].pop()
    jobs = PassingJobs(state, random.Random(seed))
    sys.path.insert(0, str(BIN.parent))
    import fake_slurm  # type: ignore[import-not-found]  # noqa: PLC0415 - the fakes' own folder

    def call(
        self: KillableCommands,
        arguments: Sequence[str],
        *,
        stdin: str = "",
        variables: Mapping[str, str] | None = None,
        **more: object,
    ) -> Answer:
        del self, more
        output, errors = io.StringIO(), io.StringIO()
        with (
            redirect_stdout(output),
            redirect_stderr(errors),
            mock.patch.object(sys, "stdin", io.StringIO(stdin)),
            mock.patch.dict(os.environ, variables or {}),
        ):
            status = fake_slurm.COMMANDS[arguments[0]](jobs.state, list(arguments[1:]), "")
        return Answer(status=status or 0, output=output.getvalue(), errors=errors.getvalue())

    def clock() -> float:
        return jobs.now

    with (
        mock.patch.object(KillableCommands, "call", call),
        mock.patch("time.time", clock),  # of the daemon too
    ):
        yield jobs
