"""The state file: which jobs carry a factor of ours, kept across restarts and crashes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import write_whole

logger = logging.getLogger(__name__)
_VERSION = 1


@dataclass(frozen=True, slots=True)
class StateFile:
    """Job ids that may carry a factor of ours; written before a factor is, so never too few."""

    path: Path

    def read(self) -> set[int] | None:
        """The job ids; an empty set without a file, None where the file cannot be trusted."""
        try:
            content = json.loads(self.path.read_text())
            if content["version"] != _VERSION:
                raise ValueError(f"version {content['version']}")
            return {int(job) for job in content["jobs"]}
        except FileNotFoundError:
            return set()
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            logger.warning("state=unreadable path=%s error=%s", self.path, error)
            return None

    def write(self, jobs: Iterable[int]) -> None:
        """Replace the file: written beside, synced, renamed.

        Raises:
            ConfigurationError: the folder is missing or not writable.
        """
        try:
            write_whole(self.path, json.dumps({"version": _VERSION, "jobs": sorted(jobs)}))
        except OSError as error:
            raise ConfigurationError(
                f"state file {self.path} cannot be written ({error.strerror}): make its folder "
                "writable for this user."
            ) from None
