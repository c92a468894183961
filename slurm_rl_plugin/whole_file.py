"""Files are written whole or not at all: beside first, synced, then renamed over the old one.

They are read whole too, and nothing that lies in a file's place is waited for.
"""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path

#: Permissions of a file that names jobs or accounts: for its owner, and its group to read.
PRIVATE = 0o640
#: Bytes of the longest file that is read; a state file of a million jobs has 12 MB.
LONGEST_FILE = 64 * 1024**2
#: Bytes asked for at a time.
_READ_AT_ONCE = 1024**2
#: What a process that was killed left, also one of an earlier release, which named its own number.
_LEFTOVER = re.compile(r"\..+\.([0-9a-f]{16}|\d+)\.part")


@contextmanager
def replacing(path: Path, *, sync: bool = True, mode: int = 0o666) -> Iterator[Path]:
    """A path in the same folder to write to; it takes the place of `path` when the block ends well.

    The file is there already, empty, under a name that nobody can foresee: where somebody else may
    write to the folder as well, no link of his is followed.

    Args:
        path: the file to write or replace. A reader sees the old file or the new one, never half.
        sync: wait for the disk, so that this holds after a power cut as well.
        mode: permissions, less the umask; those of the file before do not count.

    Raises:
        OSError: as the file system says, of `path`; a device, a pipe or a folder is no place.
    """
    if (found := _lies_there(path)) and not (stat.S_ISREG(found) or stat.S_ISLNK(found)):
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with _faults_of(path, beside):
        os.close(os.open(beside, flags, mode))
    try:
        with _faults_of(path, beside):
            yield beside
            if sync:
                with beside.open("rb") as file:
                    os.fsync(file.fileno())
            beside.replace(path)
            if sync:
                _sync_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Or a power cut might give the file back that was replaced; not all file systems can."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextmanager
def _faults_of(path: Path, beside: Path) -> Iterator[None]:
    """Nobody knows the name beside: faults are those of the file that it is for."""
    try:
        yield
    except OSError as error:
        if error.filename not in (None, beside, str(beside)):
            raise
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def _lies_there(path: Path) -> int:
    """The type and permissions of what has this path; 0 for nothing."""
    try:
        return path.lstat().st_mode
    except OSError:  # whoever opens a file beside it says why
        return 0


def write_whole(path: Path, content: str | bytes, *, sync: bool = True, mode: int = 0o666) -> None:
    """Write or replace a file; see `replacing`.

    Raises:
        OSError: as the file system says; `path` is then what it was.
    """
    with replacing(path, sync=sync, mode=mode) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


def append_whole(file: io.FileIO, content: bytes) -> None:
    """Append all or nothing: on a full disk half a line would spoil the next one too.

    Args:
        file: open to append and, but for a pipe, to read.
        content: whole lines.

    Raises:
        OSError: as the file system says; the file is then what it was.
    """
    end = file.seek(0, io.SEEK_END) if file.seekable() else 0  # a pipe, such as /dev/stdout
    if end:
        file.seek(end - 1)
        if file.read(1) != b"\n":  # a program was killed in the midst of a line
            content = b"\n" + content
    left = memoryview(content)
    try:
        while left:
            left = left[file.write(left) :]
    except OSError:
        with suppress(OSError):
            file.truncate(end)
        raise


def read_whole(path: Path) -> bytes:
    """Read a file that is not long.

    Raises:
        OSError: as the file system says, or it is no plain file, or too long.
    """
    with plain_file(path) as file:
        # a read takes room for all that it is asked for, and most files are short
        parts = iter(partial(file.read, _READ_AT_ONCE), b"")
        content = b"".join(islice(parts, LONGEST_FILE // _READ_AT_ONCE + 1))
    if len(content) > LONGEST_FILE:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return content


@contextmanager
def plain_file(path: Path) -> Iterator[io.BufferedReader]:
    """A file, open to read; a pipe or a device in its place, which might never end, is none.

    Raises:
        OSError: as the file system says, or it is no plain file.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        yield file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def remove_leftovers(folder: Path, before: float) -> None:
    """Remove what killed processes left of files that they were writing; what cannot be is left.

    Args:
        folder: of the files.
        before: only what was last written before, seconds since the epoch: another host may just
            be writing.
    """
    with suppress(OSError):
        for each in folder.iterdir():
            with suppress(OSError):
                if _LEFTOVER.fullmatch(each.name) and each.lstat().st_mtime < before:
                    each.unlink()


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
