"""The fields of `sacct` that we read, how their values look, and cutting a row into them."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from slurm_rl_plugin.accounting.slurm.resources import printed_seconds
from slurm_rl_plugin.whole_file import read_whole

SEPARATOR = "|"
_TABLES = tomllib.loads(read_whole(Path(__file__).with_name("fields.toml")).decode())
#: The fields that we ask for, and those of XDMoD's form, which has no header.
SACCT_FIELDS, XDMOD_FIELDS = tuple(_TABLES["asked"]), tuple(_TABLES["xdmod"])
#: Fields that a header must have: the one to ask for, and those that serve as well.
REQUIRED: Mapping[str, Sequence[str]] = _TABLES["required"]
#: Fields that may hold the separator or a line break, the likeliest first.
FREE_TEXT: Sequence[str] = _TABLES["free_text"]
#: How the values that make up a job look; a row that breaks one of these is no record.
STRICT = {name: re.compile(each, re.ASCII) for name, each in _TABLES["strict"].items()}
#: How other values usually look: hints where a separator inside free text has shifted a row.
LOOSE = {
    name: re.compile(each["pattern"], re.ASCII)
    for each in _TABLES["loose"]
    for name in each["fields"]
}
#: States of a job that still waits or runs.
UNFINISHED: Sequence[str] = _TABLES["unfinished"]
_TIMES = ("Submit", "Eligible", "Start", "End")
#: Between a mark and the seconds of a time.
_AFTER_MARK = ":"
#: A time with its mark, as the first value of a record; `openssl rand -hex 8` makes such marks.
MARKED_TIME = re.compile(rf"([0-9a-f]{{16}}{_AFTER_MARK})\d{{1,11}}", re.ASCII)


def asked_as(fields: Sequence[str]) -> str:
    """These fields as `sacct -o` takes them; 22.05 cuts times to the width of their field."""
    return ",".join(f"{name}%40" if name in _TIMES else name for name in fields)


def marked_format(mark: str) -> dict[str, str]:
    """What makes `sacct` print a mark, 16 secret hexadecimal digits, in front of every time.

    A variable and not `--delimiter`: every user of the host sees a command's arguments, and a user
    who knew the mark could give a job a text that reads like the record of another job.
    """
    return {"SLURM_TIME_FORMAT": f"{mark}{_AFTER_MARK}%s"}


#: Prints them, by hand.
SACCT_COMMAND = (
    f"SLURM_TIME_FORMAT=$(openssl rand -hex 8){_AFTER_MARK}%s "
    f"sacct -a -X -D -P -S <start> -E now -o {asked_as(SACCT_FIELDS)}"
)


def sound_values(names: Sequence[str], line: str) -> list[str]:
    """The values of a row of `sacct -P` without free text, by the names of its fields.

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
    """Return seconds since the epoch (local times are taken as UTC); NaN for none."""
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


#: A row with more separators than this to spare is taken as broken.
_MOST_EXTRA = 500
#: Why a line is not a record, if its fields do not say.
CUT_OFF = "truncated record"
_COST_OF_WIDENING = 1_000
_COST_OF_ODD_VALUE = 100_000


