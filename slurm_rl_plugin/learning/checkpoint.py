"""What an interrupted training has done so far, in a file that a kill cannot spoil."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, Any

from slurm_rl_plugin import __version__
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import write_whole


class Checkpoint:
    """The steps of a training, one JSON line each, after a line that says which training it is.

    Attributes:
        steps: what was added, by this run or by one before it with the same key.
    """

    def __init__(self, path: Path | None, key: dict[str, Any]) -> None:
        """Take up the file of an interrupted training with this key; start afresh otherwise.

        Args:
            path: of the file; None keeps nothing.
            key: everything that shapes the training but the version of this package; JSON.
        """
        # as it will be read back: tuples become lists
        key = json.loads(json.dumps({**key, "version": __version__}))
        self._path = path
        self._file: IO[str] | None = None
        self.steps: list[Any] = []
        if path is None:
            return
        if path.exists():
            lines = _whole_lines(path.read_bytes())
            if lines and lines[0] == key:
                self.steps = lines[1:]
        write_whole(path, "".join(json.dumps(line) + "\n" for line in (key, *self.steps)))
        # kept open: a worker that was thought lost must not write into the file of the next one
        self._file = path.open("a")

    def add(self, step: Any) -> None:
        """Keep a finished step; JSON."""
        self.steps.append(step)
        if self._file is not None:
            self._file.write(json.dumps(step) + "\n")
            self._file.flush()

    def forget(self) -> None:
        """Remove the file: the training is done."""
        if self._file is not None:
            self._file.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def check_checkpoint(path: Path | None) -> None:
    """Refuse, before any work, a file named by a user that a checkpoint cannot or must not be.

    Raises:
        ConfigurationError: its folder cannot be written to, or it holds something else.
    """
    if path is None:
        return
    folder = path.resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigurationError(f"{path}: {folder} is no folder that can be written to.")
    if path.exists() and not (path.is_file() and _is_ours(path)):
        raise ConfigurationError(f"{path} holds something else than a checkpoint: give another.")


def _is_ours(path: Path) -> bool:
    """Whether nothing would be lost but a checkpoint: its first line is a JSON object."""
    with path.open("rb") as file:
        line = file.readline()
    try:
        return not line or isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _whole_lines(content: bytes) -> list[Any]:
    """The JSON lines up to the first broken one: a killed training may leave half a line."""
    lines = []
    for line in content.splitlines(keepends=True):
        try:
            lines.append(json.loads(line if line.endswith(b"\n") else b""))
        except ValueError:
            break
    return lines


def forget_checkpoint(path: Path | None) -> None:
    """Remove the file of a computation that is done."""
    if path is not None:
        path.unlink(missing_ok=True)


def steps_kept(path: Path) -> int:
    """How many steps a checkpoint holds that another process may be writing; 0 without a file."""
    try:
        return max(path.read_bytes().count(b"\n") - 1, 0)
    except OSError:
        return 0
