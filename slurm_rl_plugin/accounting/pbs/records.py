"""The lines of PBS and Torque accounting files: records, named values, what runs asked for."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.port import NOT_READ, resources_text, totals_of
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.units import IntArray
from slurm_rl_plugin.whole_file import read_whole

#: More processors than any machine has: a column of 64 bits must hold what a user writes.
_MOST = 10**12
#: `JobNumber.subjob` of a job that is no array, and of the record of an array as a whole.
NO_ARRAY, WHOLE_ARRAY = -1, -2

#: The project of a job that was given none.
_NO_PROJECT = "_pbs_project_default"
_JOB_ID = re.compile(r"(\d{1,18})(?:\[(\d{0,9})\]|-(\d{1,9}))?(?:\.(.*))?", re.ASCII)
_SLOT = re.compile(r"(?:(\d{1,7})-(\d{1,7})|(?:\d+)\*(\d{1,7})|\d+)", re.ASCII)
_VNODE_NCPUS = re.compile(r":ncpus=(\d{1,7})", re.ASCII)
_EPOCH = re.compile(r"\d{1,11}(?:\.\d{1,9})?", re.ASCII)
_CLOCK = re.compile(r"(?:\d{1,9}:){0,3}\d{1,11}(?:\.\d{1,9})?", re.ASCII)
#: The head of a record: local time, type (`E` for the end of a run) and job. `grep` over several
#: files writes the file's name before each line.
HEAD = re.compile(
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


def time_of(values: Mapping[str, str], name: str) -> float:
    """Seconds since the epoch; NaN for nothing and 0, ValueError for no number."""
    text = values.get(name, "")
    if text and not _EPOCH.fullmatch(text):
        raise ValueError(f"{name}={text[:40]} is no time")
    return float(text or 0.0) or math.nan


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
    """Processors that a run occupied, 0 if the record does not say.

    PBS gives them in one number for the whole job. In Torque that number is a default for each
    node, so what was given to the job goes before what it had asked for.
    """
    vnodes, nodes = values.get("exec_vnode", ""), values.get("Resource_List.nodes", "")
    ncpus = _number(values.get("Resource_List.ncpus", ""))
    if vnodes or "Resource_List.select" in values:
        return ncpus or sum(int(each) for each in _VNODE_NCPUS.findall(vnodes))
    return (
        _number(values.get("total_execution_slots", ""))
        or _slots(values.get("exec_host", ""))
        or min(sum(each.times * each.cpus for each in _chunks(nodes, torque=True)), _MOST)
        or ncpus
    )


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


def parse_stamp(stamp: str, zone: tzinfo | None) -> float:
    """Seconds since the epoch of a local time; `zone` None takes this machine's."""
    local = datetime.strptime(stamp.partition(".")[0], "%m/%d/%Y %H:%M:%S").replace(tzinfo=zone)
    return local.timestamp()


#: A few dozen names in a whole log are looked at once each.
_is_name = lru_cache(maxsize=1 << 10)(lambda name: _NAME.fullmatch(name) is not None)


def cut_values(text: str) -> dict[str, str]:
    """Name -> value of `name=value name=value`, without the quotes that may hold spaces.

    A value that cannot be read raises ValueError: users choose some of these texts, and must not be
    able to pass one value off as another.
    """
    if '"' not in text:
        words = text.split()
        values = dict([pair for word in words if len(pair := word.split("=", 1)) == 2])
        if len(values) == len(words) and all(map(_is_name, values)):
            return values
    values = {}
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _VALUE.match(text, position, end)
        if found is None:
            raise ValueError(f"{text[position : position + 40]!r} is no name=value")
        name, quoted, plain = found["name"], found["quoted"], found["plain"]
        value = plain.strip() if quoted is None else quoted
        if values.setdefault(name, value) != value:
            raise ValueError(f"{name} is there twice")
        position = found.end()
    return values


_NAMES = tomllib.loads(read_whole(Path(__file__).with_name("requests.toml")).decode())
_LIST = "Resource_List."
_ASKED = tuple(
    f"{_LIST}{name}" for name in ("select", "nodes", "ncpus", "mem", "pmem", "ngpus", "place")
)
#: Any of these requests more than processors.
_TELLING = [name for name in _ASKED if name != "Resource_List.ncpus"]
_KNOWN = frozenset({*_ASKED, *(f"{_LIST}{name}" for name in _NAMES["without_effect"])})
_SIZE = re.compile(r"(\d{1,18})([kmgtpKMGTP]?)([bwBW]?)", re.ASCII)
_BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4, "p": 1024**5}
_WORD = 8
_COUNT = re.compile(r"\d{1,9}", re.ASCII)


class PbsRequest(NamedTuple):
    """What one run asked for; the columns of `stored.log.REQUESTS`."""

    resources: str = ""  #: amounts of the whole job, "" for processors alone
    nodes: int = 0  #: hosts that it got, 0 if unknown
    cpus_per_task: int = 1  #: CPUs of each chunk, 1 where chunks differ
    exclusive: bool = False


#: Of a record with processors alone.
NOTHING = PbsRequest()


