"""Which jobs started and which ended between two looks at the queue, each told once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from slurm_rl_plugin.batch_systems.pbs.answers.fields import FINAL_STATES, PbsJob, is_array

#: Vanished jobs asked for in one snapshot; what became of others is not told.
ASK_AT_MOST = 500


class PbsWatch:
    """Remembers who waited and who ran, to tell new starts and new ends.

    Jobs that are gone are asked for where the server keeps a history; else, and for subjobs that
    came and went between two looks, nobody knows when they ended, so nothing is told. A job that
    waits again after it ran starts anew later; one that was suspended goes on. A job whose prologue
    runs has no start yet, and starts when it has one. At the first look nothing has started.
    """

    def __init__(self) -> None:
        self._first = True
        self._waiting: frozenset[str] = frozenset()
        self._running: frozenset[str] = frozenset()
        #: Number of an array that waits -> when a subjob of it last started, seconds since the
        #: epoch.
        self.last_start: dict[int, float] = {}

    def told(
        self, jobs: Sequence[PbsJob], ask: Callable[[Sequence[str]], Sequence[PbsJob]]
    ) -> tuple[list[PbsJob], list[PbsJob]]:
        """The jobs that started, and those that ended, since the last call.

        Args:
            jobs: all that wait or run.
            ask: gives those of the named jobs of which the server knows an end; if it raises,
                the next call tells what this one would have told.
        """
        here = {job.name for job in jobs}
        gone = sorted(name for name in (self._waiting | self._running) - here if not is_array(name))
        answers = ask(gone[:ASK_AT_MOST]) if gone else []
        ended = [job for job in answers if _ran_and_ended(job) and job.name in gone]
        running = [job for job in jobs if _runs(job)]
        started = [job for job in [*running, *ended] if job.name not in self._running]
        first, self._first = self._first, False
        self._keep_last_starts(jobs, started)
        self._running = frozenset(job.name for job in running)
        may_start = (job.name for job in jobs if job.waits or job.is_under_way)
        self._waiting = frozenset(may_start) - self._running
        return [] if first else started, ended

    def _keep_last_starts(self, jobs: Sequence[PbsJob], started: Sequence[PbsJob]) -> None:
        for job in started:
            self.last_start[job.array_id] = max(self.last_start.get(job.array_id, 0.0), job.start)
        arrays = {job.job_id for job in jobs if job.waits and is_array(job.name)}
        self.last_start = {each: at for each, at in self.last_start.items() if each in arrays}


def _runs(job: PbsJob) -> bool:
    return job.is_under_way and not math.isnan(job.start)


def _ran_and_ended(job: PbsJob) -> bool:
    return job.state in FINAL_STATES and job.start <= job.end