@dataclass(frozen=True)
class Layout:
    """The fields of a row, in order."""

    names: tuple[str, ...]  #: lower-case field names
    trailing: bool  #: every row ends with one more separator (`sacct -p`)
    header: str = ""  #: the header line, "" where the dump has none
    mark: str = ""  #: the prefix of each time, "" for none; see `MarkedCutter`

    @cached_property
    def column(self) -> dict[str, int]:
        """Column of each name; the first one where a name is repeated."""
        return {name: i for i, name in reversed(list(enumerate(self.names)))}

    @cached_property
    def strict(self) -> list[tuple[int, re.Pattern[str]]]:
        """Columns whose values must look as their field does."""
        return [(i, STRICT[name]) for i, name in enumerate(self.names) if name in STRICT]

    @cached_property
    def loose(self) -> dict[int, re.Pattern[str]]:
        """Columns whose values usually look as their field does."""
        return {i: LOOSE[name] for i, name in enumerate(self.names) if name in LOOSE}

    @cached_property
    def free(self) -> dict[int, int]:
        """Columns of free text with their rank: a lower rank holds separators more often."""
        return {i: FREE_TEXT.index(name) for i, name in enumerate(self.names) if name in FREE_TEXT}

    def cut(self, text: str) -> list[str] | None:
        """Cut a row (of several lines if free text holds line breaks) into its fields.

        Separators to spare belong to free text: they are given to as few fields as possible such
        that every other value looks as it should. None if the text is no such row.
        """
        if self.trailing:
            if not text.endswith(SEPARATOR):
                return None
            text = text[:-1]
        extra = text.count(SEPARATOR) + 1 - len(self.names)
        if extra < 0 or extra > (_MOST_EXTRA if self.free else 0):
            return None
        parts = text.split(SEPARATOR)
        if extra:
            fields = _give_away(parts, self)
        else:
            sound = all(pattern.fullmatch(parts[i]) for i, pattern in self.strict)
            fields = parts if sound else None
        if fields is not None and "\n" in text:
            broken = {place for place, value in enumerate(fields) if "\n" in value}
            return fields if broken <= self.free.keys() else None
        return fields

    def begins_record(self, line: str) -> bool:
        """Whether a line that is no whole row is a faulty one or looks like the start of one."""
        parts = line.split(SEPARATOR)
        if len(parts) >= len(self.names):
            return True
        first, pattern = self.strict[0]
        return first < len(parts) and parts[first] != "" and bool(pattern.fullmatch(parts[first]))

    def ends_record(self, line: str) -> bool:
        """Whether a line that is no whole row looks like the end of one; its first part is cut."""
        parts = line.split(SEPARATOR)
        shift = len(self.names) - len(parts)
        told = [(parts[i - shift], pattern) for i, pattern in self.strict if i > shift]
        return any(value for value, _ in told) and all(
            pattern.fullmatch(value) for value, pattern in told
        )

    def may_go_on(self, line: str) -> bool:
        """Whether the next line may be more of this row: it reaches free text and fits so far."""
        parts = line.split(SEPARATOR)
        reach = min(self.free, default=len(parts))
        return reach < len(parts) and all(
            pattern.fullmatch(parts[i]) for i, pattern in self.strict if i < reach
        )

    def odd_field(self, line: str) -> tuple[str, str] | None:
        """Return name and value of the first field that does not look as it should, if any."""
        parts = line.split(SEPARATOR)
        for i, pattern in self.strict:
            if i < len(parts) and not pattern.fullmatch(parts[i]):
                return self.names[i], parts[i]
        return None

    def why_no_record(self, line: str) -> str:
        """Why a line is no record: the field that cannot be read in a whole row, else a cut."""
        parts = line.removesuffix(SEPARATOR if self.trailing else "").split(SEPARATOR)
        extra = len(parts) - len(self.names)
        first, last = min(self.free, default=-1), max(self.free, default=-1)
        for i, pattern in self.strict if extra >= 0 else ():
            # separators to spare are of free text: what lies between two such fields is not known
            known = extra == 0 or i < first or i > last >= 0
            if known and not pattern.fullmatch(parts[i + extra if i > last else i]):
                return f"unreadable {self.names[i]}"
        return CUT_OFF


def _give_away(parts: list[str], layout: Layout) -> list[str] | None:
    """Join parts to fields at the least cost, by dynamic programming over columns.

    After each column, `cost[k]` is the least cost of having put k spare parts into the columns so
    far, and `origins[column][k]` how many of them the columns before it took.
    """
    extra = len(parts) - len(layout.names)
    cost = [0.0] + [math.inf] * extra
    strict = dict(layout.strict)
    unchanged = list(range(extra + 1))
    origins = []
    for column in range(len(layout.names)):
        origin = unchanged
        if column in layout.free:
            cost, origin = _widen(cost, _COST_OF_WIDENING + layout.free[column])
        elif (pattern := strict.get(column) or layout.loose.get(column)) is not None:
            price = math.inf if column in strict else _COST_OF_ODD_VALUE
            for k, so_far in enumerate(cost):
                if so_far < math.inf and not pattern.fullmatch(parts[column + k]):
                    cost[k] += price
        origins.append(origin)
    if not math.isfinite(cost[extra]):
        return None
    taken = [extra]
    for origin in reversed(origins):
        taken.append(origin[taken[-1]])
    ends = [column + k for column, k in enumerate(reversed(taken))]
    return [SEPARATOR.join(parts[start:end]) for start, end in pairwise(ends)]


def _widen(cost: list[float], price: float) -> tuple[list[float], list[int]]:
    """Let one free-text column take spare parts wherever that is cheaper than taking none."""
    widened, origin = list(cost), list(range(len(cost)))
    cheapest = 0
    for k in range(1, len(cost)):
        if cost[cheapest] + price < cost[k]:
            widened[k], origin[k] = cost[cheapest] + price, cheapest
        if cost[k] < cost[cheapest]:
            cheapest = k
    return widened, origin