def unread_requests(values: Mapping[str, str]) -> tuple[str, ...]:
    """What the values of an E record ask for and nothing here reads."""
    asked = (f"{_LIST}select", f"{_LIST}nodes")
    return _unread(
        tuple(name for name in values if name.startswith(_LIST) and name not in _KNOWN),
        tuple(values.get(name, "") for name in asked),
    )


@lru_cache(maxsize=1 << 14)
def _unread(names: tuple[str, ...], chunks: tuple[str, ...]) -> tuple[str, ...]:
    found = list(names)
    for name, text in zip(("select", "nodes"), chunks, strict=True):
        for part in text.split("+"):
            first, *rest = part.split(":")
            # a chunk without a count begins with a request; what begins a part of nodes is a host
            words = [first, *rest] if name == "select" and "=" in first else rest
            keys = (word.partition("=")[0] for word in words)
            found += [f"{_LIST}{name} {key}" for key in keys if key not in _NAMES["of_chunks"]]
    return tuple(f"{each}{NOT_READ}" for each in dict.fromkeys(found))


class _Chunk(NamedTuple):
    times: int
    cpus: int
    memory: float
    gpus: int


def request_of(values: Mapping[str, str], processors: int) -> PbsRequest:
    """The values of an E record; unknown ones are left out."""
    if not any(name in values for name in _TELLING):
        return NOTHING
    request = _request(tuple(values.get(name, "") for name in _ASKED), processors)
    where = values.get("exec_host") or values.get("exec_vnode", "")
    parts = where.split("+") if where else []
    hosts = {re.split("[/:]", part.strip("()"), maxsplit=1)[0] for part in parts}
    return request._replace(nodes=len(hosts))


@lru_cache(maxsize=1 << 14)
def _request(asked: tuple[str, ...], processors: int) -> PbsRequest:
    select, nodes, ncpus, mem, pmem, ngpus, place = asked
    chunks = _chunks(select or nodes, torque=not select)
    each_process = mebibytes(pmem) * processors
    memory = mebibytes(mem) or each_process or sum(each.times * each.memory for each in chunks)
    gpus = _number(ngpus) or sum(each.times * each.gpus for each in chunks)
    cpus = sum(each.times * each.cpus for each in chunks) or _number(ncpus) or processors
    sizes = {each.cpus for each in chunks}
    return PbsRequest(
        resources=resources_text({"cpus": cpus, "memory": memory, "gpus": gpus}),
        cpus_per_task=max(sizes.pop(), 1) if len(sizes) == 1 and select else 1,
        exclusive=any(word.startswith("excl") for word in place.split(":")),
    )


def _chunks(text: str, *, torque: bool) -> list[_Chunk]:
    """Chunks of a `select` of PBS, or of `nodes` of Torque.

    As `2:ncpus=8:mem=4gb:ngpus=1+1:ncpus=4`, where a chunk without a count is one; and as
    `2:ppn=8:gpus=1+node7:ppn=4`, where a name in place of a number is one node.
    """
    found = []
    for part in text.split("+") if text else ():
        first, *rest = part.split(":")
        if torque and not first:  # a damaged list has no processors
            return []
        counted = _COUNT.fullmatch(first) is not None
        words = rest if counted or torque else [first, *rest]
        given = dict(word.split("=", 1) for word in words if "=" in word)
        if torque:
            cpus, gpus = _number(given.get("ppn", "") or given.get("pn", "")) or 1, "gpus"
        else:
            cpus, gpus = _number(given["ncpus"]) if "ncpus" in given else 1, "ngpus"
        memory = 0.0 if torque else mebibytes(given.get("mem", ""))
        number = int(first) if counted else 1
        found.append(_Chunk(number, cpus, memory, _number(given.get(gpus, ""))))
    return found


def mebibytes(text: str) -> float:
    """MiB of a size such as `4022272kb`, `3gb` or `128kw`; 0 for other text."""
    found = _SIZE.fullmatch(text)
    if found is None:
        return 0.0
    size = int(found[1]) * _BYTES[found[2].lower()]
    return size * (_WORD if found[3].lower() == "w" else 1) / 1024**2


def _number(text: str) -> int:
    return int(text) if _COUNT.fullmatch(text) else 0


def requests_of_runs(
    distinct: Sequence[PbsRequest], place: IntArray, processors: IntArray
) -> ResourceRequests | None:
    """What runs asked for; None if all records have processors alone.

    `place` is the index of each run into the distinct requests, shape [runs].
    """
    if set(distinct) <= {NOTHING}:
        return None
    texts = [each.resources for each in distinct]
    names, total = totals_of(texts, place, processors)
    none = np.zeros(len(place), dtype=np.int64)
    return ResourceRequests(
        names=names,
        total=total,
        nodes=np.array([each.nodes for each in distinct], dtype=np.int64)[place],
        cpus_per_task=np.array([each.cpus_per_task for each in distinct], dtype=np.int64)[place],
        memory_per_cpu=none.astype(np.bool_),
        exclusive=np.array([each.exclusive for each in distinct], dtype=np.bool_)[place],
        constraint=none,
    )
