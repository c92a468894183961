"""Every look that a daemon leaves, kept beside: the file itself holds the last one only."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from slurm_rl_plugin.whole_file import version_of

#: Seconds between two glances at the file.
_EVERY = 0.2


@contextmanager
def kept_looks(queue_file: Path, folder: Path) -> Iterator[None]:
    """Copy each new content of a file to a folder while the block runs, numbered from 0.

    Args:
        queue_file: replaced by whoever writes it, never changed in place.
        folder: of the copies; made where it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stop = Event()
    thread = Thread(target=_keep, args=(queue_file, folder, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _keep(queue_file: Path, folder: Path, stop: Event) -> None:
    known, count = None, 0
    while not stop.wait(_EVERY):
        version = version_of(queue_file)
        if version == known:
            continue
        with suppress(FileNotFoundError):  # not written yet
            shutil.copyfile(queue_file, folder / f"{count:05d}.npz")
            known, count = version, count + 1


def looks_in(folder: Path) -> list[Path]:
    """The kept looks, in order of time."""
    return sorted(folder.glob("*.npz"))
