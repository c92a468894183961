"""Rows of `squeue` as numbers, kept from look to look: most are the same rows in the next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.batch_systems.numbered_names import Names
from slurm_rl_plugin.batch_systems.slurm.answers.fields import MANY, QueueRow
from slurm_rl_plugin.batch_systems.slurm.answers.reasons import is_own_doing, waits_for_processors
from slurm_rl_plugin.domain.job_class import IsInteractive, classes_of
from slurm_rl_plugin.domain.job_description import JobDescription
from slurm_rl_plugin.units import IntArray

#: What a row comes to; names and partitions by their places in `words` and `partition_lists`.
LINE = np.dtype(
    [
        *((name, np.int64) for name in ("job_id", "array_id", "processors", "nice")),
        *((name, np.int64) for name in ("account", "user", "qos", "partitions")),
        *((name, np.float64) for name in ("submit", "eligible", "accrue", "start", "time_limit")),
        *((name, np.bool_) for name in ("interactive", "by_limit", "held")),
        *((name, np.bool_) for name in ("own_doing", "for_processors")),
    ]
)
_PRIORITY = QueueRow._fields.index("priority")
#: Rows that have gone are forgotten when there are more of them than this, and a tenth of all.
GONE_AT_LEAST = 1000
Lines = NDArray[Any]
Coded = TypeVar("Coded", str, tuple[str, ...])


class Codes(dict[Coded, int]):
    """Numbers words in the order in which they are met; `list(codes)` gives them back."""

    def __missing__(self, word: Coded) -> int:
        number = self[word] = len(self)
        return number


class RowNumbers:
    """Lines of rows; of a row object that was met before nothing is computed again.

    Args:
        interactive: the class rules.
        keeps_back: whether our limit on batch jobs may be what a row waits for.
    """

    def __init__(
        self, interactive: IsInteractive, keeps_back: Callable[[QueueRow], bool] | None = None
    ) -> None:
        self._interactive = interactive
        self._keeps_back = keeps_back
        self.words: Codes[str] = Codes()
        self.partition_lists: Codes[tuple[str, ...]] = Codes()
        self._rows: list[QueueRow] = []  # alive, so that no other row gets the identity of one
        self._place: dict[int, int] = {}
        self._lines: Lines = np.empty(0, dtype=LINE)

    def of(self, rows: Sequence[QueueRow]) -> Lines:
        """A line for each row, shape [n], of dtype LINE."""
        new = [row for row in rows if id(row) not in self._place]
        if len(new) > MANY * len(self._rows):
            new = self._that_say_more(new, set(map(id, rows)))
        if new:
            lines = np.array([self._line(row) for row in new], dtype=LINE)
            self._place.update((id(row), place) for place, row in enumerate(new, len(self._rows)))
            self._rows += new
            self._lines = np.concatenate([self._lines, lines])
        return self._lines[self._places(rows)]

    def _that_say_more(self, new: Sequence[QueueRow], here: Set[int]) -> list[QueueRow]:
        """New rows but for those that differ from an earlier one in points: they have its line.

        Args:
            new: rows.
            here: identities of rows whose lines are asked for too.
        """
        places = {row.job_id: place for place, row in enumerate(self._rows)}
        others = []
        for row in new:
            place = places.get(row.job_id, -1)
            old = self._rows[place] if place >= 0 else row
            if old is row or id(old) in here or not _differ_in_points(old, row):
                others.append(row)
                continue
            del self._place[id(old)]
            self._place[id(row)], self._rows[place] = place, row
        return others

    def forget_others(self, rows: Sequence[QueueRow]) -> None:
        """Forget rows that are none of these, once there are many."""
        here = [row for row in rows if id(row) in self._place]
        gone = len(self._rows) - len(here)
        if gone > max(GONE_AT_LEAST, len(here) // 10):
            self._lines = self._lines[self._places(here)]
            self._rows = here
            self._place = dict(zip(map(id, here), range(len(here)), strict=True))

    def _places(self, rows: Sequence[QueueRow]) -> IntArray:
        return np.fromiter(map(self._place.__getitem__, map(id, rows)), np.int64, len(rows))

    def _line(self, row: QueueRow) -> tuple[Any, ...]:
        keeps_back = self._keeps_back is not None and self._keeps_back(row)
        return (
            *(row.job_id, row.array_id, row.processors, row.nice),
            *(self.words[row.account], self.words[row.user], self.words[row.qos]),
            self.partition_lists[row.partitions],
            *(row.submit, row.eligible, row.accrue, row.start, row.time_limit),
            *classes_of(self._interactive, describe(row)),
            *(row.held, is_own_doing(row.reason)),
            waits_for_processors(row.reason) or keeps_back,
        )


def _differ_in_points(one: QueueRow, other: QueueRow) -> bool:
    """Whether two rows differ in the priority alone; either is held by it, or neither."""
    same = one[:_PRIORITY] == other[:_PRIORITY] and one[_PRIORITY + 1 :] == other[_PRIORITY + 1 :]
    return same and one.held == other.held


def numbers_of(names: Names, codes: IntArray, words: Sequence[str]) -> IntArray:
    """Numbers of names among those of a snapshot, new ones in the order of the rows; shape [n].

    Args:
        names: numbered so far; added to.
        codes: places in `words`, shape [n].
        words: all names that were ever met.
    """
    first = np.full(len(words), -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    met = np.flatnonzero(first >= 0)
    number = np.empty(len(words), dtype=np.int64)
    for code in met[np.argsort(first[met])].tolist():
        number[code] = names.number(words[code])
    return np.asarray(number[codes], dtype=np.int64)


def describe(row: QueueRow) -> JobDescription:
    """Show the class rules what they may see of a row."""
    return JobDescription(
        partition=",".join(row.partitions),
        qos=row.qos,
        name=row.name,
        time_limit=row.time_limit,
        has_batch_script=row.has_batch_script,
        account=row.account,
        user=row.user,
    )
