"""Files are written whole or not at all: beside first, synced, then renamed over the old one.

They are read whole too, and nothing that lies in a file's place is waited for. What the file system
refuses raises OSError, as do a device, a pipe, a folder, a file that is too long, and one that
another user may have made; a file that was to be written is then what it was. Whether a file or a
folder is our own is decided by its owner and mode, never by its name: `own_file`, `own_folder`.
"""

from __future__ import annotations

import errno
import grp
import io
import os
import pwd
import re
import secrets
import stat
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO

#: Permissions of a file that names jobs or accounts: for its owner, and its group to read.
PRIVATE = 0o640
#: Bytes of the longest file that is read; a state file of a million jobs has 12 MB.
LONGEST_FILE = 64 * 1024**2
#: Permissions with which others than the owner may change a file or a folder.
_OTHERS_WRITE = 0o022
#: Number of the first account that is a person's and not a service's (UID_MIN of login.defs).
_FIRST_PERSON = 1000
#: Bytes asked for at a time.
_READ_AT_ONCE = 1024**2
#: What a process that was killed left, also one of an earlier release, which named its own number.
_LEFTOVER = re.compile(r"\..+\.([0-9a-f]{16}|\d+)\.part")


@contextmanager
def replacing(
    path: Path, *, sync: bool = True, mode: int = 0o666, for_all: bool = False
) -> Iterator[IO[bytes]]:
    """A new file in the same folder; it takes the place of `path` when the block ends well.

    It is written, opened to all and synced by its descriptor. So another user who may write into
    the folder can lay a link in its place, but no link is followed.

    Args:
        path: the file to write or replace. A reader sees the old file or the new one, never half.
        sync: wait for the disk, so that this holds after a power cut as well.
        mode: permissions, less the umask; those of the file before do not count.
        for_all: every user may read it, whatever the umask.
    """
    _check_place(path)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with _faults_of(path, beside):
        opened = os.open(beside, flags, mode)
    try:
        with _faults_of(path, beside), os.fdopen(opened, "w+b") as file:
            if for_all:
                os.fchmod(opened, 0o644)
            yield file
            file.flush()
            if sync:
                os.fsync(opened)
            beside.replace(path)
            if sync:
                _sync_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def _check_place(path: Path) -> None:
    if (found := _lies_there(path)) and not (stat.S_ISREG(found) or stat.S_ISLNK(found)):
        raise OSError(errno.EINVAL, "not a plain file", str(path))


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


def write_whole(
    path: Path,
    content: str | bytes,
    *,
    sync: bool = True,
    mode: int = 0o666,
    for_all: bool = False,
) -> None:
    """Write or replace a file; see `replacing`."""
    with replacing(path, sync=sync, mode=mode, for_all=for_all) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_in_place(path: Path, content: bytes) -> None:
    """Change what a file holds that is there already: one of ours in a folder of root's.

    A reader with more rights than we have, such as PAM at a login, may read it there: nobody can
    lay a link in its place. A reader may see half of a new content.
    """
    with os.fdopen(own_file(path, os.O_WRONLY), "wb", buffering=0) as file:
        file.write(content)
        file.truncate(len(content))


def append_whole(file: io.FileIO, content: bytes) -> None:
    """Append all or nothing: on a full disk half a line would spoil the next one too."""
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
    """Read a file that is not long."""
    with plain_file(path) as file:
        return _bounded(file)


def read_own(path: Path, *, owners: Set[int] = frozenset()) -> bytes:
    """Read a file that is not long and that nobody but us may have made; see `own_file`."""
    with os.fdopen(own_file(path, owners=owners), "rb") as file:
        return _bounded(file)


