"""Find and end every process of one private cluster, whatever became of its parents.

Run as a program, `process_sweep.py MARK FOLDER`, it waits for the end of its standard input and
then sweeps: so a cluster disappears even when the test run that owned it was killed outright.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

MARK = "PRIVATE_SLURM_MARK"
STEP = "slurmstepd"


def marked_processes(mark: str, folder: str = "") -> set[int]:
    """Live processes that carry `mark` in their environment, and all their descendants.

    The steps of a running job, from Slurm 24.11 on, leave their daemon and have no environment to
    be read; they are known by the log that they write in the cluster's folder, of this name.
    """
    wanted = f"{MARK}={mark}".encode()
    parents: dict[int, int] = {}
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            state, parent = entry.joinpath("stat").read_text().rpartition(")")[2].split()[:2]
            if state in "ZX":
                continue
            parents[int(entry.name)] = int(parent)
            marked = wanted in entry.joinpath("environ").read_bytes().split(b"\0")
            if marked or (folder and _is_step_in(entry, folder)):
                found.add(int(entry.name))
    return _with_descendants(found, parents) - _own_line(parents)


def _is_step_in(process: Path, folder: str) -> bool:
    if process.joinpath("comm").read_text().strip() != STEP:
        return False
    return any(folder in each.readlink().parts for each in process.joinpath("fd").iterdir())


def _with_descendants(found: set[int], parents: dict[int, int]) -> set[int]:
    size = -1
    while size != len(found):
        size = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found


def _own_line(parents: dict[int, int]) -> set[int]:
    """This process and its ancestors, which must survive a sweep."""
    line, pid = set(), os.getpid()
    while pid and pid not in line:
        line.add(pid)
        pid = parents.get(pid, 0)
    return line


def sweep(mark: str, folder: str = "", deadline: float = 5.0) -> set[int]:
    """Kill the marked processes until none is left; returns those that outlived `deadline` s."""
    left = marked_processes(mark, folder)  # on a busy machine this look alone may take as long
    end = time.monotonic() + deadline
    while left:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
        left = marked_processes(mark, folder)
        if time.monotonic() > end:
            break
    return left


if __name__ == "__main__":
    sys.stdin.buffer.read()
    sweep(sys.argv[1], sys.argv[2])
