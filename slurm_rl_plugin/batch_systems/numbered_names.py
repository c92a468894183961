"""Names of accounts, users and queues as whole numbers, for the columns of a snapshot."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

#: Characters of the longest name; of a longer one the rest is a digest.
LONGEST_NAME = 200


class Names:
    """Numbers names in the order in which they are first met."""

    def __init__(self, first: Iterable[str] = ()) -> None:
        self._index: dict[str, int] = {}
        for name in first:
            self.number(name)

    def number(self, name: str) -> int:
        """Give the name's number, a new one at first sight."""
        return self._index.setdefault(_short(name), len(self._index))

    @property
    def all(self) -> tuple[str, ...]:
        """Every name so far, in the order of the numbers."""
        return tuple(self._index)


def _short(name: str) -> str:
    """A name that is not too long for a label, a table or a line of the audit log."""
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{name[: LONGEST_NAME - 13]}~{digest}"
