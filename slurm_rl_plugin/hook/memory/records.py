"""The files that the daemon keeps next to its state file; each is written whole or not at all."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from slurm_rl_plugin.batch_systems.kept_record import UNREADABLE
from slurm_rl_plugin.domain import Memory
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import PRIVATE, owner_of_folder, read_own, write_whole

logger = logging.getLogger(__name__)
#: First words of a memory's only line of text; the numbers follow it, 8 bytes each.
_KIND = "slurm-rl memory 1"
_NUMBERS = np.dtype("<f8")
_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """A JSON document in a file.

    Attributes:
        path: of the file.
        what: the file keeps, a key of the log.
        versions: of the document that can be read; the last one is written.
    """

    path: Path
    what: str
    versions: tuple[int, ...] = (1,)

    def document(self) -> dict[str, Any]:
        """The document.

        Raises:
            OSError: there is none, or it cannot be read.
            Exception: one of UNREADABLE; it is no such document.
        """
        content = read_own(self.path, owners=owner_of_folder(self.path))
        document: dict[str, Any] = json.loads(content)
        if document["version"] not in self.versions:
            raise ValueError(f"version {document['version']}")
        return document

    def read(self, parsed: Callable[[dict[str, Any]], _Parsed]) -> _Parsed | None:
        """What the document says; None, and a line in the log, where it cannot be trusted.

        Args:
            parsed: makes the value from the document, or raises one of UNREADABLE.

        Raises:
            FileNotFoundError: there is none.
        """
        try:
            return parsed(self.document())
        except FileNotFoundError:
            raise
        except UNREADABLE as error:
            logger.warning("%s=unreadable path=%s error=%s", self.what, self.path, error)
            return None

    def write(self, document: Mapping[str, Any]) -> None:
        """Replace the file by a document, to which the version is added.

        Raises:
            ConfigurationError: the folder is missing or not writable.
        """
        try:
            self._write(document, sync=True)
        except OSError as error:
            raise unwritable(f"{self.what} file", self.path, error) from None

    def keep(self, document: Mapping[str, Any]) -> bool:
        """Replace a file whose loss harms no job, without a wait for the disk; False on failure."""
        try:
            self._write(document, sync=False)
        except OSError as error:
            logger.warning("%s=unwritable path=%s error=%s", self.what, self.path, error)
            return False
        return True

    def _write(self, document: Mapping[str, Any], *, sync: bool) -> None:
        content = json.dumps({"version": self.versions[-1], **document})
        write_whole(self.path, content, sync=sync, mode=PRIVATE)


def unwritable(name: str, path: Path, error: OSError) -> ConfigurationError:
    """The error of a file that cannot be written."""
    return ConfigurationError(
        f"{name} {path} cannot be written ({error.strerror}): make its folder writable for this "
        "user."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFile:
    """What one model remembers; a memory of another model, or a broken one, is no memory.

    One line of text, `slurm-rl memory 1 MODEL COUNT`, then the numbers, 100,000 and more. Losing
    the file costs some good decisions and never a job, so no fault here stops a cycle.

    Attributes:
        path: of the file.
        model_sha256: the model that the memory belongs to.
        read_only: `write` does nothing; for commands that only read.
    """

    path: Path
    model_sha256: str
    read_only: bool = False

    def read(self) -> Memory | None:
        """The memory; None where there is none of this model."""
        try:
            content = read_own(self.path, owners=owner_of_folder(self.path))
            head, _, numbers = content.partition(b"\n")
            kind, *named = head[:200].decode("ascii", errors="replace").rsplit(" ", 2)
            if kind != _KIND or len(named) != 2:
                raise ValueError("no memory of a policy")
            memory = np.frombuffer(numbers, dtype=_NUMBERS).astype(np.float64)
            if len(memory) != int(named[1]) or not np.isfinite(memory).all():
                raise ValueError("not the numbers that were written")
            return memory if named[0] == self.model_sha256 else None
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            logger.warning("memory=unreadable path=%s error=%s", self.path, error)
        return None

    def write(self, memory: Memory) -> None:
        """Replace the file; a cycle does not wait for the disk."""
        if self.read_only:
            return
        head = f"{_KIND} {self.model_sha256} {len(memory)}\n".encode()
        try:
            content = head + memory.astype(_NUMBERS).tobytes()
            write_whole(self.path, content, sync=False, mode=PRIVATE)
        except OSError as error:
            logger.warning("memory=unwritable path=%s error=%s", self.path, error)


def beside(state_path: Path, ending: str) -> Path:
    """A file next to the state file, named after it."""
    return state_path.with_name(f"{state_path.name}.{ending}")


def memory_path(state_path: Path, *, of_candidate: bool = False) -> Path:
    """The file of the configured model's memory, or of a candidate's."""
    return beside(state_path, "memory" + ".candidate" * of_candidate)
