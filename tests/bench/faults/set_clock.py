"""A clock of the whole private site, all its daemons and ours, that can be set: libfaketime."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def shift_clock() -> None:
    """From now on time.time() is what the file says it is later than it is."""
    path, right = Path(os.environ[FILE]), time.time  # noqa: TID251 - the clock to be shifted
    time.time = lambda: right() + float(path.read_text())  # noqa: TID251


#: Seconds that the clock jumps; no job's limit is as short.
JUMP = 1800.0
#: Variables: the file that tells how late it is, and what is preloaded.
FILE, PRELOAD = "FAKETIME_TIMESTAMP_FILE", "LD_PRELOAD"
LIBRARY = "faketime/libfaketimeMT.so.1"


def clock_library() -> Path | None:
    """Where libfaketime is; None where it is not installed."""
    folders = [Path("/usr/lib64"), *Path("/usr/lib").glob("*-linux-gnu")]
    found = [each / LIBRARY for each in folders if (each / LIBRARY).exists()]
    return found[0] if found else None


@contextmanager
def settable_clock(folder: Path) -> Iterator[None]:
    """Whatever is started meanwhile goes by a clock in `folder`, right at first.

    The wall clock only: durations are not touched, as where an administrator sets the time.
    """
    library = clock_library()
    assert library is not None, "libfaketime is missing"
    set_clock(folder, 0.0)
    variables = {
        PRELOAD: str(library),
        FILE: str(_path(folder)),
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
    """Let it be so many seconds later than it is."""
    beside = folder / "clock.new"
    beside.write_text(f"{seconds:+.0f}\n")
    beside.replace(_path(folder))


def _path(folder: Path) -> Path:
    return folder / "clock"


if __name__ == "__main__":
    shift_clock()
    from slurm_rl_plugin.cli import run
    from slurm_rl_plugin.cli.entry import main
    from slurm_rl_plugin.services.hook import LoadedPolicy
    from tests.real.restless_hook import Restless

    run.load_policy_or_fall_back = lambda _: LoadedPolicy(policy=Restless())
    sys.exit(main(sys.argv[1:]))
