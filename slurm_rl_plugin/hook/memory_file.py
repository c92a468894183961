"""The policy's memory on disk: a restarted daemon goes on where the last one stopped."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slurm_rl_plugin.domain import Memory
from slurm_rl_plugin.whole_file import write_whole

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFile:
    """What one model remembers; a memory of another model, or a broken one, is no memory.

    Losing it costs some good decisions and never a job, so no fault here stops a cycle.

    Attributes:
        path: of the file.
        model_sha256: the model that the memory belongs to.
    """

    path: Path
    model_sha256: str

    def read(self) -> Memory | None:
        """The memory; None where there is none of this model."""
        try:
            content = json.loads(self.path.read_text())
            memory = np.array(content["memory"], dtype=np.float64)
            if content["model"] == self.model_sha256 and np.isfinite(memory).all():
                return memory
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("memory=unreadable path=%s error=%s", self.path, error)
        return None

    def write(self, memory: Memory) -> None:
        """Replace the file: written beside, then renamed; a cycle does not wait for the disk."""
        content = {"model": self.model_sha256, "memory": memory.tolist()}
        try:
            write_whole(self.path, json.dumps(content), sync=False)
        except OSError as error:
            logger.warning("memory=unwritable path=%s error=%s", self.path, error)
