"""A share of the processors for some processes or threads, as systemd gives it to a unit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD = 100_000  # microseconds, the kernel's own


@contextmanager
def processor_share(name: str, weight: int, quota: float | None = None) -> Iterator[Path | None]:
    """The file that takes process and thread numbers; None where groups cannot be made.

    Numbers
    -------
    weight
        As CPUWeight of systemd: 100 is everybody's.
    quota
        Processors at most, as CPUQuota: .5 is half of one.
    """
    group = GROUPS / name
    try:
        group.mkdir()
        (group / "cpu.shares").write_text(str(max(weight * 1024 // 100, 2)))
        if quota is not None:
            (group / "cpu.cfs_quota_us").write_text(str(int(quota * PERIOD)))
    except OSError:
        yield None
        return
    try:
        yield group / "tasks"
    finally:
        for task in (group / "tasks").read_text().split():
            (GROUPS / "tasks").write_text(task)
        group.rmdir()
