"""The metrics as a file for node_exporter's textfile collector, for sites that open no port."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import write_whole

logger = logging.getLogger(__name__)


def check_textfile(path: Path) -> None:
    """Refuse a name that nobody would read."""
    if path.suffix != ".prom":
        raise ConfigurationError(
            f"[metrics] textfile {path} is not read by node_exporter: give it a name that ends in "
            ".prom."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsTextfile:
    """Written after each cycle, whole; taken away when the daemon stops.

    What is left of a killed daemon says "up" for ever: node_textfile_mtime_seconds tells.
    """

    path: Path
    registry: CollectorRegistry

    def __post_init__(self) -> None:
        check_textfile(self.path)

    def write(self) -> None:
        """Replace the file; a failure is logged, as nothing that orders jobs depends on it."""
        try:
            # node_exporter is another user
            write_whole(self.path, generate_latest(self.registry), sync=False, for_all=True)
        except OSError as error:
            logger.warning("textfile=failed path=%s reason=%s", self.path, error)

    def remove(self) -> None:
        """Take the file away; one that is not there is no failure."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("textfile=left path=%s reason=%s", self.path, error)
