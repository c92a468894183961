"""A terminal sees how far long work is; Ctrl-C names what the same command continues from."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from slurm_rl_plugin.cli import progress
from slurm_rl_plugin.cli.progress import parts_bar, resumable, said_if_long, say_of_compiling
from slurm_rl_plugin.learning import algorithms
from slurm_rl_plugin.learning.checkpoint import Checkpoint
from tests.functional.typed import Typed

Heard = Callable[[], str]


@pytest.fixture
def heard(capsys: pytest.CaptureFixture[str]) -> Heard:
    """What standard error, a log, got since the last call."""
    return lambda: capsys.readouterr().err


@pytest.fixture
def shown(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> Heard:
    """The same of a terminal without rich."""
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda stream: True, raising=False)
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    return heard


@pytest.mark.parametrize("fails", [False, True])
def test_long_work_is_shown_until_it_ends(
    shown: Heard, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with suppress(ValueError), said_if_long("reading a.log"):
        said, until = "", time.monotonic() + 60.0
        while "reading a.log ..." not in said and time.monotonic() < until:
            time.sleep(0.001)
            said += shown()
        assert "reading a.log ..." in said
        if fails:
            raise ValueError("of the work")
    assert shown() == "\r\033[K"


def test_a_first_run_says_that_it_compiles(shown: Heard) -> None:
    say_of_compiling(lambda: True)
    assert shown() == ""
    say_of_compiling(lambda: False)
    assert shown() == f"slurm-rl: {progress.COMPILES_FIRST}\n"


def test_work_continues_without_standard_error_or_a_thread(
    shown: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard error was closed, or no thread is left."""

    def refused(timer: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(progress.Timer, "start", refused)
        with said_if_long("reading a.log"):
            pass
    assert shown() == ""
    monkeypatch.setattr(sys, "stderr", None)
    with said_if_long("reading a.log"), parts_bar("audit log", 1) as add:
        add(1)
    say_of_compiling(lambda: False)


@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_is_shown_of_short_work(
    terminal: bool, request: pytest.FixtureRequest, heard: Heard
) -> None:
    if terminal:  # without rich
        request.getfixturevalue("shown")
    with parts_bar("audit log", 200) as add:
        add(50)
    with said_if_long("reading a.log"):
        pass
    if not terminal:
        say_of_compiling(lambda: False)
    assert heard() == ""


def test_a_log_gets_a_line_each_minute_or_each_tenth_whichever_is_rarer(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def said_at(second: float, parts: int) -> str:
        nonlocal now
        now = 1000.0 + second
        add(parts)
        return heard()

    with parts_bar("  replaying", 100) as add:
        assert said_at(59.0, 50) == ""
        assert said_at(60.0, 1) == "slurm-rl: replaying: 51%\n"
        assert said_at(119.0, 20) == ""
        assert said_at(121.0, 1) == "slurm-rl: replaying: 72%\n"
        assert said_at(600.0, 9) == ""
        assert said_at(601.0, 1) == "slurm-rl: replaying: 82%\n"


def test_work_goes_on_where_the_reader_of_its_log_has_gone_away(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(text: str) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    with parts_bar("replaying", 1) as add, monkeypatch.context() as patched:
        patched.setattr(sys.stderr, "write", gone)
        add(1)
    assert heard() == ""


def words_of(path: Path | None, *, several: bool = False) -> str:
    with pytest.raises(KeyboardInterrupt) as stop, resumable(path, several=several):
        raise KeyboardInterrupt
    return str(stop.value)


def keep(path: Path, steps: int) -> None:
    kept = Checkpoint(path, {})
    for step in range(steps):
        kept.add(step)


def test_a_checkpoint_with_a_step_is_named(tmp_path: Path) -> None:
    assert words_of(None) == words_of(tmp_path / "none") == ""
    keep(tmp_path / "begun", 0)
    assert words_of(tmp_path / "begun") == ""
    keep(tmp_path / "kept", 2)
    keep(tmp_path / "kept.2", 2)
    sentence = f"interrupted: the same command continues from {tmp_path}/kept"
    assert words_of(tmp_path / "kept") == f"{sentence}."
    assert words_of(tmp_path / "kept", several=True) == f"{sentence} and 1 more."


@pytest.mark.parametrize("kept", [True, False])
def test_a_training_names_its_checkpoint(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    output = tmp_path / "z.onnx"

    def interrupted(*given: object, checkpoint: Path, **more: object) -> None:
        if kept:
            keep(checkpoint, 1)
        raise KeyboardInterrupt

    monkeypatch.setattr(algorithms, "train_policy", interrupted)
    status, _, said = typed("train", "mmn:seed=3,jobs=100", "-o", output, "--steps", "1")
    sentence = f"interrupted: the same command continues from {output}.checkpoint."
    assert status == 1
    assert said.endswith(f"slurm-rl train: {sentence if kept else 'interrupted.'}\n")
