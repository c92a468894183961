"""The file of class defaults, written in place: its folder is none that the daemon may write into.

slurmctld's script opens it without being able to look first, so whoever can put something else
there, a FIFO or a link, stops slurmctld. Only its content is the daemon's.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

VERSION = "slurm-rl-class-defaults 1"
#: The table no longer counts, but jobs may have factors of it. As long as the other head.
_GIVEN = "slurm-rl-class-defaults 0"
#: slurmctld's user is another one, whatever the umask says; no job is named here.
_READABLE = 0o644


def write_table(path: Path, lines: Sequence[str]) -> None:
    """Write the table that the script is to use.

    A reader in between finds a head that it ignores, and so does one after a fault.

    Args:
        path: of the table.
        lines: below its head.

    Raises:
        OSError: as the file system says; the table is then ignored.
    """
    with _opened(path, os.O_CREAT) as table:
        _void(table)
        _put(table, "".join(f"{line}\n" for line in lines), len(VERSION) + 1)
        _put(table, f"{VERSION}\n", 0)


def void_table(path: Path) -> None:
    """Let the script ignore the table, but remember that jobs may have factors of it.

    Raises:
        OSError: as the file system says.
    """
    with _opened(path) as table:
        if os.fstat(table).st_size:
            _void(table)


def empty_table(path: Path) -> None:
    """Write an empty table: no job has a factor of it.

    Raises:
        OSError: as the file system says.
    """
    with _opened(path) as table:
        os.ftruncate(table, 0)


def may_have_given(path: Path) -> bool:
    """Whether waiting jobs may have factors of it, or nobody can tell."""
    try:
        found = path.stat(follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return found.st_size > 0 or not stat.S_ISREG(found.st_mode)


@contextmanager
def _opened(path: Path, more: int = 0) -> Iterator[int]:
    """A descriptor for writing; never of a link or a FIFO, and it waits for nothing."""
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    table = os.open(path, flags | more, _READABLE)
    try:
        found = os.fstat(table)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if found.st_uid == os.geteuid() and not found.st_mode & stat.S_IROTH:
            os.fchmod(table, _READABLE)
        yield table
    finally:
        os.close(table)


def _void(table: int) -> None:
    _put(table, f"{_GIVEN}\n", 0)
    os.ftruncate(table, len(_GIVEN) + 1)


def _put(table: int, text: str, place: int) -> None:
    content = text.encode()
    while content:
        done = os.pwrite(table, content, place)
        content, place = content[done:], place + done
