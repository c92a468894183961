"""A bound on the values of a label: so many names have series of their own, the rest share one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.units import FloatArray, IntArray

#: The label value of all names without series of their own.
OTHER = "_other"


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedNames:
    """Which value of a label each name gets: its own, or one that it shares with others.

    Attributes:
        labels: distinct label values.
        place: index into `labels` of each name, shape [names].
    """

    labels: tuple[str, ...]
    place: IntArray

    def sums(self, values: FloatArray) -> list[float]:
        """Values of the names, shape [names], summed up for each label."""
        sums: list[float] = np.bincount(
            self.place, weights=values, minlength=len(self.labels)
        ).tolist()
        return sums

    def counts(self, index: IntArray) -> list[int]:
        """How many entries of a column of name indices, -1 for unknown, each label has."""
        counts: list[int] = np.bincount(
            self.place[index[index >= 0]], minlength=len(self.labels)
        ).tolist()
        return counts


class LabelCap:
    """Names once admitted stay so: a counter that moved to another series would lose its past."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._own: set[str] = set()

    def of(self, names: Sequence[str], weight: FloatArray | None = None) -> CappedNames:
        """Labels of these names; while there is room, the heaviest new ones are admitted first.

        Args:
            names: distinct names.
            weight: shape [names]; None admits in the order given.
        """
        order = np.arange(len(names)) if weight is None else np.argsort(-weight, kind="stable")
        for place in order.tolist():
            if len(self._own) >= self._most:
                break
            if names[place] != OTHER:
                self._own.add(names[place])
        labels = [name for name in names if name in self._own]
        number = {name: place for place, name in enumerate(labels)}
        place = np.array([number.get(name, len(labels)) for name in names], dtype=np.int64)
        if len(labels) < len(names):
            labels.append(OTHER)
        return CappedNames(labels=tuple(labels), place=place)
