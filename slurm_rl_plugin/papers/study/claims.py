"""A published figure beside the one measured here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One figure of a paper.

    Attributes:
        group: the experiment that it belongs to.
        cell: its place there.
        published: as printed.
        measured: by this package.
        decimals: how many decimals were printed.
        source: who published it.
        at_most: whether the published figure is a bound to keep to, not a figure to equal.
    """

    group: str
    cell: str
    published: float
    measured: float
    decimals: int = 2
    source: str = "paper"
    at_most: bool = False

    @property
    def name(self) -> str:
        """Group and cell."""
        return f"{self.group}: {self.cell}"

    @property
    def difference(self) -> float:
        """Measured less published, in the printed decimals."""
        return round(round(self.measured, self.decimals) - self.published, self.decimals)

    @property
    def reproduces(self) -> bool:
        """Whether the measured figure, rounded as the published one, is the same.

        Of a bound: whether the measured figure, not rounded, is at most as high.
        """
        if self.at_most:
            return self.measured <= self.published
        return self.difference == 0.0

    @property
    def because(self) -> str:
        """The reason of the verdict."""
        if self.at_most:
            return "at most as published" if self.reproduces else "above the published"
        if self.reproduces:
            return "equal to two decimals" if self.decimals == 2 else "equal as printed"
        return f"differs by {100.0 * self.difference / self.published:+.2f} %"

    def as_json(self) -> dict[str, Any]:
        """Its entry of `reproduce --json`."""
        return {
            "name": self.name,
            "source": self.source,
            "published": self.published,
            "measured": self.measured,
            "difference": self.difference,
            "verdict": "reproduces" if self.reproduces else "does not",
            "because": self.because,
        }
