"""The state file: which jobs carry a factor of ours, kept across restarts and crashes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.kept_record import UNREADABLE
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import PRIVATE, owner_of_folder, read_own, write_whole

logger = logging.getLogger(__name__)
#: Subjobs of OpenPBS have numbers of their own above its 999999999999, up to what 64 bits hold.
_LARGEST = 2**63 - 1
_VERSION = 2
#: Version 1 holds no way out.
_READABLE = (1, _VERSION)


@dataclass(frozen=True, slots=True)
class StateFile:
    """Job ids that may carry a factor of ours; written before a factor is, so never too few.

    Attributes:
        path: of the file.
        way_out: what is needed to take the factors back without the configuration; None keeps what
            the file holds.
    """

    path: Path
    way_out: Mapping[str, Any] | None = None

    def read(self) -> set[int] | None:
        """The job ids; an empty set without a file, None where the file cannot be trusted."""
        try:
            jobs = {_job_id(job) for job in self._content()["jobs"]}
        except FileNotFoundError:
            return set()
        except UNREADABLE as error:
            logger.warning("state=unreadable path=%s error=%s", self.path, error)
            return None
        return jobs

    def left_behind(self) -> Mapping[str, Any]:
        """The way out as the file holds it; {} where it holds none."""
        found = self._entry("way_out")
        return found if isinstance(found, dict) else {}

    def is_unanswered(self) -> bool:
        """Whether a write to the batch system got no answer, so that it may still be done."""
        return self._entry("unanswered") is True

    def write(self, jobs: Iterable[int], *, unanswered: bool = False) -> None:
        """Replace the file: written beside, synced, renamed.

        Args:
            jobs: that may carry a factor.
            unanswered: see `is_unanswered`.

        Raises:
            ConfigurationError: the folder is missing or not writable.
        """
        way_out = self.left_behind() if self.way_out is None else self.way_out
        content = {"version": _VERSION, "way_out": way_out, "jobs": sorted(jobs)}
        if unanswered:
            content["unanswered"] = True
        try:
            write_whole(self.path, json.dumps(content), mode=PRIVATE)
        except OSError as error:
            raise ConfigurationError(
                f"state file {self.path} cannot be written ({error.strerror}): make its folder "
                "writable for this user."
            ) from None

    def _entry(self, name: str) -> object:
        """None where the file has none, or cannot be trusted."""
        try:
            return self._content().get(name)
        except UNREADABLE:
            return None

    def _content(self) -> dict[str, Any]:
        found = read_own(self.path, owners=owner_of_folder(self.path))
        content: dict[str, Any] = json.loads(found)
        if content["version"] not in _READABLE:
            raise ValueError(f"version {content['version']}")
        return content


def _job_id(found: object) -> int:
    """What the file says, where it is a job's number.

    Raises:
        ValueError: it is none.
    """
    number = int(str(found))
    if not 1 <= number <= _LARGEST:
        raise ValueError(f"{number} is no job's number")
    return number
