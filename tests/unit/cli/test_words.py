"""Words for people: times, spans and job numbers as Slurm has them, tables, studies."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from slurm_rl_plugin.cli.argument_types import (
    job_number,
    job_numbers,
    names,
    parse_slurm_duration,
    parse_slurm_time,
)
from slurm_rl_plugin.cli.study_text import FEWEST_JOBS, LOSERS, print_groups, print_losers
from slurm_rl_plugin.cli.tables import slurm_duration, slurm_time, waiting_time
from slurm_rl_plugin.cli.what_if import intervals_words
from slurm_rl_plugin.evaluation.site_replay import Prediction
from slurm_rl_plugin.evaluation.study import Group, MeanAndLongest, Study
from slurm_rl_plugin.learning.evaluation.group_waits import Loser
from slurm_rl_plugin.learning.evaluation.recorded_replay import ComparedFigure
from slurm_rl_plugin.readable import printable, span_text
from tests.functional.typed import rows_of


def test_long_waits_are_told_in_hours_and_days() -> None:
    shown = {10_799.0: 10_799.0, 10_800.0: "3.0 h", -20_000.0: "-5.6 h", 172_799.0: "48.0 h"}
    shown |= {None: None, 172_800.0: "2.0 d", 41_132_002.0: "476.1 d"}
    assert {seconds: waiting_time(seconds) for seconds in shown} == shown
    spans = {119.0: "119 s", 120.0: "2 min", -7199.0: "-120 min", 7200.0: "2.0 h"}
    spans |= {172_799.0: "48.0 h", 41_132_002.0: "476.1 d", math.nan: "-", math.inf: "-"}
    assert {seconds: span_text(seconds) for seconds in spans} == spans


NOW = datetime(2026, 11, 21, 15, 30, 20)


@rows_of("times")
def test_forms_of_a_time(words: str, said: datetime) -> None:
    assert parse_slurm_time(words, NOW) == said.timestamp()


def test_numbers_of_jobs() -> None:
    parts = ("123", "123_4", "123_[5-7,9%2]", "123+1")
    assert [job_number(text) for text in parts] == [123] * 4
    assert job_numbers("1,2_3,4_[5,6],7") == {1, 2, 4, 7}
    assert names("a,,b") == {"a", "b"}


_NO_JOBS = ("", "x", "1.batch", "-1", "1_", "1_x", "1+", "1_2+3", "12345678901", "1 2")
_NO_TIMES = ("", "yesterdays", "2026-13-01", "now-2fortnights", "now-", "0001-01-01")
_NO_SPANS = ("", "0", "-5", "2 hours", "1.5h", "1-", "h", "1:2:3:4", "9999d")


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        *((job_number, text, "is not a job ID: give") for text in _NO_JOBS),
        *((lambda text: parse_slurm_time(text, NOW), text, "is not a time") for text in _NO_TIMES),
        *((parse_slurm_duration, text, "is not a span of time") for text in _NO_SPANS),
    ],
)
def test_what_is_none_is_one_sentence(read: Callable[[str], object], text: str, said: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=said):
        read(text)


def test_how_times_are_printed() -> None:
    assert slurm_duration(59.9) == "00:00:59"
    assert slurm_duration(90061) == "1-01:01:01"
    assert slurm_duration(math.nan) == "-"
    assert slurm_time(NOW.timestamp()) == "2026-11-21T15:30:20"
    assert slurm_time(math.inf) is None
    assert slurm_time(1e18) is None


def test_what_moves_the_cursor_is_not_printed() -> None:
    assert printable("a\x1b[2Jb\nc\u202e\u00e9") == "a?[2Jb?c?\u00e9"


@rows_of("spans of time, seconds")
def test_spans_are_read_as_slurm_reads_them(words: str, said: float) -> None:
    assert parse_slurm_duration(words) == said


def verdict(**changes: Any) -> str:
    figure: dict[str, Any] = {"jobs": 5000, "model": 0.9, "site": 0.8, "difference": 0.1}
    figure |= {"ci95": (0.05, 0.15), "verdict": "better", "jobs_needed": None, **changes}
    prediction = dict.fromkeys(Prediction.__dataclass_fields__)
    prediction |= {
        "goals": ("fairness",),
        "figures": {"fairness": ComparedFigure(**figure)},
        "counted_jobs": 5000,
    }
    return Prediction(**prediction).sentence


def study(**parts: Any) -> Study:
    known = {"counted_jobs": 1, "processors": 4, "class_rule": "", "policies": {}, "groups": {}}
    return Study(**{**known, "compared_with": "native order", "losers": {}, **parts})


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        ({}, "better by 0.1 (12 %)"),
        ({"difference": 0.000491, "verdict": "no difference"}, "no difference"),
        ({"site": 0.0}, "better by 0.1"),
        (
            {"verdict": "inconclusive", "jobs": 40, "jobs_needed": 2500},
            "inconclusive - about 2,500 jobs needed",
        ),
    ],
)
def test_a_difference_is_told_with_its_size(figure: dict[str, Any], said: str) -> None:
    assert verdict(**figure) == f"After 5,000 jobs: fairness {said}."


def loser(by: str, group: str, jobs: int, mean: float, longest: float) -> Loser:
    waits = {"mean_wait": (0.0, mean), "longest_wait": (0.0, longest)}
    return Loser(by=by, group=group, jobs=jobs, **waits)


def test_groups_and_accounts_that_lose_most_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    many = 3 * LOSERS
    losers = [loser("account", f"a{place}", 50, 1e5 - place, 1e5) for place in range(many)]
    losers += [loser("account", "tiny", FEWEST_JOBS - 1, 9e4, 9e6)]
    losers += [
        loser("account", "late", 50, 60.0, 9e6),
        loser("width", "one processor", 1, 9.0, 60.0),
    ]
    print_losers(study(losers={"sjf": losers}))
    out = capsys.readouterr().out
    shown = [line.split()[1] for line in out.splitlines() if line.startswith("account:")]
    assert shown == [*(f"a{place}" for place in range(LOSERS)), "late"]
    (narrow,) = (line for line in out.splitlines() if line.startswith("width: one processor"))
    assert " ".join(narrow.split()) == "width: one processor 1 0 s to 9 s 9 s 0 s to 60 s 60 s"
    assert f"{many + 3 - LOSERS - 2} more groups wait longer" in out


def test_of_many_accounts_the_largest_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    waits = {"sjf": MeanAndLongest(mean_wait=7200.0, longest_wait=3e5)}
    accounts = {f"a{place}": Group(jobs=place, waits=waits) for place in range(1, 12)}
    print_groups(study(policies={"sjf": None}, groups={"account": accounts}))
    out = capsys.readouterr().out
    assert "account: a11    11  2.0 h, 3.5 d" in out
    assert "account: a3 " not in out
    assert "3 smaller accounts: see --json." in out


def test_one_day_is_one_day() -> None:
    told = {"draws": 0, "unit": "days"}
    assert intervals_words({**told, "stretches": 1}).startswith("Only 1 day: too few")
    assert intervals_words({**told, "stretches": 2}).startswith("Only 2 days: too few")
