"""PBS's commands as child processes with a time-out, and scores written by libpbs or `qalter`.

libpbs runs in a child process for one question, which is killed after its time-out.

Up to 23.06 PBS prints a value that C reads as a number unquoted (`.5`, `0x10`, `nan`, `007`), and
backslashes unescaped, so one variable of one job would make the whole queue unreadable. These
releases print one value on each line: if the output is no JSON, each value is repaired by itself.
A number with a fraction or an exponent stays text, since `1.10` may be an account's name.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from slurm_rl_plugin.batch_systems.command_process import KillableCommands, first_line
from slurm_rl_plugin.batch_systems.pbs.answers.fields import (
    SCORE,
    WAITING_STATES,
    parse_score,
    resources_of,
    text,
)
from slurm_rl_plugin.batch_systems.pbs.kind import DEFAULT_CONF, read_pbs_conf
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, ChangeRejected
from slurm_rl_plugin.whole_file import read_whole

_KEY = re.compile(r'\s*("[^"\\]*(?:\\.[^"\\]*)*"):')
#: The name of a variable, printed with its quotes and backslashes unescaped.
_RAW_KEY = re.compile(r'\s*"(.*?)":')
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
#: Digits of the largest whole numbers that are read as numbers; longer ones stay text.
_DIGITS = 18


class ParsedObject(dict[str, Any]):
    """An object of the document; `twice` are the names that occur in it more than once."""

    twice: frozenset[str] = frozenset()


def _read(text: str) -> Any:
    return json.loads(
        text,
        strict=False,
        parse_int=_whole,
        parse_float=str,
        parse_constant=str,
        object_pairs_hook=_object,
    )


def _whole(digits: str) -> int | str:
    return int(digits) if len(digits) <= _DIGITS else digits


def _object(pairs: Sequence[tuple[str, Any]]) -> ParsedObject:
    found = ParsedObject(pairs)
    if len(found) < len(pairs):
        times = Counter(name for name, _ in pairs)
        found.twice = frozenset(name for name, count in times.items() if count > 1)
    return found


def _repaired(line: str) -> str:
    key = _KEY.match(line)
    name = None if key is None else key[1]
    if name is None or ("\\" in name and not _is_json(name)):
        key = _RAW_KEY.match(line)
        name = None if key is None else json.dumps(key[1])
    if key is None:
        return line
    value = line[key.end() :].strip()
    comma = "," if value.endswith(",") else ""
    return f"{name}:{_sound(value.removesuffix(','))}{comma}"


def _sound(value: str) -> str:
    """A value unchanged if it is JSON, else as text."""
    if value in ("{", "[", "{}", "[]", "true", "false", "null") or _NUMBER.fullmatch(value):
        return value
    if not value.startswith('"'):
        return json.dumps(value)
    return value if _is_json(value) else json.dumps(value[1:].removesuffix('"'))


def _is_json(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except ValueError:
        return False
    return True


@cache
def _sentences() -> dict[str, str]:
    return tomllib.loads(read_whole(Path(__file__).with_name("sentences.toml")).decode())


def sentence(of: str, **words: object) -> str:
    """A sentence of sentences.toml."""
    return _sentences()[of].format(**words)


DEFAULT_HOME = "/var/spool/pbs"
QSTAT_JOBS = ("qstat", "-f", "-F", "json")
QSTAT_QUEUES = ("qstat", "-Q", "-f", "-F", "json")
#: Named jobs in one query (18.1 and later). Without -E qstat connects again for each job, and some
#: hundreds would take longer than a call may.
QSTAT_BY_NAME = (*QSTAT_JOBS, "-E")
#: Attributes from the users' environments: private, and never needed.
PRIVATE = ("Variable_List", "Submit_arguments")


class PbsCommands(KillableCommands):
    """Runs PBS's commands in UTC, since they print local times."""

    title = "PBS"
    what_to_do = "check pbs_server with `qstat -B`"
    unreachable = (
        *("annot connect to", "Connection refused", "Communication failure", "No default server"),
        *("Unknown Host", "auth: error returned", "Munge", "Premature end of message"),
        "End of File",
    )
    longest = 512 << 20  # `qstat -f` shows a job with its user's environment

    def _prepared(self, environment: Mapping[str, str]) -> dict[str, str]:
        self.conf = read_pbs_conf(environment.get("PBS_CONF_FILE") or DEFAULT_CONF)
        folders = [environment.get("PATH", "")]
        if "PBS_EXEC" in self.conf:
            folders += [f"{self.conf['PBS_EXEC']}/{name}" for name in ("bin", "sbin")]
        path = os.pathsep.join(folder for folder in folders if folder)
        return {**environment, "PATH": path, "TZ": "UTC", "LC_ALL": "C"}

    def read_json(self, arguments: Sequence[str], *, or_nothing: bool = False) -> dict[str, Any]:
        """The JSON document that a command prints; with `or_nothing` named jobs may be gone."""
        answer = self.call(arguments)
        if answer.status and (not or_nothing or self.is_unreachable(answer.errors)):
            raise self.failure(arguments[0], answer.errors or answer.output)
        if answer.status and not answer.output.lstrip().startswith("{"):
            return {}
        return parse_json(arguments[0], answer.output)


failure, not_understood = PbsCommands.failure, PbsCommands.not_understood


def parse_json(command: str, text: str) -> dict[str, Any]:
    """Read a document of `-F json`, in time in proportion to the text."""
    document = None
    with suppress(ValueError, RecursionError):
        try:
            document = _read(text)
        except ValueError:
            document = _read("\n".join(_repaired(line) for line in text.split("\n")))
    if not isinstance(document, dict):
        raise not_understood(command, text)
    return document


def section(document: Mapping[str, Any], name: str) -> dict[str, dict[str, Any]]:
    """The named objects of one section, `Jobs` for example, without attributes private to users.

    A name that occurs twice is left out: up to PBS 23.06 the name of a variable could pretend to be
    another job, and which one is real cannot be seen.
    """
    found = document.get(name)
    if not isinstance(found, dict):
        return {}
    twice = found.twice if isinstance(found, ParsedObject) else frozenset()
    return {
        key: {field: each for field, each in value.items() if field not in PRIVATE}
        for key, value in found.items()
        if isinstance(value, dict) and key not in twice
    }


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
