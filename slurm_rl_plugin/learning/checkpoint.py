"""What an interrupted computation has done so far, in a file that a kill cannot spoil."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from slurm_rl_plugin import __version__
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import own_file, read_own, write_whole


class Checkpoint:
    """The steps of a training, one JSON line each, after a line that says which training it is.

    Attributes:
        steps: what was added, by this run or by one before it with the same key.
    """

    def __init__(self, path: Path | None, key: dict[str, Any]) -> None:
        """Take up the file of an interrupted computation with this key; start afresh otherwise.

        Args:
            key: everything that shapes the computation but the version of this package; JSON.
        """
        # as it will be read back: tuples become lists
        key = json.loads(json.dumps({**key, "version": __version__}))
        self._file: IO[str] | None = None
        self.steps: list[Any] = []
        if path is None:
            return
        lines = _whole_lines(_content(path))
        if lines and lines[0] == key:
            self.steps = lines[1:]
        content = "".join(json.dumps(line) + "\n" for line in (key, *self.steps))
        write_whole(path, content, mode=0o600)
        # kept open: a worker that was thought lost must not write into the file of the next one
        self._file = os.fdopen(own_file(path, os.O_WRONLY | os.O_APPEND), "a")

    def add(self, step: Any) -> None:
        """Keep a finished step; JSON."""
        self.steps.append(step)
        if self._file is not None:
            self._file.write(json.dumps(step) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Write no more; the file stays until what is made of the steps is safe."""
        if self._file is not None:
            self._file.close()


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
    if path.is_dir() or not _is_checkpoint(_content(path)):
        raise ConfigurationError(f"{path} holds something else than a checkpoint: give another.")


def _content(path: Path) -> bytes:
    """What the file holds; nothing where there is none."""
    try:
        return read_own(path)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ConfigurationError(
            f"the checkpoint {path} is not taken up ({error.strerror}): remove it, or give another."
        ) from None


def _is_checkpoint(content: bytes) -> bool:
    """Whether nothing would be lost but a checkpoint: its first line is a JSON object."""
    line = content.partition(b"\n")[0]
    try:
        return not content or isinstance(json.loads(line), dict)
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
        return max(read_own(path).count(b"\n") - 1, 0)
    except OSError:
        return 0


def digest_of(*shaping: object) -> str:
    """The same in each run for the same values: dataclasses, arrays, mappings, sets, and reprs."""
    found = hashlib.sha256()
    for part in _parts(shaping):
        found.update(part)
    return found.hexdigest()


def _parts(value: object) -> Iterable[bytes]:
    if isinstance(value, np.ndarray):
        yield f"{value.dtype}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif is_dataclass(value) and not isinstance(value, type):
        yield type(value).__name__.encode()
        for each in fields(value):
            yield from _parts(getattr(value, each.name))
    elif isinstance(value, Mapping):
        yield from _parts(sorted(value.items(), key=lambda item: repr(item[0])))
    elif isinstance(value, Set):  # in an order of its own in each process
        yield from _parts(sorted(value, key=repr))
    elif isinstance(value, tuple) and all(isinstance(each, str) for each in value):
        yield repr(value).encode()  # a column of texts has one for each job
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield f"[{len(value)}".encode()
        for each in value:
            yield from _parts(each)
    else:
        yield f"{value!r};".encode()
