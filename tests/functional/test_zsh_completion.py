"""The completion file in a real zsh: what TAB would offer."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import VERBS
from slurm_rl_plugin.policies.registry import NAMED_POLICIES
from tests.functional.test_system_files import tool

Offered = Callable[..., list[str]]
#: At TAB, notes what the completion system would add; "ready" says that the next line is read.
SETUP = r"""
fpath=(%s $fpath)
autoload -Uz compinit && compinit -D -u
compadd() {
    [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] || {
        local -a hits
        builtin compadd -A hits "$@"
        (($#hits)) && print -rl -- $hits >>offered
    }
    builtin compadd "$@"
}
PS1=ready
"""


@pytest.fixture
def offered(pages: Path, tmp_path: Path) -> Offered:
    """What is offered for the last word, beside what the test puts into its folder."""
    return partial(asked_zsh, pages / "completion", tmp_path)


def asked_zsh(functions: Path, folder: Path, *words: str) -> list[str]:
    (folder / "offered").touch()
    (folder / ".setup").write_text(SETUP % functions)
    terminal, end = pty.openpty()
    zsh = subprocess.Popen(
        [tool("zsh"), "-f", "-i"],
        stdin=end,
        stdout=end,
        stderr=end,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "TERM": "dumb", "PS1": "", "HISTFILE": ""},
        start_new_session=True,
    )
    os.close(end)
    try:
        os.write(terminal, b"source ./.setup\n")
        shown = b""
        while b"ready" not in shown:
            shown += os.read(terminal, 4096)
        # ^U takes the line back, ^D at an empty one ends the shell
        os.write(terminal, " ".join(["slurm-rl", *words]).encode() + b"\t\x15\x04")
        with suppress(OSError):  # the terminal's other end is closed
            while os.read(terminal, 4096):
                pass
        zsh.wait(timeout=20)
    finally:
        zsh.kill()
        os.close(terminal)
    return [line.replace("\\", "") for line in (folder / "offered").read_text().splitlines()]


def test_verbs(offered: Offered) -> None:
    assert offered("exp") == ["experiment", "explain"]


def test_every_verb_has_options(pages: Path, offered: Offered) -> None:
    text = (pages / "completion" / "_slurm-rl").read_text()
    for verb in VERBS:
        assert f"_shtab_slurm_rl_{verb.replace('-', '_')}_options=(" in text
    assert {"--policy", "--json"} <= set(offered("evaluate", "--"))


def test_values_of_an_option(offered: Offered) -> None:
    assert offered("evaluate", "--backfill", "") == ["easy", "none", "slurm"]


def test_policies_and_models_are_offered_beside_files(offered: Offered, tmp_path: Path) -> None:
    (tmp_path / "mine.onnx").touch()
    names = {*NAMED_POLICIES, "mine.onnx"}
    assert set(offered("evaluate", "--policy", "")) - {"offered"} == names


def test_files_are_offered_for_every_log(offered: Offered, tmp_path: Path) -> None:
    (tmp_path / "site log.swf").touch()
    assert offered("train", "first.swf", "site") == ["site log.swf"]


def test_nothing_is_offered_for_a_number(offered: Offered) -> None:
    assert offered("queue", "--limit", "") == []
