"""Files are read and written whole: a new file is synced, then renamed over the old one.

A device, a pipe, a folder, a file that is too long, and a file that another user may have made all
raise OSError; a failed write leaves the old file. `own_file` and `own_folder` decide by owner and
mode, never by name, whether a file or folder is ours.

A kept document is JSON of a dataclass: `as_json` makes it, `typed` reads it back with its types.
"""

from __future__ import annotations

import errno
import grp
import io
import json
import logging
import math
import os
import pwd
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from types import UnionType
from typing import IO, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from slurm_rl_plugin.errors import ConfigurationError

#: Permissions of a file that names jobs or accounts: the group may read it.
PRIVATE = 0o640
#: Maximum bytes of a file to read; a state file of a million jobs has 12 MB.
LONGEST_FILE = 64 * 1024**2
#: Permissions that let other users change a file or a folder.
_OTHERS_WRITE = 0o022
#: Lowest user ID of a person, UID_MIN of login.defs; services have lower ones.
_FIRST_PERSON = 1000
#: Bytes of one read.
_READ_AT_ONCE = 1024**2
#: Names of files that killed processes left; earlier releases used the process ID.
_LEFTOVER = re.compile(r"\..+\.([0-9a-f]{16}|\d+)\.part")


@contextmanager
def replacing(
    path: Path, *, sync: bool = True, mode: int = 0o666, for_all: bool = False
) -> Iterator[IO[bytes]]:
    """A new file in the same folder, which replaces `path` when the block succeeds.

    A reader sees the old file or the new one, never half. It is written, published and synced by
    its descriptor, so a link that another user puts in its place is not followed. `sync` waits for
    the disk, so that it survives a power cut; `mode` counts less the umask, which `for_all`, for
    every user to read it, overrides.
    """
    _check_place(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with _faults_of(path, temporary):
        opened = os.open(temporary, flags, mode)
    try:
        with _faults_of(path, temporary), os.fdopen(opened, "w+b") as file:
            if for_all:
                os.fchmod(opened, 0o644)
            yield file
            file.flush()
            if sync:
                os.fsync(opened)
            temporary.replace(path)
            if sync:
                _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _check_place(path: Path) -> None:
    try:
        found = path.lstat().st_mode
    except OSError:  # opening the temporary file reports the reason
        return
    if not (stat.S_ISREG(found) or stat.S_ISLNK(found)):
        raise OSError(errno.EINVAL, "not a plain file", str(path))


def _sync_folder(folder: Path) -> None:
    """Sync the folder, or a power cut may restore the old file; not all file systems can."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextmanager
def _faults_of(path: Path, temporary: Path) -> Iterator[None]:
    """Name `path` in errors of the temporary file, whose name users do not know."""
    try:
        yield
    except OSError as error:
        if error.filename not in (None, temporary, str(temporary)):
            raise
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


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
    """Overwrite one of our existing files in a folder of root's.

    A reader with more rights than ours, such as PAM at a login, is safe there, because no other
    user can replace the file by a link. A reader may see half of the new content.
    """
    with os.fdopen(own_file(path, os.O_WRONLY), "wb", buffering=0) as file:
        file.write(content)
        file.truncate(len(content))


def append_whole(file: io.FileIO, content: bytes) -> None:
    """Append everything or nothing: on a full disk, half a line would damage the next one too."""
    end = file.seek(0, io.SEEK_END) if file.seekable() else 0  # 0 for a pipe, such as /dev/stdout
    if end:
        file.seek(end - 1)
        if file.read(1) != b"\n":  # a killed program left half a line
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
    """Read a file of at most LONGEST_FILE bytes."""
    with plain_file(path) as file:
        return _bounded(file)


def read_own(path: Path, *, owners: Set[int] = frozenset()) -> bytes:
    """Read a file of at most LONGEST_FILE bytes that only we can have made; see `own_file`."""
    with os.fdopen(own_file(path, owners=owners), "rb") as file:
        return _bounded(file)


def _bounded(file: io.BufferedReader) -> bytes:
    # a read allocates all the bytes it asks for, and most files are short
    parts = iter(partial(file.read, _READ_AT_ONCE), b"")
    content = b"".join(islice(parts, LONGEST_FILE // _READ_AT_ONCE + 1))
    if len(content) > LONGEST_FILE:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return content


@contextmanager
def plain_file(path: Path, *, follow: bool = True) -> Iterator[io.BufferedReader]:
    """Open a plain file to read; refuse a pipe or a device, which might never end."""
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
    """Open a file that only we can have made or changed; its descriptor.

    It must be a plain file of this user, of root or of one of `owners`, which no other user may
    even read if it is `private`. Links are not followed, and a pipe does not block. `flags` are
    without O_TRUNC, because the file must be checked first. A new file is this user's alone.
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
    """The owner of a file's folder, whose files in it are trusted; empty if others may write there.

    Only for a path from the site's configuration: a user who can rename a folder above it can
    replace it.
    """
    found = path.parent.stat()
    return frozenset() if found.st_mode & _OTHERS_WRITE else frozenset({found.st_uid})


def own_folder(path: Path, *, shut: bool = False) -> Path:
    """Make a folder for this user alone, or accept one that no other user can write into.

    Others may replace one whose parent they can write into, so each file in it must be opened with
    `own_file`. `shut` forbids others to write into a folder of this user's, instead of refusing it.
    """
    for each in (*reversed(path.parents), path):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)
    if shut:
        _shut(path)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(errno.ENOTDIR, "it is a link or no folder", str(path))
    _check_owner(path, found, {0, os.geteuid()}, _OTHERS_WRITE)
    return path


