from __future__ import annotations

import sys

import pytest

from slurm_rl_plugin.cli.progress import parts_bar


def test_a_terminal_without_rich_gets_a_plain_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    with parts_bar("audit log", 200) as add:
        assert "audit log 0%" in capsys.readouterr().err
        add(50)
        add(150)
    said = capsys.readouterr()
    assert said.out == ""
    assert "audit log 25%" in said.err
    assert "audit log 100%" in said.err
    assert said.err.endswith("\r\033[K")


def test_elsewhere_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with parts_bar("audit log", 200) as add:
        add(50)
    assert capsys.readouterr().err == ""
