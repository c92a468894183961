"""Sets the clock of a private site, of Slurm and of the daemon under test, with libfaketime."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.real.restless_hook import CLOCK

#: Seconds by which the clock jumps; every job's limit is longer.
JUMP = 1800.0
PRELOAD = "LD_PRELOAD"
LIBRARY = "faketime/libfaketimeMT.so.1"


def clock_library() -> Path | None:
    """Path of libfaketime; None if it is not installed."""
    folders = [Path("/usr/lib64"), *Path("/usr/lib").glob("*-linux-gnu")]
    found = [each / LIBRARY for each in folders if (each / LIBRARY).exists()]
    return found[0] if found else None


@contextmanager
def settable_clock(folder: Path) -> Iterator[None]:
    """Programs that start during the block use a clock in `folder`, which is right at first.

    It is the wall clock only: durations stay right, as when an administrator sets the time.
    """
    library = clock_library()
    assert library is not None, "libfaketime is missing"
    set_clock(folder, 0.0)
    variables = {
        PRELOAD: str(library),
        CLOCK: str(folder / "clock"),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name)


def set_clock(folder: Path, seconds: float) -> None:
    """Sets the clock ahead by these seconds, or back if they are negative."""
    new = folder / "clock.new"
    new.write_text(f"{seconds:+.0f}\n")
    new.replace(folder / "clock")
