"""Scores of jobs: which may be written, and their writes by libpbs or, without it, by `qalter`.

libpbs is asked in a child that lives for one question and is killed when its time is over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.command_process import first_line
from slurm_rl_plugin.batch_systems.pbs.answers.fields import (
    SCORE,
    WAITING_STATES,
    parse_score,
    text,
)
from slurm_rl_plugin.batch_systems.pbs.process import (
    QSTAT_BY_NAME,
    QSTAT_JOBS,
    PbsCommands,
    failure,
    section,
)
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, ChangeRejected

PROGRAM = Path(__file__).with_name("libpbs_program.py")


class PbsLibrary:
    """Asks the program of the child, `libpbs_program.py`."""

    def __init__(self, commands: PbsCommands, path: Path) -> None:
        self._commands = commands
        self._path = path

    def ask(self, question: Mapping[str, Any], *, extra: float = 0.0) -> dict[str, Any]:
        """The child's answer, which may come `extra` seconds later than a command's."""
        asked = {"library": str(self._path), **question}
        return self._commands.ask(PROGRAM, asked, name="libpbs", library="libpbs", extra=extra)


def installed_library(commands: PbsCommands) -> PbsLibrary | None:
    """The libpbs of the installation that pbs.conf names; None where it has none."""
    path = Path(commands.conf.get("PBS_EXEC", "/opt/pbs"), "lib", "libpbs.so")
    return PbsLibrary(commands, path) if path.exists() else None


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
    """What the server says of a job afterwards: its state, the value, words of a refusal."""

    state: str  #: one letter
    value: str  #: of the score; "" for none
    words: str = ""  #: PBS's own, or why nothing was sent; "" where nothing was said


class Qalter:
    """One `qalter` a job; slow, but it needs nothing beside PBS's commands."""

    def __init__(self, commands: PbsCommands) -> None:
        self._commands = commands

    def send(self, writes: Sequence[ScoreWrite]) -> Mapping[str, JobAfterWrite]:
        """What the server says afterwards; jobs that it lacks are gone.

        The words of a job that SECONDS_OF_WRITING did not reach say so; the next cycle writes it.
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
        """As `Qalter.send`; the connection also reads the values back."""
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


#: PBS keeps the resource in single precision, which holds every whole number up to here.
HIGHEST_SCORE = 2**24
#: At or below 0 a job would stand behind all that have no score at all.
LOWEST_SCORE = 1
SOUND_SCORES = f"{LOWEST_SCORE}..{HIGHEST_SCORE}"
_COST = "a resource that job_sort_formula sorts by; each write is a record of PBS's accounting"
WRITE_COST = f"{SCORE}: {_COST}"
NO_INFLUENCE = (
    "influence_hours has no effect on PBS, which does not say what its formula makes of a job: our "
    "order comes first, and the site's own terms, fair share included, decide between jobs of one "
    "score"
)
ALONE = (
    "beside_controllers is for Slurm alone: with PBS nobody here can tell which server is in "
    "charge, and two daemons would undo each other's order; set it to false and run one daemon"
)
_STARTED = "it waits no longer"
_UNKNOWN = "Unknown Job Id"


def is_sound(score: float) -> bool:
    """Whether PBS keeps the score exactly and starts its job: whole, finite, within bounds."""
    return LOWEST_SCORE <= score <= HIGHEST_SCORE and score == int(score)


def write_scores(
    sender: Qalter | Ifl, writes: Sequence[ScoreWrite], default: float | None
) -> tuple[dict[str, str], frozenset[str]]:
    """Write scores, None to clear one, and read them back; job -> why it is not as wanted.

    The second value names those of them that still wait, and so have to be written again. `default`
    is what a job has that carries none.
    """
    if not all(write.score is None or is_sound(write.score) for write in writes):
        raise BatchSystemError(f"a score is no whole number of {SOUND_SCORES}")
    found = sender.send(writes)
    refused: dict[str, str] = {}
    ignored: set[str] = set()
    for write in writes:
        now = found.get(write.job)
        if now is None or now.state not in WAITING_STATES:
            refused[write.job] = _UNKNOWN if now is None else _STARTED
        elif not _as_wanted(score := parse_score(now.value), write.score, default):
            refused[write.job] = now.words or f"it was sent {write.value!r} and has {score}"
            ignored.add(write.job)
    if ignored and len(ignored) == len(writes):
        raise ChangeRejected(
            f"PBS takes no score ({refused[writes[0].job]}): make the user of this daemon a "
            f"manager or operator, and {SCORE} a resource of type float with flag i"
        )
    return refused, frozenset(ignored)


def _as_wanted(score: float | None, wanted: int | None, default: float | None) -> bool:
    if wanted is None:
        return score is None or (default is not None and math.isclose(score, default))
    return score is not None and math.isclose(score, wanted, rel_tol=1e-6)
