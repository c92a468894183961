"""Tells records that were there before: sixteen bytes a record, whatever its length."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.units import BoolArray, IntArray


class SeenRecords:
    """Digests of all records so far, in sorted stretches of growing length.

    Two numbers of 64 bits stand for a record: among 100 million, two different ones share both with
    a chance of 1 in 10^22.
    """

    def __init__(self) -> None:
        self._stretches: list[tuple[np.ndarray, np.ndarray]] = []

    def told_before(self, first: np.ndarray, second: np.ndarray, places: IntArray) -> BoolArray:
        """Whether each record was there before, in this batch or an earlier one; remembers them.

        Args:
            first: uint64[n], one digest of each record.
            second: uint64[n], another one.
            places: tell which of the batch's records came before which; shape [n].
        """
        order = np.argsort(first)
        if np.any(np.diff(first[order]) == 0):  # numpy's order of three keys takes far longer
            order = np.lexsort((places, second, first))
        one, other = first[order], second[order]
        same = np.zeros(len(order), dtype=np.bool_)
        same[1:] = (one[1:] == one[:-1]) & (other[1:] == other[:-1])
        before = np.zeros(len(order), dtype=np.bool_)
        before[order] = same | self._known(one, other)
        self._stretches.append((one, other))
        self._merge()
        return before

    def _known(self, first: np.ndarray, second: np.ndarray) -> BoolArray:
        known = np.zeros(len(first), dtype=np.bool_)
        for one, other in self._stretches:
            if not len(one):
                continue
            place = np.searchsorted(one, first)
            last = np.searchsorted(one, first, side="right")
            while (open_ones := place < last).any():
                at = np.minimum(place, len(one) - 1)
                known |= open_ones & (other[at] == second)
                place = place + 1
        return known

    def _merge(self) -> None:
        """Join stretches so that each is longer than the next: few to look into, few to sort."""
        while len(self._stretches) > 1 and len(self._stretches[-2][0]) <= len(
            self._stretches[-1][0]
        ):
            (one, other), (more, others) = self._stretches[-2:]
            first, second = np.concatenate([one, more]), np.concatenate([other, others])
            order = np.argsort(first, kind="stable")
            self._stretches[-2:] = [(first[order], second[order])]
