"""Scores of jobs written to PBS and read back: by one connection of libpbs, or by `qalter`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from slurm_rl_plugin.batch_systems.command_process import first_line
from slurm_rl_plugin.batch_systems.pbs.answers.fields import SCORE, text
from slurm_rl_plugin.batch_systems.pbs.lever.libpbs import PbsLibrary
from slurm_rl_plugin.batch_systems.pbs.process import (
    QSTAT_BY_NAME,
    QSTAT_JOBS,
    PbsCommands,
    failure,
    section,
)
from slurm_rl_plugin.errors import BatchSystemUnavailable

#: So many jobs are asked for by name; of more all are read.
_FEW = 100
#: After so many seconds of writing the rest waits for the next cycle: a daemon that gives no sign
#: of life for longer is taken for dead, and PBS commits each change to its database.
SECONDS_OF_WRITING = 30.0
_NOT_SENT = "not sent in this cycle"


@dataclass(frozen=True, slots=True)
class ScoreWrite:
    """The score that a job should get; None clears what it carries."""

    job: str
    score: int | None

    @property
    def value(self) -> str:
        """The score as PBS's commands take it; empty text clears it."""
        return "" if self.score is None else str(self.score)


@dataclass(frozen=True, slots=True)
class JobAfterWrite:
    """What the server says of a job afterwards: its state, the value, words of a refusal.

    Attributes:
        state: one letter.
        value: of the score; "" for none.
        words: PBS's own, or why nothing was sent; "" where nothing was said.
    """

    state: str
    value: str
    words: str = ""


class ScoreSender(Protocol):
    """Sends scores and reads them back."""

    def send(self, writes: Sequence[ScoreWrite]) -> Mapping[str, JobAfterWrite]:
        """What the server says of its jobs after the writes; jobs that it lacks are gone.

        Args:
            writes: one for each job.

        Raises:
            BatchSystemUnavailable: no answer in time; some scores may have been written.
            BatchSystemError: it cannot be told what was written.
        """
        ...


class Qalter:
    """One `qalter` a job; slow, but it needs nothing beside PBS's commands."""

    def __init__(self, commands: PbsCommands) -> None:
        self._commands = commands

    def send(self, writes: Sequence[ScoreWrite]) -> Mapping[str, JobAfterWrite]:
        """Run `qalter` once for each job, until SECONDS_OF_WRITING are over, then read all back.

        A job that was not reached says so in its words; it is written in the next cycle.
        """
        words: dict[str, str] = {}
        until = time.monotonic() + SECONDS_OF_WRITING
        for write in writes:
            if time.monotonic() > until:
                words[write.job] = _NOT_SENT
                continue
            answer = self._commands.call(["qalter", "-l", f"{SCORE}={write.value}", write.job])
            if answer.status:
                words[write.job] = _without_job(answer.errors or answer.output, write.job)
                error = failure("qalter", answer.errors)
                if isinstance(error, BatchSystemUnavailable):
                    raise error
        return self._read_back([write.job for write in writes], words)

    def _read_back(
        self, jobs: Sequence[str], words: Mapping[str, str]
    ) -> Mapping[str, JobAfterWrite]:
        asked = jobs if len(jobs) <= _FEW else []
        command = [*QSTAT_BY_NAME, *asked] if asked else QSTAT_JOBS
        document = self._commands.read_json(command, or_nothing=bool(asked))
        found: dict[str, JobAfterWrite] = {}
        for name, values in section(document, "Jobs").items():
            resources: Any = values.get("Resource_List")
            value = resources.get(SCORE) if isinstance(resources, dict) else None
            state = text(values.get("job_state"))
            found[name] = JobAfterWrite(state, text(value), words.get(name, ""))
        return found


class Ifl:
    """Sends all values by one connection of libpbs."""

    def __init__(self, library: PbsLibrary) -> None:
        self._library = library

    def send(self, writes: Sequence[ScoreWrite]) -> Mapping[str, JobAfterWrite]:
        """Send all values over one connection of libpbs, which also reads them back."""
        answer = self._library.ask(
            {
                "resource": SCORE,
                "writes": [[write.job, write.value] for write in writes],
                "seconds": SECONDS_OF_WRITING,
            },
            extra=SECONDS_OF_WRITING,
        )
        jobs, words = (_section(answer, name) for name in ("jobs", "words"))
        unsent = {write.job for write in writes[int(answer.get("sent", 0)) :]}
        return {
            name: JobAfterWrite(
                state, text(value), _NOT_SENT if name in unsent else text(words.get(name))
            )
            for name, (state, value) in jobs.items()
        }


def _section(answer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = answer.get(name)
    return found if isinstance(found, dict) else {}


def _without_job(words: str, job: str) -> str:
    return first_line(words, otherwise="refused").replace(job, "").strip()
