"""The site's published utilities, from the file that whoever computes them writes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.domain.published_utilities import LONGEST, PublishedUtilities
from slurm_rl_plugin.domain.site import JobRequest
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import version_of

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class UtilityFile:
    """Tells the utility of a job; a new publication in the file counts at once.

    Attributes:
        path: of the file, which is always written whole.
        clock: seconds since the epoch.
    """

    path: Path
    clock: Callable[[], float]
    _version: tuple[int, int] | None = None
    _published: PublishedUtilities | None = None

    def utility(self, request: JobRequest, interactive: bool) -> float | None:
        """Of one more such job; None where nothing fresh is published of its class and account."""
        version = version_of(self.path)
        if version != self._version:
            self._published, self._version = self._read(), version
        published = self._published
        if version is None or published is None or not published.fresh_at(self.clock()):
            return None
        return published.of("interactive" if interactive else "batch", request.job.account)

    def _read(self) -> PublishedUtilities | None:
        try:
            with self.path.open(encoding="utf-8") as file:
                return PublishedUtilities.from_json(file.read(LONGEST + 1))
        except (OSError, UnicodeDecodeError, ConfigurationError) as error:
            logger.warning("utilities=none reason=%s", error)
            return None
