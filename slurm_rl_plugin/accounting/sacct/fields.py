"""The fields of `sacct` that we read: how their values look and what they mean."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime

from slurm_rl_plugin.accounting.slurm.resources import printed_seconds

SEPARATOR = "|"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


#: All that the reader can use, known to every release from 22.05 to 26.05. A record begins with its
#: submission, and every text of a job's user but the first stands behind it again: the mark of
#: `marked_format` in that time tells where each begins.
SACCT_FIELDS = _words(
    "Submit Cluster JobIDRaw User Account Partition QOS Eligible Start End ElapsedRaw TimelimitRaw "
    "NCPUS NNodes ReqTRES Flags State Constraints Submit JobName Submit SubmitLine"
)
_TIMES = frozenset(_words("Submit Eligible Start End"))
#: Between a mark and the seconds of a time.
_AFTER_MARK = ":"
#: A time with its mark, as the first value of a record; `openssl rand -hex 8` makes such marks.
MARKED_TIME = re.compile(rf"([0-9a-f]{{16}}{_AFTER_MARK})\d{{1,11}}", re.ASCII)


def asked_as(fields: Sequence[str]) -> str:
    """These fields as `sacct -o` takes them; 22.05 cuts times to the width of their field."""
    return ",".join(f"{name}%40" if name in _TIMES else name for name in fields)


def marked_format(mark: str) -> dict[str, str]:
    """What makes `sacct` print a mark in front of every time.

    A variable and not `--delimiter`: every user of the host sees a command's arguments, and a user
    who knew the mark could give a job a text that reads like the record of another job.

    Args:
        mark: 16 hexadecimal digits that nobody can guess.
    """
    return {"SLURM_TIME_FORMAT": f"{mark}{_AFTER_MARK}%s"}


#: Prints them, by hand.
SACCT_COMMAND = (
    f"SLURM_TIME_FORMAT=$(openssl rand -hex 8){_AFTER_MARK}%s "
    f"sacct -a -X -D -P -S <start> -E now -o {asked_as(SACCT_FIELDS)}"
)

#: What XDMoD's documented `sacct --noheader` line prints.
XDMOD_FIELDS = _words(
    "jobid jobidraw cluster partition qos account group gid user uid submit eligible start end "
    "elapsed exitcode state nnodes ncpus reqcpus reqmem reqtres alloctres timelimit nodelist "
    "jobname"
)

#: Fields that a header must have: the one to ask for, and those that serve as well.
REQUIRED = {
    "JobIDRaw": ("jobidraw", "jobid"),
    "Submit": ("submit",),
    "Start": ("start",),
    "ElapsedRaw": ("elapsedraw", "elapsed", "end"),
    "NCPUS": ("ncpus", "alloccpus", "reqcpus"),
}

#: Fields that may hold the separator or a line break, the likeliest first.
FREE_TEXT = _words(
    "jobname submitline constraints comment admincomment systemcomment extra workdir stdin "
    "stdout stderr wckey container"
)

_TIME = r"\d{1,11}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
_NO_TIME = r"Unknown|None|N/A|INVALID"
_DURATION = r"-?(\d{1,6}-)?\d{1,9}:\d\d(:\d\d)?(\.\d+)?"
_COUNT = r"-?\d{1,9}"


def _whole(pattern: str, *, optional: bool = True) -> re.Pattern[str]:
    return re.compile(f"({pattern}){'?' if optional else ''}", re.ASCII)


#: How the values that make up a job look; a row that breaks one of these is no record.
STRICT = {
    "jobid": _whole(r"\d{1,18}([_+][^.\s]*)?(\.\S+)?", optional=False),
    "jobidraw": _whole(r"\d{1,18}([_+][^.\s]*)?(\.\S+)?", optional=False),
    "submit": _whole(f"{_TIME}|{_NO_TIME}", optional=False),
    "state": _whole(r"[A-Z_]+\+?( by [^\s|]+)?", optional=False),
    **dict.fromkeys(("eligible", "start", "end"), _whole(f"{_TIME}|{_NO_TIME}")),
    "elapsed": _whole(f"{_DURATION}|INVALID"),
    "elapsedraw": _whole(_COUNT + "|INVALID"),
    "timelimit": _whole(f"{_DURATION}|UNLIMITED|Partition_Limit|INVALID"),
    "timelimitraw": _whole(_COUNT + "|UNLIMITED|Partition_Limit|INVALID"),
    **dict.fromkeys(("ncpus", "alloccpus", "reqcpus"), _whole(_COUNT)),
}

#: How other values usually look: hints where a separator inside free text has shifted a row.
LOOSE = {
    **dict.fromkeys(
        _words("associd uid gid dbindex qosraw cputimeraw reservationid resvcpuraw priority"),
        _whole(r"-?\d+"),
    ),
    **dict.fromkeys(("exitcode", "derivedexitcode"), _whole(r"\d+:\d+")),
    **dict.fromkeys(
        _words("cputime suspended totalcpu usercpu systemcpu reserved resvcpu planned"),
        _whole(f"{_DURATION}|INVALID"),
    ),
    **dict.fromkeys(("alloctres", "reqtres"), _whole(r"[\w/:-]+=[^|\s]*")),
    "nnodes": _whole(r"[\d.]+[KMG]?"),
}

_UNFINISHED = frozenset(
    _words(
        "PENDING RUNNING SUSPENDED CONFIGURING COMPLETING STOPPED SIGNALING STAGE_OUT REQUEUE_HOLD "
        "SPECIAL_EXIT"
    )
)


def is_unfinished(state: str) -> bool:
    """Whether a State says that the job still waits or runs."""
    return state in _UNFINISHED


def sound_values(names: Sequence[str], line: str) -> list[str]:
    """The values of a row without free text.

    Args:
        names: of its fields.
        line: as `sacct -P` prints it.

    Raises:
        ValueError: a value is missing, or does not look as one of its field.
    """
    values = line.split(SEPARATOR)
    for name, value in zip(names, values, strict=True):
        pattern = STRICT.get(name.lower())
        if pattern is not None and not pattern.fullmatch(value):
            raise ValueError(f"{value!r} is no {name}")
    return values


def parse_time(text: str) -> float:
    """Return seconds since the epoch (local times are taken as UTC); NaN where none is told."""
    if text.isdecimal():
        return float(text) or math.nan
    if "T" not in text:
        return math.nan
    try:
        return datetime.fromisoformat(text + "+00:00").timestamp()
    except ValueError:
        return math.nan


def parse_duration(text: str) -> float:
    """Return the seconds that a job took or may take, or less than 0; NaN for words and nothing."""
    if ":" not in text:
        return math.nan
    seconds = printed_seconds(text.removeprefix("-"))
    return -seconds if text.startswith("-") else seconds


def parse_count(text: str) -> float:
    """Return a whole number as float; NaN for words and nothing."""
    return float(text) if text.removeprefix("-").isdecimal() else math.nan
