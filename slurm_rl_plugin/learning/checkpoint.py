"""The steps of an interrupted computation, in a file that survives a kill."""

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
    """The steps of a training, one JSON line each, after a line with its key.

    Attributes:
        steps: of this run and of earlier ones with the same key.
    """

    def __init__(self, path: Path | None, key: dict[str, Any]) -> None:
        """Continue the file of a computation with this key, or begin a new one.

        Args:
            key: everything that shapes the computation except the version of this package; JSON.
        """
        # as it will be read: tuples become lists
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
        # kept open: a worker that was given up must not write into the file of its successor
        self._file = os.fdopen(own_file(path, os.O_WRONLY | os.O_APPEND), "a")

    def add(self, step: Any) -> None:
        """Append a finished step; JSON."""
        self.steps.append(step)
        if self._file is not None:
            self._file.write(json.dumps(step) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file, which stays until the result is saved."""
        if self._file is not None:
            self._file.close()


def check_checkpoint(path: Path | None) -> None:
    """Refuse a file named by a user that cannot or must not become a checkpoint."""
    if path is None:
        return
    folder = path.resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigurationError(f"{path}: {folder} is no folder that can be written to.")
    if path.is_dir() or not _is_checkpoint(_content(path)):
        raise ConfigurationError(f"{path} is not a checkpoint: give another file.")


def _content(path: Path) -> bytes:
    """The content of the file; empty without one."""
    try:
        return read_own(path)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ConfigurationError(
            f"the checkpoint {path} cannot be read ({error.strerror}): remove it, or give another."
        ) from None


def _is_checkpoint(content: bytes) -> bool:
    """Whether the content is empty or a checkpoint, which begins with a JSON object."""
    line = content.partition(b"\n")[0]
    try:
        return not content or isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _whole_lines(content: bytes) -> list[Any]:
    """The JSON lines before the first incomplete one, as a killed training may leave."""
    lines = []
    for line in content.splitlines(keepends=True):
        try:
            lines.append(json.loads(line if line.endswith(b"\n") else b""))
        except ValueError:
            break
    return lines


def forget_checkpoint(path: Path | None) -> None:
    """Remove the file of a finished computation."""
    if path is not None:
        path.unlink(missing_ok=True)


def steps_kept(path: Path) -> int:
    """Number of steps in a checkpoint that another process may be writing; 0 without a file."""
    try:
        return max(read_own(path).count(b"\n") - 1, 0)
    except OSError:
        return 0


def digest_of(*shaping: object) -> str:
    """A digest of values that is equal in every run."""
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
    elif isinstance(value, Set):  # its order differs between processes
        yield from _parts(sorted(value, key=repr))
    elif isinstance(value, tuple) and all(isinstance(each, str) for each in value):
        yield repr(value).encode()  # a column of texts, fast
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield f"[{len(value)}".encode()
        for each in value:
            yield from _parts(each)
    else:
        yield f"{value!r};".encode()
