"""Tells records that were there before: 20 to 24 bytes a record, whatever its length."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.units import BoolArray, IntArray

#: Places of the first table, and how many there are at least for each record.
_PLACES = 1 << 16
_PLACES_A_RECORD = 4
#: The longest stretch: so many records, or one of so many parts of all. To join two takes three
#: times their room.
_STRETCH, _STRETCHES = 1 << 20, 8


class SeenRecords:
    """Digests of all records so far, in sorted stretches of growing length.

    Two numbers of 64 bits stand for a record: among 100 million, two different ones share both with
    a chance of 1 in 10^22. A table of the digests' first bits tells of most records that none like
    it was there, without a look into the stretches.

    Args:
        stretch: the longest one has so many records, or a part of all.
    """

    def __init__(self, stretch: int = _STRETCH) -> None:
        self._stretch = stretch
        self._stretches: list[tuple[np.ndarray, np.ndarray]] = []
        self._records = 0
        self._taken = np.zeros(_PLACES, dtype=np.bool_)

    def told_before(self, first: np.ndarray, second: np.ndarray, places: IntArray) -> BoolArray:
        """Whether each record was there before, in this batch or an earlier one; remembers them.

        Args:
            first: uint64[n], one digest of each record.
            second: uint64[n], another one.
            places: tell which of the batch's records came before which; shape [n].
        """
        order = _order(first, second, places)
        one, other = first[order], second[order]
        same = np.zeros(len(order), dtype=np.bool_)
        same[1:] = (one[1:] == one[:-1]) & (other[1:] == other[:-1])
        perhaps = np.flatnonzero(self._taken[self._places_of(one)])
        same[perhaps] |= self._known(one[perhaps], other[perhaps])
        before = np.zeros(len(order), dtype=np.bool_)
        before[order] = same
        self._remember(one, other)
        return before

    def _known(self, first: np.ndarray, second: np.ndarray) -> BoolArray:
        known = np.zeros(len(first), dtype=np.bool_)
        for one, other in self._stretches:
            place = np.searchsorted(one, first)
            open_ones = np.flatnonzero(~known)
            while len(open_ones):
                at = place[open_ones]
                within = at < len(one)
                open_ones, at = open_ones[within], at[within]
                alike = one[at] == first[open_ones]
                open_ones, at = open_ones[alike], at[alike]
                known[open_ones] |= other[at] == second[open_ones]
                place[open_ones] += 1
        return known

    def _remember(self, first: np.ndarray, second: np.ndarray) -> None:
        """Keep digests, the first ones in order."""
        if not len(first):
            return
        self._stretches.append((first, second))
        self._merge()
        self._records += len(first)
        if self._records * _PLACES_A_RECORD > len(self._taken):
            places = len(self._taken)
            while places < self._records * _PLACES_A_RECORD:
                places *= 2
            self._taken = np.zeros(places, dtype=np.bool_)
            for each, _ in self._stretches:
                self._taken[self._places_of(each)] = True
        else:
            self._taken[self._places_of(first)] = True

    def _places_of(self, first: np.ndarray) -> np.ndarray:
        """Where in the table digests have their place: in their own order."""
        bits = len(self._taken).bit_length() - 1
        return first >> np.uint64(64 - bits)

    def _merge(self) -> None:
        """Join stretches so that each is longer than the next: few to look into, few to sort.

        Those of the longest length stay as they are.
        """
        longest = max(self._stretch, self._records // _STRETCHES)
        while len(self._stretches) > 1:
            (one, other), (more, others) = self._stretches[-2:]
            if not len(one) <= len(more) <= longest // 2:
                break
            first, second = np.concatenate([one, more]), np.concatenate([other, others])
            order = np.argsort(first, kind="stable")
            self._stretches[-2:] = [(first[order], second[order])]


def _order(first: np.ndarray, second: np.ndarray, places: IntArray) -> IntArray:
    """By all three; few share the first, and numpy's order of three keys takes far longer."""
    order = np.argsort(first)
    same = np.diff(first[order]) == 0
    shared = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if len(shared):
        rows = order[shared]
        order[shared] = rows[np.lexsort((places[rows], second[rows], first[rows]))]
    return order
