"""How far the decided order is from the site's own: ranks of jobs, counted in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from slurm_rl_plugin.units import IntArray

#: Moves up to this many ranks are counted each, longer ones in steps of 10 %.
_EXACT = 100
_STEPS = _EXACT * 1.1 ** np.arange(1, 120)
#: Upper edges of the bins of a move's length; what is longer falls into the last.
_EDGES = np.unique(np.concatenate([np.arange(_EXACT + 1), _STEPS.astype(np.int64)]))


def kendall_tau(site_rank: IntArray) -> float | None:
    """Kendall's tau between the decided order and the site's: 1 the same, -1 the reverse.

    Args:
        site_rank: of the jobs in the decided order, all different, shape [n].

    Returns:
        None for fewer than two jobs.
    """
    count = len(site_rank)
    if count < 2:
        return None
    return 1.0 - 4.0 * inversions(site_rank) / (count * (count - 1))


def inversions(values: IntArray) -> int:
    """Pairs of different values that stand the wrong way round, bit by bit of their ranks."""
    rank = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    found = 0
    for bit in range(max(len(rank) - 1, 1).bit_length()):
        # pairs equal above the bit differ in it for the first time: a 1 before a 0 is inverted
        order = np.argsort(rank >> (bit + 1), kind="stable")
        group, one = rank[order] >> (bit + 1), (rank[order] >> bit) & 1
        ones = np.cumsum(one)
        begins = np.flatnonzero(np.diff(group, prepend=-1))
        before = np.repeat((ones - one)[begins], np.diff(np.append(begins, len(group))))
        found += int(((ones - before) * (1 - one)).sum())
    return found


@dataclass(slots=True)
class RankMoves:
    """Ranks that jobs would move, forward counted positive; each job once in every cycle.

    Attributes:
        forward, backward: counts of moves by their length, shape [len(_EDGES) + 1].
    """

    forward: IntArray = field(default_factory=lambda: np.zeros(len(_EDGES) + 1, dtype=np.int64))
    backward: IntArray = field(default_factory=lambda: np.zeros(len(_EDGES) + 1, dtype=np.int64))

    def add(self, moves: IntArray) -> None:
        """Count the moves of one cycle."""
        bins = np.searchsorted(_EDGES, np.abs(moves))
        self.forward += np.bincount(bins[moves > 0], minlength=len(self.forward))
        self.backward += np.bincount(bins[moves <= 0], minlength=len(self.backward))

    @property
    def count(self) -> int:
        """Moves counted, those of 0 ranks too."""
        return int(self.forward.sum() + self.backward.sum())

    def shares(self, further_than: int) -> tuple[float | None, float | None]:
        """Shares that would start more than so many ranks earlier, and later; None without any.

        Args:
            further_than: at most 100, up to which lengths are counted one by one.
        """
        if not self.count:
            return None, None
        beyond = slice(further_than + 1, None)
        earlier, later = self.forward[beyond].sum(), self.backward[beyond].sum()
        return float(earlier / self.count), float(later / self.count)

    def median(self) -> float | None:
        """Median move; exact up to 100 ranks, and within 10 % beyond; None without any."""
        if not self.count:
            return None
        length = np.append(_EDGES, _EDGES[-1]).astype(np.float64)
        value = np.concatenate([-length[::-1], length])
        counts = np.concatenate([self.backward[::-1], self.forward])
        place = int(np.searchsorted(np.cumsum(counts), (self.count + 1) // 2))
        return float(value[place]) + 0.0
