"""Which column of a `sacct -P` dump is which field, and cutting a row into its fields."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from slurm_rl_plugin.accounting.sacct.fields import FREE_TEXT, LOOSE, SEPARATOR, STRICT

#: A row with more separators than this to spare is taken as broken.
_MOST_EXTRA = 500
#: Why a line is no record where its fields do not tell it.
CUT_OFF = "truncated record"
_COST_OF_WIDENING = 1_000
_COST_OF_ODD_VALUE = 100_000


@dataclass(frozen=True)
class Layout:
    """The fields of a row, in order."""

    names: tuple[str, ...]  #: lower-case field names
    trailing: bool  #: every row ends with one more separator (`sacct -p`)
    header: str = ""  #: the header line, "" where the dump has none
    mark: str = ""  #: stands in front of each time, "" where nothing does; see `MarkedCutter`

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
        if fields is None or ("\n" in text and not self._breaks_in_free_text(fields)):
            return None
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

    @property
    def ends_in_free_text(self) -> bool:
        """Whether the last field may go on in the next line."""
        return not self.trailing and len(self.names) - 1 in self.free

    def _breaks_in_free_text(self, fields: list[str]) -> bool:
        """Whether line breaks are in free text only."""
        return not any("\n" in value for i, value in enumerate(fields) if i not in self.free)


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
    return _join(parts, origins) if math.isfinite(cost[extra]) else None


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


def _join(parts: list[str], origins: list[list[int]]) -> list[str]:
    taken = [len(parts) - len(origins)]
    for origin in reversed(origins):
        taken.append(origin[taken[-1]])
    ends = [column + k for column, k in enumerate(reversed(taken))]
    return [SEPARATOR.join(parts[start:end]) for start, end in pairwise(ends)]
