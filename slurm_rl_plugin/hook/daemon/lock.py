"""The daemon's lock: one daemon for each host and state file, and proof of its holder.

A user who can open a file can lock it, even if the file is open for reading only. So only its owner
may open the lock, and no other file is taken for it. It holds the id of the process that locked it
and when that process began, which distinguishes a daemon from any other holder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slurm_rl_plugin.errors import ConfigurationError, LockHeld
from slurm_rl_plugin.whole_file import own_file, owner_of_folder, remove_leftovers

#: A test of the lock holds it for an instant, so a daemon that starts just then tries again. A
#: process that has just locked it writes its id within an instant, too.
_LOCK_TRIES, _LOCK_PAUSE = 4, 0.05
#: Seconds after which a leftover file is no longer being written.
_LEFT_AFTER = 3600.0


@contextmanager
def only_daemon(state_path: Path) -> Iterator[None]:
    """Hold this host's lock next to the state file: two daemons would undo each other's order.

    LockHeld if a process that is not a daemon holds it; ConfigurationError if a daemon does, the
    file is not a lock, or the folder is missing or not writable.
    """
    path = lock_path(state_path)
    lock = _opened(path, os.O_RDWR | os.O_CREAT)
    try:
        if not _locked(lock):
            if _is_live_daemon(lock):
                pid = _written(lock)[0]
                raise ConfigurationError(
                    f"another slurm-rl run holds {path} (pid {pid}): stop it first."
                )
            raise _held(path, lock)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()} {_began(os.getpid())}\n".encode(), 0)
        # by the clock of the files, which another host may share
        remove_leftovers(path.parent, os.fstat(lock).st_mtime - _LEFT_AFTER)
        yield
    finally:
        os.close(lock)


def lock_path(state_path: Path) -> Path:
    """The lock next to the state file; not `.lock`, which an earlier release left open to all."""
    host = socket.gethostname().partition(".")[0]
    return state_path.with_name(f"{state_path.name}.{host}.daemon")


def daemon_runs(state_path: Path) -> bool | None:
    """Whether a daemon (or a release) holds the lock; None if this user may not open it.

    Takes a shared lock and releases it at once: several tests do not exclude each other, a daemon
    keeps its lock, and a daemon that starts just then tries again. F_OFD_GETLK would take no lock,
    but it does not see locks made by flock; /proc/locks differs in a container.
    """
    try:
        lock = _opened(lock_path(state_path), os.O_RDONLY)
    except FileNotFoundError:
        return False
    except ConfigurationError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)  # the lock goes with it
    return False


def is_looked_after(state_path: Path) -> bool:
    """Whether a live process of its owner holds the lock; LockHeld if that cannot be shown."""
    path = lock_path(state_path)
    if not daemon_runs(state_path):
        return False
    lock = _opened(path, os.O_RDONLY)
    try:
        for _ in range(_LOCK_TRIES):
            if _is_live_daemon(lock):
                return True
            time.sleep(_LOCK_PAUSE)
        if not daemon_runs(state_path):
            return False
        raise _held(path, lock)
    finally:
        os.close(lock)


def _opened(path: Path, flags: int) -> int:
    """The open lock; FileNotFoundError where there is none, ConfigurationError if it is no lock."""
    try:
        return own_file(path, flags, private=True, owners=owner_of_folder(path))
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
        raise _unopened(path, "No such file or directory") from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EINVAL):
            raise _unopened(path, str(error.strerror)) from None
        raise ConfigurationError(
            f"{path} is not the lock that slurm-rl makes, {error.strerror}: find out who put it "
            "there, then remove it."
        ) from None


def _unopened(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"lock file {path} cannot be opened ({why}): make its folder exist and writable for this "
        "user, and remove a lock that another user made."
    )


def _locked(lock: int) -> bool:
    for attempt in range(_LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if attempt + 1 < _LOCK_TRIES:
                time.sleep(_LOCK_PAUSE)
        else:
            return True
    return False


def _is_live_daemon(lock: int) -> bool:
    """Whether the process that wrote itself into the lock lives, and is its owner's or root's."""
    pid, began = _written(lock)
    if not pid:
        return False
    if (seen := _began(pid)) is not None:
        owners = {0, os.fstat(lock).st_uid}
        with suppress(OSError):
            return seen == began and Path(f"/proc/{pid}").stat().st_uid in owners
    try:  # where /proc hides it, only a process of the same user lets us do this
        os.kill(pid, 0)
    except OSError:
        return False
    return os.geteuid() == os.fstat(lock).st_uid


def _written(lock: int) -> tuple[int, str]:
    """The process that wrote itself into the lock, and when it began; 0 for none."""
    pid, _, began = os.pread(lock, 100, 0).decode(errors="replace").strip().partition(" ")
    return (int(pid), began) if pid.isascii() and pid.isdecimal() and len(pid) < 10 else (0, "")


def _began(pid: int) -> str | None:
    """When a process began, in ticks since the machine started; None where it is not seen."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return told.rpartition(")")[2].split()[19]


def _held(path: Path, lock: int) -> LockHeld:
    pid = _locking(lock)
    who = "a process that is not seen from here"
    if pid:
        who = f"pid {pid}"
        with suppress(OSError):
            who += f" of uid {Path(f'/proc/{pid}').stat().st_uid}"
    return LockHeld(f"{path} is held by {who}, which is no slurm-rl daemon: end that process.")


def _locking(lock: int) -> int:
    """The process that has locked the file, as the kernel lists it; 0 where it is not seen."""
    found = os.fstat(lock)
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if "->" not in words and "FLOCK" in words and place in words:
                return max(int(words[4]), 0)
    return 0
