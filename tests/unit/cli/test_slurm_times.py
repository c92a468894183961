"""Times and job numbers as Slurm's commands take them."""

from __future__ import annotations

import argparse
import math
from datetime import datetime

import pytest

from slurm_rl_plugin.cli.argument_types import (
    job_number,
    job_numbers,
    names,
    parse_slurm_duration,
    parse_slurm_time,
)
from slurm_rl_plugin.cli.tables import slurm_duration, slurm_time
from slurm_rl_plugin.readable import printable

NOW = datetime(2026, 11, 21, 15, 30, 20)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-20", datetime(2026, 11, 20)),
        ("2026-11-20T08:15", datetime(2026, 11, 20, 8, 15)),
        ("2026-11-20T08:15:09", datetime(2026, 11, 20, 8, 15, 9)),
        ("08:15", datetime(2026, 11, 21, 8, 15)),
        ("08:15:09", datetime(2026, 11, 21, 8, 15, 9)),
        ("now", NOW),
        ("today", datetime(2026, 11, 21)),
        ("midnight", datetime(2026, 11, 21)),
        ("now-2hours", datetime(2026, 11, 21, 13, 30, 20)),
        ("now-2hour", datetime(2026, 11, 21, 13, 30, 20)),
        ("now-20", datetime(2026, 11, 21, 15, 30)),
        ("now-30minutes", datetime(2026, 11, 21, 15, 0, 20)),
        ("now+1days", datetime(2026, 11, 22, 15, 30, 20)),
        ("now-1week", datetime(2026, 11, 14, 15, 30, 20)),
    ],
)
def test_forms_of_a_time(text: str, expected: datetime) -> None:
    assert parse_slurm_time(text, NOW) == expected.timestamp()


@pytest.mark.parametrize(
    "text", ["", "yesterdays", "2026-13-01", "now-2fortnights", "now-", "0001-01-01"]
)
def test_no_time(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no time: give"):
        parse_slurm_time(text, NOW)


def test_numbers_of_jobs() -> None:
    parts = ("123", "123_4", "123_[5-7,9%2]", "123+1")
    assert [job_number(text) for text in parts] == [123] * 4
    assert job_numbers("1,2_3,4_[5,6],7") == {1, 2, 4, 7}
    assert names("a,,b") == {"a", "b"}


@pytest.mark.parametrize(
    "text", ["", "x", "1.batch", "-1", "1_", "1_x", "1+", "1_2+3", "12345678901", "1 2"]
)
def test_no_job(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        job_number(text)


def test_how_times_are_printed() -> None:
    assert slurm_duration(59.9) == "00:00:59"
    assert slurm_duration(90061) == "1-01:01:01"
    assert slurm_duration(math.nan) == "-"
    assert slurm_time(NOW.timestamp()) == "2026-11-21T15:30:20"
    assert slurm_time(math.inf) is None
    assert slurm_time(1e18) is None


def test_what_moves_the_cursor_is_not_printed() -> None:
    assert printable("a\x1b[2Jb\nc\u202e\u00e9") == "a?[2Jb?c?\u00e9"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("30m", 1800),
        ("2h", 7200),
        ("1d12h", 129_600),
        ("90s", 90),
        ("2:30", 150),
        ("1:00:00", 3600),
        ("1-0", 86_400),
        ("1-12:30", 131_400),
        ("1-00:00:01", 86_401),
    ],
)
def test_spans_are_read_as_slurm_reads_them(text: str, seconds: float) -> None:
    assert parse_slurm_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5", "2 hours", "1.5h", "1-", "h", "1:2:3:4", "9999d"])
def test_other_spans_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no span of time"):
        parse_slurm_duration(text)