def _shut(path: Path) -> None:
    with suppress(OSError):  # the caller refuses a folder that stays open
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(opened)
            if found.st_uid == os.geteuid() and found.st_mode & _OTHERS_WRITE:
                os.fchmod(opened, stat.S_IMODE(found.st_mode) & ~_OTHERS_WRITE)
        finally:
            os.close(opened)


def _check_owner(path: Path, found: os.stat_result, owners: Set[int], forbidden: int) -> None:
    if found.st_uid not in owners:
        raise OSError(errno.EPERM, f"it belongs to uid {found.st_uid}", str(path))
    if found.st_mode & forbidden & ~(0o070 if _is_private_group(found.st_gid) else 0):
        mode = f"others may open it (mode {stat.S_IMODE(found.st_mode):04o})"
        raise OSError(errno.EPERM, mode, str(path))


def _is_private_group(number: int) -> bool:
    """Whether this user is a group's only member; distributions make such a group for each person.

    False for the account of a service: another service may run in its group, which no list shows.
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
    """Remove the temporary files of killed processes that are older than `before`, if possible.

    Another host may be writing younger ones. `name` is the file that they are of, in a folder that
    other programs use too.
    """
    mine = f".{name}." if name else "."
    with suppress(OSError):
        for each in folder.iterdir():
            with suppress(OSError):
                found = each.name.startswith(mine) and _LEFTOVER.fullmatch(each.name)
                if found and each.lstat().st_mtime < before:
                    each.unlink()


def may_exist(path: Path) -> bool:
    """Whether a file exists, or may exist in a folder that we cannot enter."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def version_of(path: Path) -> tuple[int, int] | None:
    """Inode and time of change, which differ for each whole write; None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


logger = logging.getLogger(__name__)
#: Errors of a file that cannot be read, or of a document that is another one.
UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError),
)
_Parsed = TypeVar("_Parsed")


def as_json(value: Any) -> Any:
    """A value as JSON: dataclasses as tables, tuples as lists, NaN and infinity as null."""
    if is_dataclass(value):
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def typed(kind: Any, found: Any) -> Any:
    """What `as_json` made, as the type that it was; a null that is a float is NaN.

    A field that is missing has its default. One of UNREADABLE for another document: an unknown
    field, another type, or a number of more than 64 bits.
    """
    return _reader(kind)(found)


def _exactly(kind: type[_Parsed], found: Any) -> _Parsed:
    if type(found) is not kind:
        raise TypeError(f"{found!r} is no {kind.__name__}")
    return found


def _int(found: Any) -> int:
    if not -(2**63) <= _exactly(int, found) < 2**63:
        raise ValueError("a number of more than 64 bits")
    return int(found)


def _float(found: Any) -> float:
    if found is None:
        return math.nan
    number = float(found) if type(found) is int else _exactly(float, found)
    if not abs(number) < 2**63:
        raise ValueError(f"{number} is no number")
    return number


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    bool: partial(_exactly, bool),
    float: _float,
    int: _int,
    str: partial(_exactly, str),
}


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    origin, parts = get_origin(kind), get_args(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin in (Union, UnionType):
        present = _reader(parts[0])
        return lambda found: None if found is None else present(found)
    if origin in (dict, Mapping):
        name_of, value_of = parts[0], _reader(parts[1])
        return lambda found: {name_of(name): value_of(each) for name, each in found.items()}
    if origin in (list, Sequence) or parts[1:] == (...,):
        entry, made = _reader(parts[0]), list if origin is list else tuple
        return lambda found: made(map(entry, _exactly(list, found)))
    if origin is tuple:
        return partial(_row, [_reader(each) for each in parts])
    fields_of = {name: _reader(each) for name, each in get_type_hints(kind).items()}
    return partial(_made, kind, fields_of)


def _row(readers: Iterable[Callable[[Any], Any]], found: Any) -> tuple[Any, ...]:
    pairs = zip(readers, _exactly(list, found), strict=True)
    return tuple(read(each) for read, each in pairs)


def _made(kind: Any, readers: Mapping[str, Callable[[Any], Any]], found: Any) -> Any:
    """A named tuple of a list, or a dataclass of a table."""
    if issubclass(kind, tuple):
        return kind(*_row(readers.values(), found))
    return kind(**{name: readers[name](each) for name, each in found.items()})


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """A JSON document in a file."""

    path: Path
    what: str  #: a key of the log
    versions: tuple[int, ...] = (1,)  #: that can be read; the last one is written

    def document(self) -> dict[str, Any]:
        """The document without its version; one of UNREADABLE where there is none."""
        document: dict[str, Any] = kept_json(self.path)
        if (version := document.pop("version")) not in self.versions:
            raise ValueError(f"version {version}")
        return document

    def read(self, parsed: Callable[[dict[str, Any]], _Parsed]) -> _Parsed | None:
        """What `parsed` makes of the document; None, logged, where it raises one of UNREADABLE.

        FileNotFoundError where there is no file.
        """
        try:
            return parsed(self.document())
        except FileNotFoundError:
            raise
        except UNREADABLE as error:
            logger.warning("%s=unreadable path=%s error=%s", self.what, self.path, error)
            return None

    def write(self, document: Mapping[str, Any], *, sync: bool = True) -> None:
        """Replace the file by the document with a version; ConfigurationError if not writable."""
        content = json.dumps({"version": self.versions[-1], **document})
        try:
            write_whole(self.path, content, sync=sync, mode=PRIVATE)
        except OSError as error:
            raise unwritable(f"{self.what} file", self.path, error) from None

    def keep(self, document: Mapping[str, Any]) -> bool:
        """Replace a file whose loss harms no job, without a wait for the disk; False on failure."""
        try:
            self.write(document, sync=False)
        except ConfigurationError as error:
            logger.warning("%s=unwritable path=%s error=%s", self.what, self.path, error)
            return False
        return True


def kept_json(path: Path) -> Any:
    """The JSON of a file that only this user, root or the folder's owner can have made.

    OSError or ValueError where there is none.
    """
    try:
        return json.loads(read_own(path, owners=owner_of_folder(path)))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def unwritable(name: str, path: Path, error: OSError) -> ConfigurationError:
    """The error of a file that cannot be written."""
    return ConfigurationError(
        f"{name} {path} cannot be written ({error.strerror}): make its folder writable for this "
        "user."
    )


def beside(path: Path, ending: str) -> Path:
    """A file next to another one, named after it."""
    return path.with_name(f"{path.name}.{ending}")
