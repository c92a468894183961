"""A record of the limits that a site had before ours; stored twice, so no broken file loses it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import PRIVATE, UNREADABLE, beside, kept_json, write_whole

logger = logging.getLogger(__name__)
_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """A file, and a copy in its folder that counts only while the file exists but is broken.

    ConfigurationError if the record cannot be read or changed: then nothing may be limited.
    """

    path: Path | None  #: None for a command that only reads limits
    by_hand: str  #: shell commands that set the site's own limits

    def read(self, parsed: Callable[[Any], _Parsed]) -> _Parsed | None:
        """Parse the file, or its broken one's copy; None without a file.

        `parsed` raises one of UNREADABLE for another document.
        """
        if self.path is None:
            return None
        try:
            return parsed(kept_json(self.path))
        except FileNotFoundError:
            return None
        except UNREADABLE as error:
            broken = error
        try:
            found = parsed(kept_json(beside(self.path, "copy")))
        except UNREADABLE:
            raise ConfigurationError(
                f"{self.path}, which keeps the site's own limits, cannot be read ({broken}), nor "
                f"can its copy: set the limits by hand ({self.by_hand}; docs/reserve.md), then "
                "remove the file."
            ) from None
        logger.warning("record=broken gone_by=copy path=%s error=%s", self.path, broken)
        return found

    def write(self, document: Any) -> None:
        """Replace the record by this JSON document, before the limit is written; None removes it.

        The copy comes first, so that it never holds an earlier record.
        """
        if self.path is None:
            raise ConfigurationError("no file is given to keep the site's own limits in.")
        try:
            for path in (beside(self.path, "copy"), self.path):
                if document is None:
                    path.unlink(missing_ok=True)
                else:
                    write_whole(path, json.dumps(document), mode=PRIVATE)
        except OSError as error:
            raise ConfigurationError(
                f"{self.path}, which keeps the site's own limits, cannot be written "
                f"({error.strerror}): make its folder writable for this user."
            ) from None

    def of_others(self, what: str, key: str) -> ConfigurationError:
        """Make the error of a record of what the configuration does not name.

        Its writer must not choose what we change in the batch system.
        """
        return ConfigurationError(
            f"{self.path} names {what}, but [reserve] {key} does not, so nothing was changed: if "
            f"the daemon limited {what}, name it there (mechanism may stay off) and run "
            "`slurm-rl release`, else remove the file."
        )
