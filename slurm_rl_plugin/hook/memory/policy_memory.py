"""The policy's memory on disk: a restarted daemon goes on where the last one stopped."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slurm_rl_plugin.domain import Memory
from slurm_rl_plugin.whole_file import PRIVATE, owner_of_folder, read_own, write_whole

logger = logging.getLogger(__name__)
#: First words of the only line of text; the numbers follow it, 8 bytes each.
_KIND = "slurm-rl memory 1"
_NUMBERS = np.dtype("<f8")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFile:
    """What one model remembers; a memory of another model, or a broken one, is no memory.

    One line of text, `slurm-rl memory 1 MODEL COUNT`, then the numbers as they are, 100,000 of them
    and more. Losing the file costs some good decisions and never a job, so no fault
    here stops a cycle.

    Attributes:
        path: of the file.
        model_sha256: the model that the memory belongs to.
        read_only: `write` does nothing, for those who only look.
    """

    path: Path
    model_sha256: str
    read_only: bool = False

    def read(self) -> Memory | None:
        """The memory; None where there is none of this model."""
        try:
            model, memory = _parse(read_own(self.path, owners=owner_of_folder(self.path)))
            return memory if model == self.model_sha256 else None
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            logger.warning("memory=unreadable path=%s error=%s", self.path, error)
        return None

    def write(self, memory: Memory) -> None:
        """Replace the file: written beside, then renamed; a cycle does not wait for the disk."""
        if self.read_only:
            return
        head = f"{_KIND} {self.model_sha256} {len(memory)}\n".encode()
        try:
            content = head + memory.astype(_NUMBERS).tobytes()
            write_whole(self.path, content, sync=False, mode=PRIVATE)
        except OSError as error:
            logger.warning("memory=unwritable path=%s error=%s", self.path, error)


def memory_path(state_path: Path, *, of_candidate: bool = False) -> Path:
    """Where the memory lies, beside the state file: of the configured model, or of a candidate."""
    return state_path.with_name(state_path.name + ".memory" + ".candidate" * of_candidate)


def _parse(content: bytes) -> tuple[str, Memory]:
    """The model and the memory in a file.

    Raises:
        ValueError: it is no such file, or not a whole one.
    """
    head, _, numbers = content.partition(b"\n")
    kind, *named = head[:200].decode("ascii", errors="replace").rsplit(" ", 2)
    if kind != _KIND or len(named) != 2:
        raise ValueError("no memory of a policy")
    memory = np.frombuffer(numbers, dtype=_NUMBERS).astype(np.float64)
    if len(memory) != int(named[1]) or not np.isfinite(memory).all():
        raise ValueError("not the numbers that were written")
    return named[0], memory
