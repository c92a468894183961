"""Writes scores of jobs by libpbs or, without it, by `qalter`.

libpbs runs in a child process for one question, which is killed after its time-out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from slurm_rl_plugin.batch_systems.command_process import first_line
from slurm_rl_plugin.batch_systems.pbs.answers.fields import (
    SCORE,
    WAITING_STATES,
    parse_score,
    resources_of,
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


class Ifl:
    """Asks `libpbs_program.py` in a child process, which sends all writes over one connection."""

    def __init__(self, commands: PbsCommands, path: Path) -> None:
        self._commands = commands
        self._path = path

    def ask(self, question: Mapping[str, Any], *, extra: float = 0.0) -> dict[str, Any]:
        """The child's answer, for which `extra` is added to a command's time-out."""
        asked = {"library": str(self._path), **question}
        return self._commands.ask(PROGRAM, asked, name="libpbs", library="libpbs", extra=extra)

    def send(self, writes: Sequence[ScoreWrite]) -> Mapping[str, JobAfterWrite]:
        """The jobs after the writes, without those that are gone."""
        answer = self.ask(
            {
                "resource": SCORE,
                "writes": [[write.job, write.value] for write in writes],
                "seconds": SECONDS_OF_WRITING,
            },
            extra=SECONDS_OF_WRITING,
        )
        jobs, words = (resources_of(answer, name) for name in ("jobs", "words"))
        unsent = {write.job for write in writes[int(answer.get("sent", 0)) :]}
        return {
            name: JobAfterWrite(
                state, text(value), _NOT_SENT if name in unsent else text(words.get(name))
            )
            for name, (state, value) in jobs.items()
        }


def installed_library(commands: PbsCommands) -> Ifl | None:
    """The libpbs of the installation in pbs.conf; None if it has none."""
    path = Path(commands.conf.get("PBS_EXEC", "/opt/pbs"), "lib", "libpbs.so")
    return Ifl(commands, path) if path.exists() else None


#: At most this number of jobs is queried by name; otherwise all are read.
_FEW = 100
#: After these seconds of writing the rest waits for the next cycle. PBS commits each change to its
#: database, and the dead-man hook takes a daemon without a sign of life for dead.
SECONDS_OF_WRITING = 30.0
_NOT_SENT = "not sent in this cycle"


class ScoreWrite(NamedTuple):
    """The new score of a job; None clears it."""

    job: str
    score: int | None

    @property
    def value(self) -> str:
        """The score for PBS's commands; empty text clears it."""
        return "" if self.score is None else str(self.score)


class JobAfterWrite(NamedTuple):
    """A job after a write."""

    state: str  #: one letter
    value: str  #: of the score; "" for none
    words: str = ""  #: PBS's refusal, or why nothing was sent; "" for none


class Qalter:
    """Sends one `qalter` for each job: slow, but it needs only PBS's commands."""

    def __init__(self, commands: PbsCommands) -> None:
        self._commands = commands

    def send(self, writes: Sequence[ScoreWrite]) -> Mapping[str, JobAfterWrite]:
        """The jobs after the writes, without those that are gone.

        Jobs after SECONDS_OF_WRITING are not written; the next cycle writes them.
        """
        words: dict[str, str] = {}
        until = time.monotonic() + SECONDS_OF_WRITING
        for write in writes:
            if time.monotonic() > until:
                words[write.job] = _NOT_SENT
                continue
            answer = self._commands.call(["qalter", "-l", f"{SCORE}={write.value}", write.job])
            if answer.status:
                refusal = first_line(answer.errors or answer.output, otherwise="refused")
                words[write.job] = refusal.replace(write.job, "").strip()
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
            value = text(resources_of(values, "Resource_List").get(SCORE))
            state = text(values.get("job_state"))
            found[name] = JobAfterWrite(state, value, words.get(name, ""))
        return found


#: PBS keeps the resource in single precision, which holds every whole number up to here.
HIGHEST_SCORE = 2**24
#: At or below 0 a job would come after all jobs without a score.
LOWEST_SCORE = 1
SOUND_SCORES = f"{LOWEST_SCORE}..{HIGHEST_SCORE}"
_COST = "a resource that job_sort_formula sorts by; each write is a record of PBS's accounting"
WRITE_COST = f"{SCORE}: {_COST}"
NO_INFLUENCE = (
    "influence_hours has no effect on PBS, which does not show the priority of a job: our order "
    "comes first, and the site's own terms, fair share included, decide between jobs with equal "
    "scores"
)
ALONE = (
    "beside_controllers is for Slurm alone: a daemon cannot see which PBS server is in charge, "
    "and two daemons would undo each other's order; set it to false and run one daemon"
)
_STARTED = "it waits no longer"
_UNKNOWN = "Unknown Job Id"


def is_sound(score: float) -> bool:
    """Whether PBS keeps the score exactly and starts its job: whole, finite, within bounds."""
    return LOWEST_SCORE <= score <= HIGHEST_SCORE and score == int(score)


def write_scores(
    sender: Qalter | Ifl, writes: Sequence[ScoreWrite], default: float | None
) -> tuple[dict[str, str], frozenset[str]]:
    """Write scores, None to clear one, and read them back; job -> why it differs.

    The second value are those of these jobs that still wait, and must be written again. `default`
    is the score of a job without one.
    """
    if not all(write.score is None or is_sound(write.score) for write in writes):
        raise BatchSystemError(f"a score is not a whole number in {SOUND_SCORES}")
    found = sender.send(writes)
    refused: dict[str, str] = {}
    ignored: set[str] = set()
    for write in writes:
        now = found.get(write.job)
        if now is None or now.state not in WAITING_STATES:
            refused[write.job] = _UNKNOWN if now is None else _STARTED
        elif not _as_wanted(score := parse_score(now.value), write.score, default):
            refused[write.job] = now.words or f"{write.value!r} was sent, but it has {score}"
            ignored.add(write.job)
    if ignored and len(ignored) == len(writes):
        raise ChangeRejected(
            f"PBS accepts no score ({refused[writes[0].job]}): make the user of this daemon a "
            f"manager or operator, and {SCORE} a resource of type float with flag i"
        )
    return refused, frozenset(ignored)


def _as_wanted(score: float | None, wanted: int | None, default: float | None) -> bool:
    if wanted is None:
        return score is None or (default is not None and math.isclose(score, default))
    return score is not None and math.isclose(score, wanted, rel_tol=1e-6)
