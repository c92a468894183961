"""Numbers and folders out of bounds: one sentence and exit code 2, before any log is read."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.argument_types import at_least_one, number_from_zero, whole_number
from slurm_rl_plugin.cli.entry import main

#: Read too late, it would be what the sentence is about.
NO_LOG = "/none.swf"
HUGE = "9" * 21


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one sentence of words that no verb takes."""
    try:
        code: object = main(list(words))
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert (code, captured.out, captured.err.count("\n")) == (2, "", 1), captured
    assert "none.swf" not in captured.err
    return captured.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("benchmark", "hook", "--seed", "-1"), "--seed: '-1' is no whole number of at least 0"),
        (("benchmark", "hook", "--jobs", HUGE), "--jobs: '999"),
        (("demo", "--generations", "0"), "--generations: '0' is no whole number of at least 1"),
        (("demo", "--generations", "-1"), "--generations: '-1' is no whole number"),
        (("demo", "--seed", "-1"), "--seed: '-1' is no whole number of at least 0"),
        (("train", NO_LOG, "-o", "m.onnx", "--seed", "-1"), "--seed: '-1' is no whole number"),
        (("reproduce", "switchback", "--seeds", HUGE), "--seeds: '999"),
        (("reproduce", "switchback", "/nonexist"), "/nonexist does not exist: give the folder"),
        (("reproduce", "switchback", "/"), "switchback takes no traces"),
    ],
)
def test_what_other_verbs_do_not_take(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    assert sentence in refused(capsys, *words)


def test_a_demo_that_cannot_write(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path in (file, Path("/proc/x")):
        sentence = refused(capsys, "demo", "-o", str(path))
        assert sentence.startswith(f"slurm-rl demo: -o {path}: the folder cannot be made")


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "²", "2147483648"])
def test_no_count(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        at_least_one(text)


@pytest.mark.parametrize(
    ("words", "option", "most"),
    [
        ("experiment start --days 2000000000", "--days", 3650),
        ("shadow-report week.sacct --processors 2147483648", "--processors", 2**31 - 1),
    ],
)
def test_more_than_can_be_counted_is_refused(
    words: str, option: str, most: int, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = refused(capsys, *words.split())
    assert f"argument {option}: " in sentence
    assert f"is too large: give {most} at most" in sentence


def test_what_is_within_bounds() -> None:
    assert whole_number(0)("2147483647") == 2**31 - 1
    assert at_least_one("7") == 7
    seconds = number_from_zero("number of seconds", 60.0)
    assert [seconds(text) for text in ("0", "60", ".5")] == [0.0, 60.0, 0.5]
