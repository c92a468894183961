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
    waits again after it ran starts anew later; one that was suspended goes on. A busy server shows
    a job as running before it shows since when: it is told once that is known. At the first look
    nothing has started.
    """

    def __init__(self) -> None:
        self._first = True
        self._waiting: frozenset[str] = frozenset()
        self._running: frozenset[str] = frozenset()
        #: Those of them of which it is known that they started.
        self._started: frozenset[str] = frozenset()

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
        under_way = [job for job in jobs if job.is_under_way]
        running = [job for job in under_way if not math.isnan(job.start)]
        started = [job for job in [*running, *ended] if job.name not in self._started]
        first, self._first = self._first, False
        self._waiting = frozenset(job.name for job in jobs if job.waits)
        self._running = frozenset(job.name for job in under_way)
        self._started &= self._running
        self._started |= {job.name for job in running}
        return [] if first else started, ended


def _ran_and_ended(job: PbsJob) -> bool:
    return job.state in FINAL_STATES and job.start <= job.end