def _bounded(file: io.BufferedReader) -> bytes:
    # a read takes room for all that it is asked for, and most files are short
    parts = iter(partial(file.read, _READ_AT_ONCE), b"")
    content = b"".join(islice(parts, LONGEST_FILE // _READ_AT_ONCE + 1))
    if len(content) > LONGEST_FILE:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return content


@contextmanager
def plain_file(path: Path, *, follow: bool = True) -> Iterator[io.BufferedReader]:
    """A file, open to read; a pipe or a device in its place, which might never end, is none.

    A link in its place is followed, unless `follow` is False.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    with os.fdopen(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        yield file


def own_file(
    path: Path,
    flags: int = os.O_RDONLY,
    *,
    private: bool = False,
    owners: Set[int] = frozenset(),
) -> int:
    """Open a file that nobody but us may have made or changed; its descriptor.

    It is a plain file of this user or of root. No link is followed, and no pipe is waited for. A
    new one is for this user alone.

    Args:
        path: of the file.
        flags: of open(2), without O_TRUNC: nothing is changed before the file has been looked at.
        private: nobody else may even read it.
        owners: further users who may own it, such as `owner_of_folder`.
    """
    assert not flags & os.O_TRUNC
    careful = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    opened = os.open(path, flags | careful, 0o600 if private else PRIVATE)
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        forbidden = 0o077 if private else _OTHERS_WRITE
        _check_owner(path, found, {0, os.geteuid(), *owners}, forbidden)
    except OSError:
        os.close(opened)
        raise
    return opened


def owner_of_folder(path: Path) -> Set[int]:
    """The owner of a file's folder, who may own what a service leaves there for others to read.

    Nobody where others may write into the folder. Only for a path that the site's configuration
    names: whoever may rename a folder on the way can put another one in its place.
    """
    found = path.parent.stat()
    return frozenset() if found.st_mode & _OTHERS_WRITE else frozenset({found.st_uid})


def own_folder(
    path: Path,
    *,
    owners: Set[int] = frozenset(),
    make: bool = True,
    way: bool = True,
    shut: bool = False,
) -> Path:
    """Make a folder for this user alone, or take one that nobody else may write into or replace.

    Args:
        path: of the folder.
        owners: further users who may own it; root always may.
        make: make one that is missing.
        way: look at the folders above it as well. Without, others may put another folder in its
            place, and each file in it has to be opened by `own_file`.
        shut: forbid others to write into a folder of this user's, instead of refusing it.
    """
    trusted = {0, os.geteuid(), *owners}
    if way:
        _check_way(path, trusted)  # before anything is made
    if make:
        for each in (*reversed(path.parents), path):
            if not each.exists():
                each.mkdir(mode=0o700, exist_ok=True)
    if shut:
        _shut(path)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(errno.ENOTDIR, "it is a link or no folder", str(path))
    _check_owner(path, found, trusted, _OTHERS_WRITE)
    if way:
        _check_way(path, trusted)  # another user may have been faster
    return path


def _shut(path: Path) -> None:
    with suppress(OSError):  # what cannot be shut is refused
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(opened)
            if found.st_uid == os.geteuid() and found.st_mode & _OTHERS_WRITE:
                os.fchmod(opened, stat.S_IMODE(found.st_mode) & ~_OTHERS_WRITE)
        finally:
            os.close(opened)


def _check_way(path: Path, trusted: Set[int]) -> None:
    for above in Path(os.path.realpath(path)).parents:
        if above.exists():
            found = above.stat()
            # in a sticky folder only its owner renames what others have there
            forbidden = 0 if found.st_mode & stat.S_ISVTX else _OTHERS_WRITE
            _check_owner(above, found, trusted, forbidden, str(above))


def _check_owner(
    path: Path, found: os.stat_result, owners: Set[int], forbidden: int, what: str = "it"
) -> None:
    if found.st_uid not in owners:
        raise OSError(errno.EPERM, f"{what} belongs to uid {found.st_uid}", str(path))
    if found.st_mode & forbidden & ~(0o070 if _is_private_group(found.st_gid) else 0):
        mode = f"others may open {what} (mode {stat.S_IMODE(found.st_mode):04o})"
        raise OSError(errno.EPERM, mode, str(path))


def _is_private_group(number: int) -> bool:
    """Whether this user alone is in a group, as distributions make one for each person.

    Not for the account of a service: another service may run in its group, which no list shows.
    """
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    if (group.gr_name, number) != (user.pw_name, user.pw_gid) or 0 < user.pw_uid < _FIRST_PERSON:
        return False
    members = {each.pw_name for each in pwd.getpwall() if each.pw_gid == number}
    return members | set(group.gr_mem) <= {user.pw_name}


def remove_leftovers(folder: Path, before: float, name: str = "") -> None:
    """Remove what killed processes left of files that they were writing; what cannot be is left.

    `before`, seconds since the epoch: another host may just be writing what is younger. In a folder
    that is not ours alone `name` is of the file: other programs call their files so too.
    """
    mine = f".{name}." if name else "."
    with suppress(OSError):
        for each in folder.iterdir():
            with suppress(OSError):
                found = each.name.startswith(mine) and _LEFTOVER.fullmatch(each.name)
                if found and each.lstat().st_mtime < before:
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
