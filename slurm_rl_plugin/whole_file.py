"""Files are written whole or not at all: beside first, synced, then renamed over the old one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """A path in the same folder to write to; it takes the place of `path` when the block ends well.

    Args:
        path: the file to write or replace. A reader sees the old file or the new one, never half.
        sync: wait for the disk, so that this holds after a power cut as well.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield beside
        if sync:
            with beside.open("rb") as file:
                os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes, *, sync: bool = True) -> None:
    """Write or replace a file; see `replacing`.

    Raises:
        OSError: as the file system says; `path` is then what it was.
    """
    with replacing(path, sync=sync) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


def may_exist(path: Path) -> bool:
    """Whether a file is there, or nobody can tell: its folder may not be entered, say."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def version_of(path: Path) -> tuple[int, int] | None:
    """Tells one content of a file that is always written whole from the next; None without it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
