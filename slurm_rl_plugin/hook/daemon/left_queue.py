"""The daemon's look at the queue, left in a file for those who foretell when jobs start."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.domain.queue_file import QueueOnFile, write_queue
from slurm_rl_plugin.hook.cycle_report import CycleReport

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class LeftQueue:
    """Leaves what each cycle saw; no fault here stops a cycle.

    Attributes:
        path: of the file; None leaves nothing.
    """

    path: Path | None
    _told: bool = False

    def leave(self, report: CycleReport) -> None:
        """Replace the file by what a cycle saw; what failed or stood by saw nothing."""
        if self.path is None or report.snapshot is None or report.failure is not None:
            return
        queue = QueueOnFile(snapshot=report.snapshot, mode=report.mode, policy=report.policy)
        try:
            write_queue(self.path, queue)
        except OSError as error:
            if not self._told:
                logger.warning("queue_file=unwritable path=%s error=%s", self.path, error)
            self._told = True
        else:
            self._told = False
