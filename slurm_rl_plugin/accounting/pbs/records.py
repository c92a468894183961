"""The lines of PBS and Torque accounting files: records, named values, and what the values mean."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import NamedTuple

#: `JobNumber.subjob` of a job that is no array, and of the record of an array as a whole.
NO_ARRAY, WHOLE_ARRAY = -1, -2

#: The project of a job that was given none.
_NO_PROJECT = "_pbs_project_default"
_JOB_ID = re.compile(r"(\d{1,18})(?:\[(\d{0,9})\]|-(\d{1,9}))?(?:\.(.*))?", re.ASCII)
_SLOT = re.compile(r"(?:(\d{1,7})-(\d{1,7})|(?:\d+)\*(\d{1,7})|\d+)", re.ASCII)
_VNODE_NCPUS = re.compile(r":ncpus=(\d{1,7})", re.ASCII)
_NODES = re.compile(r"(?:(\d{1,6})|[^:]+)(.*)", re.ASCII)
_PPN = re.compile(r":p{1,2}n=(\d{1,6})", re.ASCII)
_EPOCH = re.compile(r"\d{1,11}(?:\.\d{1,9})?", re.ASCII)
_CLOCK = re.compile(r"(?:\d{1,9}:){0,3}\d{1,11}(?:\.\d{1,9})?", re.ASCII)
#: `grep` over several files writes the file's name before each line.
_HEAD = re.compile(
    r"(?:[^\s;]*:)?(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(?:\.\d+)?);([A-Za-z]);([^;]*);", re.ASCII
)
_NAME = re.compile(r"[A-Za-z_][\w.\-]*", re.ASCII)
_VALUE = re.compile(
    r"""\s*(?P<name>[A-Za-z_][\w.\-]*)=
        (?: "(?P<quoted>.*?)" (?=\s+[A-Za-z_][\w.\-]*= | \s*$)
          | (?P<plain> (?: (?!\s[A-Za-z_][\w.\-]*=) . )* ) )""",
    re.ASCII | re.VERBOSE | re.DOTALL,
)


class JobNumber(NamedTuple):
    """`1234[5].server` in its parts; `subjob` is NO_ARRAY, WHOLE_ARRAY or that of one subjob."""

    number: int
    subjob: int
    server: str


def parse_job_id(text: str) -> JobNumber | None:
    """A job id as PBS (`7[3].host`) or Torque (`7-3.host` too) writes it; None for another form."""
    found = _JOB_ID.fullmatch(text)
    if found is None:
        return None
    number, bracketed, dashed, server = found.groups()
    index = bracketed if dashed is None else dashed
    if index is None:
        return JobNumber(int(number), NO_ARRAY, server or "")
    return JobNumber(int(number), int(index) if index else WHOLE_ARRAY, server or "")


def account_of(values: Mapping[str, str]) -> str:
    """Whose share a job uses: its account (qsub -A), else its project, its group, its user."""
    project = values.get("project", "")
    if project == _NO_PROJECT:
        project = ""
    return values.get("account") or project or values.get("group") or values.get("user", "")


def parse_epoch(text: str) -> float:
    """Seconds since the epoch; NaN for nothing and 0, ValueError for no number."""
    if not text:
        return math.nan
    if not _EPOCH.fullmatch(text):
        raise ValueError(text)
    return float(text) or math.nan


def parse_duration(text: str) -> float:
    """Seconds of `[[days:]hours:]minutes:seconds` or of a number of seconds; NaN for others."""
    if not _CLOCK.fullmatch(text):
        return math.nan
    parts = [float(part) for part in text.split(":")]
    days = parts.pop(0) if len(parts) == 4 else 0.0
    seconds = 0.0
    for part in parts:
        seconds = 60.0 * seconds + part
    return 86400.0 * days + seconds


def parse_processors(values: Mapping[str, str]) -> int:
    """Processors that a run occupied, 0 where the record does not tell.

    PBS tells them in one number for the whole job. In Torque that number is a default for each
    node, so what was given to the job goes before what it had asked for.
    """
    vnodes = values.get("exec_vnode", "")
    ncpus = _count(values.get("Resource_List.ncpus", ""))
    if vnodes or "Resource_List.select" in values:
        return ncpus or sum(int(each) for each in _VNODE_NCPUS.findall(vnodes))
    return (
        _count(values.get("total_execution_slots", ""))
        or _slots(values.get("exec_host", ""))
        or _asked_nodes(values.get("Resource_List.nodes", ""))
        or ncpus
    )


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _slots(exec_host: str) -> int:
    """Slots of `a/0+a/1`, `a/0-3`, `a/0,2` (Torque) or `a/0*4` (PBS)."""
    total = 0
    for part in exec_host.split("+"):
        for slot in part.rpartition("/")[2].split(","):
            found = _SLOT.fullmatch(slot)
            if found is None:
                return 0
            first, last, times = found.groups()
            if first is not None:
                total += max(int(last) - int(first) + 1, 0)
            else:
                total += int(times or 1)
    return total


def _asked_nodes(nodes: str) -> int:
    """Processors of `2:ppn=8+1:ppn=4`; a name in place of a number is one node."""
    total = 0
    for part in nodes.split("+") if nodes else ():
        found = _NODES.fullmatch(part)
        if found is None:
            return 0
        each = _PPN.search(found[2])
        total += int(found[1] or 1) * (int(each[1]) if each else 1)
    return total


class Record(NamedTuple):
    """One line: local time as written, type (`E` for the end of a run), job id, and the rest."""

    stamp: str
    kind: str
    job: str
    text: str


def cut_record(line: str) -> Record | None:
    """The parts of one line; None where it is no accounting record."""
    found = _HEAD.match(line)
    if found is None:
        return None
    stamp, kind, job = found.groups()
    return Record(stamp, kind, job, line[found.end() :])


def parse_stamp(stamp: str, zone: tzinfo | None) -> float:
    """Seconds since the epoch of a local time; `zone` None takes this machine's."""
    local = datetime.strptime(stamp.partition(".")[0], "%m/%d/%Y %H:%M:%S").replace(tzinfo=zone)
    return local.timestamp()


class ValueCutter:
    """Cuts `name=value name=value`, where values may hold spaces and stand in quotes."""

    def __init__(self) -> None:
        #: Names seen so far: a few dozen in a whole log, so each is checked once.
        self._names: set[str] = set()

    def cut(self, text: str) -> dict[str, str]:
        """Name -> value, without quotes.

        A value that cannot be told raises ValueError: users choose some of these texts, and must
        not be able to pass one value off as another.
        """
        if '"' not in text:
            try:
                pairs = [word.split("=", 1) for word in text.split()]
                values = dict(pairs)  # a word without = raises
            except ValueError:
                return self._cut_slowly(text)
            if len(values) == len(pairs) and (values.keys() <= self._names or self._learn(values)):
                return values
        return self._cut_slowly(text)

    def _learn(self, values: dict[str, str]) -> bool:
        if not all(_NAME.fullmatch(name) for name in values):
            return False
        self._names.update(values)
        return True

    def _cut_slowly(self, text: str) -> dict[str, str]:
        values: dict[str, str] = {}
        position, end = 0, len(text.rstrip())
        while position < end:
            found = _VALUE.match(text, position, end)
            if found is None:
                raise ValueError(f"{text[position : position + 40]!r} is no name=value")
            name, quoted, plain = found["name"], found["quoted"], found["plain"]
            value = plain.strip() if quoted is None else quoted
            if values.setdefault(name, value) != value:
                raise ValueError(f"{name} stands there twice")
            position = found.end()
        return values
