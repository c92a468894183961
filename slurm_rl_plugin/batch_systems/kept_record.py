"""A record of what a site had set before us, stored twice so that one broken file loses nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from slurm_rl_plugin.whole_file import PRIVATE, UNREADABLE, kept_json, write_whole

logger = logging.getLogger(__name__)
_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """A file, and a copy in its folder that counts only while the file exists but is broken."""

    path: Path

    @property
    def copy(self) -> Path:
        """Written and removed before the file, so it never holds an earlier record."""
        return self.path.with_name(self.path.name + ".copy")

    def read(self, parsed: Callable[[Any], _Parsed]) -> _Parsed:
        """Parse the file, or its copy if the file cannot be read.

        Raises one of UNREADABLE if neither can be, FileNotFoundError if there is no file.
        """
        try:
            return parsed(kept_json(self.path))
        except FileNotFoundError:
            raise
        except UNREADABLE as error:
            try:
                found = parsed(kept_json(self.copy))
            except UNREADABLE:
                raise error from None
            logger.warning("record=broken gone_by=copy path=%s error=%s", self.path, error)
            return found

    def write(self, document: Any) -> None:
        """Replace the copy, then the file, by this JSON document."""
        content = json.dumps(document)
        for path in (self.copy, self.path):
            write_whole(path, content, mode=PRIVATE)

    def remove(self) -> None:
        """Remove the copy and the file; either may be missing."""
        for path in (self.copy, self.path):
            path.unlink(missing_ok=True)
