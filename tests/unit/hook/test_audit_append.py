"""The audit log is appended to by whole lines, whatever the disk says."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.audit.reader import AuditFilter, AuditReader
from tests.unit.hook.queues import QueueInMemory, ScorePolicy, pending_jobs
from tests.unit.hook.test_cycle import cycle_over


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """Files may not grow beyond so many bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 1, 100])
def test_what_does_not_fit_leaves_no_half_line_and_stops_the_write(
    tmp_path: Path, room: int
) -> None:
    queue = QueueInMemory(pending_jobs([3, 2, 1]))
    cycle = cycle_over(queue, ScorePolicy([3, 2, 1]), tmp_path)
    cycle.run()
    path = cycle.audit.path
    assert path is not None
    whole = path.read_bytes()
    cycle.policy = ScorePolicy([1, 2, 3])
    with disk_of(len(whole) + room):
        report = cycle.run()
    assert report.failure == "write"
    assert not any(queue.pending.factor)  # nothing is changed unaudited
    assert path.read_bytes() == whole
    assert cycle.run().succeeded
    assert any(queue.pending.factor)
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_half_a_line_of_a_killed_daemon_spoils_no_other(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([3, 2, 1]))
    cycle = cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path)
    cycle.run()
    path = cycle.audit.path
    assert path is not None
    lines = len(path.read_text().splitlines())
    path.write_bytes(path.read_bytes()[:-20])
    cycle.run()
    reader = AuditReader([path])
    assert len(list(reader.lines(AuditFilter()))) == lines  # one is half, and one is new
    assert reader.bad == 1


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([2, 1]))
    cycle = cycle_over(queue, ScorePolicy([1, 2]), tmp_path)
    cycle.run()
    assert cycle.audit.path is not None
    cycle.audit.path.unlink()
    cycle.audit.path.mkdir()
    with pytest.raises(ConfigurationError, match="cannot be written"):
        cycle.audit._append("x\n")


def test_a_pipe_takes_the_lines_too(tmp_path: Path) -> None:
    """As /dev/stdout in a container: who stops writing orders nothing any more."""
    cycle = cycle_over(QueueInMemory(pending_jobs([3, 2, 1])), ScorePolicy([1, 2, 3]), tmp_path)
    assert cycle.audit.path is not None
    os.mkfifo(cycle.audit.path)
    reader = os.open(cycle.audit.path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert cycle.run().succeeded
        lines = os.read(reader, 1 << 16).splitlines()
    finally:
        os.close(reader)
    events = [json.loads(line)["event"] for line in lines]
    assert events[0] == "cycle"
    assert set(events[1:]) == {"write"}
