"""PBS's commands as child processes with a time-out, and repairs of the JSON that they print.

Up to 23.06 PBS prints a value that C reads as a number unquoted (`.5`, `0x10`, `nan`, `007`), and
backslashes unescaped, so one variable of one job would make the whole queue unreadable. These
releases print one value on each line: if the output is no JSON, each value is repaired by itself.
A number with a fraction or an exponent stays text, since `1.10` may be an account's name.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.command_process import KillableCommands
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


def read_json(text: str) -> Any:
    """The document, or ValueError or RecursionError; takes time in proportion to the text."""
    try:
        return _read(text)
    except ValueError:
        return _read("\n".join(_repaired(line) for line in text.split("\n")))


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


DEFAULT_CONF, DEFAULT_HOME = "/etc/pbs.conf", "/var/spool/pbs"
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
    """Read a document of `-F json`; see `read_json`."""
    try:
        document = read_json(text)
    except (ValueError, RecursionError):
        document = None
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


def read_pbs_conf(path: str) -> dict[str, str]:
    """Keys and values of pbs.conf; empty if it cannot be read."""
    try:
        lines = read_whole(Path(path)).decode(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if not line.lstrip().startswith("#"))
    return {name.strip(): value.strip() for name, sign, value in pairs if sign}
