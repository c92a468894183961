"""A record of what a site had set before us, kept twice: one broken file loses nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from slurm_rl_plugin.whole_file import PRIVATE, owner_of_folder, read_own, write_whole

logger = logging.getLogger(__name__)
#: What is raised where a file cannot be read or is no such record.
UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError),
)
_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """The file, and a copy beside it that counts only while the file is there and broken.

    Attributes:
        path: of the file; nothing is kept where it is missing, whatever the copy says.
    """

    path: Path

    @property
    def copy(self) -> Path:
        """Written before the file and removed before it, so it is never of an earlier record."""
        return self.path.with_name(self.path.name + ".copy")

    def read(self, parsed: Callable[[Any], _Parsed]) -> _Parsed:
        """What the file says, or its copy where the file cannot be read.

        Args:
            parsed: makes it of the JSON document; raises one of UNREADABLE where it is none.

        Raises:
            FileNotFoundError: there is none.
            Exception: one of UNREADABLE; neither can be read.
        """
        try:
            return parsed(json.loads(_content(self.path)))
        except FileNotFoundError:
            raise
        except UNREADABLE as error:
            try:
                found = parsed(json.loads(_content(self.copy)))
            except UNREADABLE:
                raise error from None
            logger.warning("record=broken gone_by=copy path=%s error=%s", self.path, error)
            return found

    def write(self, document: Any) -> None:
        """Replace the copy, then the file, by this JSON document.

        Raises:
            OSError: as the file system says.
        """
        content = json.dumps(document)
        for path in (self.copy, self.path):
            write_whole(path, content, mode=PRIVATE)

    def remove(self) -> None:
        """Remove the copy and the file; either may be missing.

        Raises:
            OSError: as the file system says.
        """
        for path in (self.copy, self.path):
            path.unlink(missing_ok=True)


def _content(path: Path) -> bytes:
    return read_own(path, owners=owner_of_folder(path))
