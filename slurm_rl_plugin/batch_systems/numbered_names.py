"""Names of accounts, users and queues as whole numbers, for the columns of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Numbers names in the order in which they are first met."""

    def __init__(self, first: Iterable[str] = ()) -> None:
        self._index: dict[str, int] = {}
        for name in first:
            self.number(name)

    def number(self, name: str) -> int:
        """Give the name's number, a new one at first sight."""
        return self._index.setdefault(name, len(self._index))

    @property
    def all(self) -> tuple[str, ...]:
        """Every name so far, in the order of the numbers."""
        return tuple(self._index)
