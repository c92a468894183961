"""A terminal sees how far long work is; Ctrl-C names what the same command continues from."""

from __future__ import annotations

import re
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from slurm_rl_plugin.cli import progress
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.cli.progress import (
    parts_bar,
    resumable,
    said_if_long,
    say_of_compiling,
)
from slurm_rl_plugin.learning import training
from slurm_rl_plugin.learning.checkpoint import Checkpoint


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error, which `capsys` must hold by now, is a terminal without rich."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)


def silent_for(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SILENT_SINCE", [time.monotonic() - seconds])


def heard(capsys: pytest.CaptureFixture[str], words: str) -> bool:
    """Whether the terminal shows the words within a minute."""
    said, until = "", time.monotonic() + 60.0
    while words not in said and time.monotonic() < until:
        time.sleep(0.001)
        said += capsys.readouterr().err
    return words in said


def test_a_terminal_without_rich_gets_a_plain_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_terminal(monkeypatch)
    with parts_bar("audit log", 200) as add:
        assert "audit log 0%" in capsys.readouterr().err
        add(50)
        add(150)
    said = capsys.readouterr()
    assert said.out == ""
    assert "audit log 25%" in said.err
    assert "audit log 100%" in said.err
    assert said.err.endswith("\r\033[K")


@pytest.mark.parametrize("fails", [False, True])
def test_long_work_is_shown_until_it_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fails: bool
) -> None:
    on_a_terminal(monkeypatch)
    silent_for(progress.PATIENCE, monkeypatch)
    with suppress(ValueError), said_if_long("reading a.log"):
        assert heard(capsys, "reading a.log ...")
        if fails:
            raise ValueError("of the work")
    assert capsys.readouterr().err == "\r\033[K"
    assert time.monotonic() - progress._SILENT_SINCE[0] < progress.PATIENCE


def test_nothing_is_said_of_short_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_terminal(monkeypatch)
    silent_for(0.0, monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 3600.0)
    with said_if_long("reading a.log"):
        pass
    assert capsys.readouterr().err == ""


def test_a_bar_that_ends_was_heard(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_terminal(monkeypatch)
    silent_for(3600.0, monkeypatch)
    with parts_bar("audit log", 1):
        pass
    assert capsys.readouterr().err.endswith("\r\033[K")
    assert time.monotonic() - progress._SILENT_SINCE[0] < 3600.0


def test_a_first_run_says_that_it_compiles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_terminal(monkeypatch)
    say_of_compiling(lambda: True)
    assert capsys.readouterr().err == ""
    say_of_compiling(lambda: False)
    assert capsys.readouterr().err == f"slurm-rl: {progress.COMPILES_FIRST}\n"


def test_work_continues_without_standard_error_or_a_thread(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard error was closed, or no thread is left."""
    on_a_terminal(monkeypatch)

    def refused(timer: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(progress.Timer, "start", refused)
        with said_if_long("reading a.log"):
            pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", None)
    with said_if_long("reading a.log"), parts_bar("audit log", 1) as add:
        add(1)
    say_of_compiling(lambda: False)


def test_elsewhere_nothing_is_shown_of_short_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    silent_for(3600.0, monkeypatch)
    with parts_bar("audit log", 200) as add:
        add(50)
    with said_if_long("reading a.log"):
        pass
    say_of_compiling(lambda: False)
    assert capsys.readouterr().err == ""


def test_a_log_gets_a_line_each_minute_or_each_tenth_whichever_is_rarer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def said_at(second: float, parts: int) -> str:
        nonlocal now
        now = 1000.0 + second
        add(parts)
        return capsys.readouterr().err

    with parts_bar("  replaying", 100) as add:
        assert said_at(59.0, 50) == ""
        assert said_at(60.0, 1) == "slurm-rl: replaying: 51%\n"
        assert said_at(119.0, 20) == ""
        assert said_at(121.0, 1) == "slurm-rl: replaying: 72%\n"
        assert said_at(600.0, 9) == ""
        assert said_at(601.0, 1) == "slurm-rl: replaying: 82%\n"


def test_work_goes_on_where_the_reader_of_its_log_has_gone_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(text: str) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    with parts_bar("replaying", 1) as add, monkeypatch.context() as patched:
        patched.setattr(sys.stderr, "write", gone)
        add(1)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("what", ["hook", "simulator"])
def test_a_benchmark_shows_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    on_a_terminal(monkeypatch)
    words = ["--jobs", "40", "--repeats", "2", "--policy", "sjf", "--json"]
    assert main(["benchmark", what, *words]) == 0
    shown = [int(each) for each in re.findall(r"measuring (\d+)%", capsys.readouterr().err)]
    assert shown == sorted(shown)
    assert len(set(shown)) > 10
    assert 80 <= shown[-1] <= 100


def words_of(path: Path | None, *, several: bool = False) -> str:
    with pytest.raises(KeyboardInterrupt) as stop, resumable(path, several=several):
        raise KeyboardInterrupt
    return str(stop.value)


def keep(path: Path, steps: int) -> None:
    kept = Checkpoint(path, {})
    for step in range(steps):
        kept.add(step)


def test_nothing_kept_is_nothing_said(tmp_path: Path) -> None:
    assert words_of(None) == ""
    assert words_of(tmp_path / "none") == ""
    keep(tmp_path / "begun", 0)
    assert words_of(tmp_path / "begun") == ""


def test_the_file_is_named(tmp_path: Path) -> None:
    keep(tmp_path / "kept", 2)
    keep(tmp_path / "kept.2", 2)
    sentence = f"interrupted: the same command continues from {tmp_path}/kept"
    assert words_of(tmp_path / "kept") == f"{sentence}."
    assert words_of(tmp_path / "kept", several=True) == f"{sentence} and 1 more."


@pytest.mark.parametrize("kept", [True, False])
def test_a_training_names_its_checkpoint(
    kept: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "z.onnx"

    def interrupted(*given: object, checkpoint: Path, **more: object) -> None:
        if kept:
            keep(checkpoint, 1)
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train_policy", interrupted)
    assert main(["train", "mmn:seed=3,jobs=100", "-o", str(output), "--steps", "1"]) == 1
    sentence = f"interrupted: the same command continues from {output}.checkpoint."
    assert capsys.readouterr().err.endswith(
        f"slurm-rl train: {sentence if kept else 'interrupted.'}\n"
    )
