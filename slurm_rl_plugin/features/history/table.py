"""Rows of history by key, in one block of numbers, the longest unheard of dropped first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from slurm_rl_plugin.features.history.run_history import HISTORY
from slurm_rl_plugin.units import FloatArray, IntArray

#: Numbers of a line: key, time of the last event, the row of history.
LINE = 2 + HISTORY
_KEY, _HEARD, _ROW = 0, 1, 2


@dataclass(frozen=True, slots=True)
class HistoryTable:
    """Rows of history (`history.run_history`); `lines` has shape [n, LINE], sorted by key."""

    lines: FloatArray

    def __len__(self) -> int:
        return len(self.lines)

    @classmethod
    def empty(cls) -> Self:
        """A table without rows, shape [0, LINE]: nobody has been seen yet."""
        return cls(np.empty((0, LINE)))

    @property
    def rows(self) -> FloatArray:
        """The rows in the order of the table, shape [n, HISTORY]."""
        return self.lines[:, _ROW:]

    def places(self, keys: FloatArray) -> IntArray:
        """Place of each key, -1 where it has no row; shape [m]."""
        if len(self) == 0:
            return np.full(len(keys), -1, dtype=np.int64)
        known = np.ascontiguousarray(self.lines[:, _KEY])
        place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[place] == keys, place, -1)

    def rows_of(self, keys: FloatArray) -> dict[float, list[float]]:
        """A copy of the row of each key that has one."""
        place = self.places(keys)
        found = place >= 0
        rows = self.rows[place[found]].tolist()
        return dict(zip(keys[found].tolist(), rows, strict=True))

    def with_rows(
        self, rows: Mapping[float, list[float]], heard: Mapping[float, float], at_most: int
    ) -> Self:
        """A table with rows replaced or added, and no more than `at_most` of them.

        Args:
            rows: key -> row.
            heard: time of each key's last event, seconds since the epoch.
            at_most: of more rows those go that were heard of longest ago.
        """
        changed = np.array([[key, heard[key], *row] for key, row in rows.items()])
        changed = changed.reshape(-1, LINE)
        place = self.places(changed[:, _KEY])
        lines, old = self.lines.copy(), place >= 0
        earlier = lines[place[old], _HEARD]
        lines[place[old]] = changed[old]
        lines[place[old], _HEARD] = np.maximum(earlier, changed[old, _HEARD])
        added = changed[~old]
        added = added[np.argsort(added[:, _KEY])]
        at = np.searchsorted(lines[:, _KEY], added[:, _KEY])
        return type(self)(_heard_lately(np.insert(lines, at, added, axis=0), at_most))


def _heard_lately(lines: FloatArray, at_most: int) -> FloatArray:
    """Lines without those heard of longest ago; of those heard of at once, the largest keys go."""
    too_many = len(lines) - at_most
    if too_many <= 0:
        return lines
    heard = lines[:, _HEARD]
    last = np.partition(heard, too_many - 1)[too_many - 1]
    silent = np.flatnonzero(heard <= last)
    silent = silent[np.lexsort((-lines[silent, _KEY], heard[silent]))[:too_many]]
    return np.delete(lines, silent, axis=0)
