"""A hidden folder beside a file while that is made; one that a killed process left is removed."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from slurm_rl_plugin.whole_file import own_file

_ENDING = ".work"
#: Tells whose the folder is: locked as long as that process lives, its host's name inside.
_OWNER = "owner"
#: Letters of a host's name at most.
_LONGEST_NAME = 256


@contextmanager
def working_folder(output: Path) -> Iterator[Path]:
    """A new folder beside `output`, removed with the files in it when the block ends.

    Those of the same output whose process was killed are removed first.

    Raises:
        OSError: it cannot be made.
    """
    for each in _of(output):
        _remove_if_left(each)
    folder = Path(tempfile.mkdtemp(prefix=f".{output.name}.", suffix=_ENDING, dir=output.parent))
    with ExitStack() as stack:
        stack.callback(_remove, folder)
        opened = own_file(folder / _OWNER, os.O_RDWR | os.O_CREAT)
        owner = stack.enter_context(os.fdopen(opened, "w"))
        # where files cannot be locked nobody can tell, so the folder stays without a name in it
        with suppress(OSError):
            _lock(owner)
            owner.write(socket.gethostname())
            owner.flush()
        yield folder


def _of(output: Path) -> list[Path]:
    pattern = re.compile(rf"\.{re.escape(output.name)}\.\w{{8}}{re.escape(_ENDING)}")
    return [
        each
        for each in output.parent.iterdir()
        if pattern.fullmatch(each.name) and _may_be_ours(each)
    ]


def _may_be_ours(folder: Path) -> bool:
    """Whether it is a folder of this user: root must not follow a link that somebody laid there."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _remove_if_left(folder: Path) -> None:
    """Remove a folder, unless its process may live: here, on another host, or nobody can tell."""
    with (
        suppress(OSError),
        os.fdopen(own_file(folder / _OWNER, os.O_RDWR), "r+", errors="replace") as owner,
    ):
        if owner.read(_LONGEST_NAME) == socket.gethostname():
            _lock(owner)
            _remove(folder)


def _lock(file: IO[str]) -> None:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove(folder: Path) -> None:
    """Remove a folder and its files; one in which a folder stands is none that we made."""
    with suppress(OSError):
        # the name of the owner last: whoever is killed meanwhile leaves what the next one knows
        files = sorted(folder.iterdir(), key=lambda file: file.name == _OWNER)
        if any(each.is_dir() for each in files):
            return
        for each in files:
            each.unlink()
        folder.rmdir()
