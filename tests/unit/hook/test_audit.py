"""The audit log: appended to by whole lines, and read back whatever became of them."""

from __future__ import annotations

import itertools
import json
import os
import resource
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.hook.audit.log import (
    LONGEST_LINE,
    MOST_NAMES,
    AuditFilter,
    AuditReader,
    AuditSummary,
    RankMoves,
    audit_files,
    inversions,
    kendall_tau,
    tail_of,
)
from tests.unit.hook.queues import ScorePolicy, site


def write_line(time: float, job: int = 1) -> bytes:
    return json.dumps({"event": "write", "time": time, "job": job}).encode() + b"\n"


def times(reader: AuditReader, wanted: AuditFilter | None = None) -> list[float]:
    return [line["time"] for line in reader.lines(wanted or AuditFilter())]


def test_rotated_files_are_found_oldest_first(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    endings = ("", ".1", ".2.gz", ".10.gz", "-20261101.gz", "-20261102", "-20261102-1795300000")
    for ending in (*endings, ".lock", ".swp", "-old", ".json"):
        log.with_name(log.name + ending).touch()
    assert [path.name.removeprefix("audit.jsonl") for path in audit_files(log)] == [
        *(".10.gz", ".2.gz", ".1"),
        *("-20261101.gz", "-20261102", "-20261102-1795300000"),
        "",
    ]


@pytest.mark.parametrize(
    "bad",
    [
        b"no json\n",
        b"{}\n",
        b'{"event": "limit", "time": 3, "resources": {"gpus": {}}}\n',
        b'{"event": "limit", "time": 3, "resources": 7}\n',
        b'"text"\n',
        b"7\n",
        b"[1]\n",
        b"\xff\xfe\x00\n",
        b'{"event": "write", "time": "noon", "job": 1}\n',
        b'{"event": "write", "time": NaN, "job": 1}\n',
        b'{"event": "write", "time": 1e999, "job": 1}\n',
        b'{"event": "write", "time": 1, "job": [1]}\n',
        b'{"event": "write", "time": 1, "job": 1, "old": {"a": 1}}\n',
        b'{"event": ["write"], "time": 1, "job": 1}\n',
        b'{"event": "other", "time": 1, "job": 1}\n',
        b'{"event": "cycle", "time": 1, "order": [[1]]}\n',
        b'{"event": "write", "time": 1, "job":' + b"[" * 100_000 + b"\n",
        b'{"event": "write", "time": ' + b"9" * 5000 + b', "job": 1}\n',
        b'{"event": "write", "time": 1, "job": 1' + b"0" * 40 + b"}\n",
        b'{"event": "limit", "time": 1, "new": -1' + b"0" * 400 + b"}\n",
        b"\x00" * (3 * LONGEST_LINE) + b"\n",
    ],
    ids=lambda bad: bad[:40].decode(errors="replace"),
)
def test_a_bad_line_is_counted_once_and_the_next_one_is_read(tmp_path: Path, bad: bytes) -> None:
    log = tmp_path / "audit.jsonl"
    log.write_bytes(write_line(1) + bad + b"\n" + write_line(2))
    reader = AuditReader([log])
    assert times(reader) == [1, 2]
    assert reader.bad == 1
    assert [line["time"] for line in tail_of(log, 10**9)] == [1, 2]


@pytest.mark.parametrize("resources", [{}, {"gpus": 4, "memory": 64000.0}])
def test_a_limit_tells_amounts_by_resource(tmp_path: Path, resources: dict[str, float]) -> None:
    log = tmp_path / "audit.jsonl"
    line = {"event": "would_limit", "time": 5, "new": 6, "resources": resources}
    log.write_text(json.dumps(line) + "\n")
    reader = AuditReader([log])
    assert (list(reader.lines(AuditFilter())), reader.bad) == ([line], 0)


def test_the_end_of_a_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    log.write_bytes(b"".join(write_line(time) for time in range(10)))
    size = len(write_line(1))
    assert [line["time"] for line in tail_of(log, 2 * size + 3)] == [8, 9]
    assert tail_of(tmp_path / "missing", 100) == []


def test_nobody_waits_for_a_pipe_in_the_place_of_a_log(tmp_path: Path) -> None:
    """The daemon's account can put one there; `audit` and `explain` read it."""
    log = tmp_path / "audit.jsonl"
    os.mkfifo(log)
    reader = AuditReader([log])
    assert times(reader) == []
    assert reader.unread == [f"{log} cannot be read to its end (not a plain file)."]
    assert tail_of(log, 1000) == []


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """Files may not grow beyond a number of bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 1, 100])
def test_a_full_disk_leaves_no_half_line_and_stops_the_write(tmp_path: Path, room: int) -> None:
    queue, cycle = site(tmp_path, scores=[3, 2, 1])
    cycle.run()
    path = cycle.audit.path
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
    _, cycle = site(tmp_path)
    cycle.run()
    path = cycle.audit.path
    lines = len(path.read_text().splitlines())
    path.write_bytes(path.read_bytes()[:-20])
    cycle.run()
    reader = AuditReader([path])
    assert len(list(reader.lines(AuditFilter()))) == lines  # one is half, and one is new
    assert reader.bad == 1


def test_a_pipe_takes_the_lines_too(tmp_path: Path) -> None:
    """As /dev/stdout in a container: who stops writing orders nothing any more."""
    _, cycle = site(tmp_path)
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


def cycle(time: float, order: list[int], **values: Any) -> dict[str, Any]:
    line = {"event": "cycle", "time": time, "mode": "shadow", "policy": "m", "model": "abc"}
    return {**line, "reason": "policy", "jobs": len(order), "order": order, **values}


def write(time: float, job: int, event: str = "would_write") -> dict[str, Any]:
    return {"event": event, "time": time, "job": job}


def summary_of(*lines: dict[str, Any]) -> dict[str, Any]:
    summary = AuditSummary()
    for line in lines:
        summary.add(line)
    return summary.document(1)


def test_cycles_jobs_writes_fallbacks_failures_and_rails_are_counted() -> None:
    """Of job numbers of a federation the bits that name the cluster do not count."""
    found = summary_of(
        cycle(0.0, [3, 1, 2], site_rank=[2, 0, 1], failed=["busy", "batch_system", "busy"]),
        write(0.0, (3 << 26) + 3),
        write(0.0, 0x03FF_FFFF),
        {"event": "experiment", "time": 2.0, "mode": "active", "policy": "x", "why": "our turn"},
        cycle(30.0, [], site_rank=[]),
        cycle(330.0, [1, 2], site_rank=[0, 1], reason="late", guard_rails=["starvation bound"]),
        write(330.0, 1, "write"),
    )
    expected = {
        "cycles": 3,
        "cycles_with_jobs": 2,
        "longest_gap_seconds": 300.0,
        "jobs_seen": 4,
        "would_be_writes": 2,
        "writes": 1,
        "fallbacks": {"late": 1},
        "failures": {"busy": 2, "batch_system": 1},
        "guard_rails": {"starvation bound": 1},
    }
    assert {name: found[name] for name in expected} == expected


def test_moves_are_told_by_class_and_account() -> None:
    line = cycle(
        *(0.0, [7, 8, 9, 10]),
        site_rank=[3, 0, 1, 2],
        interactive=[0],
        account=[0, 1, 1, 0],
        accounts=["physics", "biology"],
    )
    found = summary_of(line, line)
    assert found["moves"] == {"job_cycles": 8, "earlier": 0.25, "later": 0.0, "median_move": -1.0}
    assert found["classes"]["interactive"]["median_move"] == 3.0
    assert found["classes"]["batch"]["median_move"] == -1.0
    assert found["accounts"]["physics"]["job_cycles"] == 4
    assert found["accounts"]["biology"]["earlier"] == 0.0
    assert found["kendall_tau"] == pytest.approx(1 - 4 * 3 / (4 * 3))


@pytest.mark.parametrize(
    "values",
    [
        {"site_rank": ["a", None]},
        {"site_rank": [0]},
        {"site_rank": 7},
        {"site_rank": [10**30, 1]},
        {"site_rank": [1, 0], "interactive": [99, -5], "account": [7, 7], "accounts": ["x"]},
        {"failed": 3, "guard_rails": None, "reason": None},
    ],
)
def test_odd_values_of_a_line_break_nothing(values: dict[str, Any]) -> None:
    assert summary_of(cycle(0.0, [1, 2], **values))["cycles"] == 1


def test_memory_does_not_grow_with_the_log() -> None:
    summary = AuditSummary()

    def feed(first: int) -> None:
        for number in range(first, first + 300):
            jobs = [number * 1000 + index for index in range(50)]
            rank = np.random.default_rng(number).permutation(50).tolist()
            line = cycle(number, jobs, site_rank=rank, account=[0] * 50, reason=f"late {number}")
            summary.add({**line, "accounts": [f"account{number}"]})

    feed(0)
    feed(2000)
    tracemalloc.start()
    feed(1000)
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert grown < 100_000
    assert len(summary.by_account) == MOST_NAMES + 1
    assert summary.jobs_seen == 3 * 300 * 50


@given(st.lists(st.integers(-50, 50), unique=True, max_size=40))
def test_inversions_are_the_pairs_that_stand_the_wrong_way_round(values: list[int]) -> None:
    pairs = sum(first > second for first, second in itertools.combinations(values, 2))
    assert inversions(np.array(values, dtype=np.int64)) == pairs


def test_tau_is_one_for_the_same_order_and_minus_one_for_the_reverse() -> None:
    assert kendall_tau(np.arange(9)) == 1.0
    assert kendall_tau(np.arange(9)[::-1]) == -1.0
    assert kendall_tau(np.array([0, 2, 1])) == pytest.approx(1 / 3)
    assert kendall_tau(np.array([0])) is None


def test_moves_are_shared_out_by_direction_and_length() -> None:
    moves = RankMoves()
    assert moves.shares(1) == (None, None)
    assert moves.median() is None
    moves.add(np.array([0, 0, 11, 5, -3]))
    moves.add(np.array([0, -100, 250, 0, 40]))
    assert moves.count == 10
    assert moves.shares(0) == (0.4, 0.2)
    assert moves.shares(10) == (0.3, 0.1)
    assert moves.shares(100) == (0.1, 0.0)
    assert moves.median() == 0.0


@given(st.lists(st.integers(-3000, 3000), min_size=1, max_size=60))
def test_the_median_is_exact_for_short_moves_and_near_for_long_ones(values: list[int]) -> None:
    moves = RankMoves()
    moves.add(np.array(values))
    exact = sorted(values)[(len(values) + 1) // 2 - 1]
    assert moves.median() == pytest.approx(exact, rel=0.1 if abs(exact) > 100 else 1e-12)
