"""The completion file in a real zsh: what TAB would offer."""

from __future__ import annotations

import os
import pty
import subprocess
from contextlib import suppress
from pathlib import Path

from slurm_rl_plugin.cli.entry import VERBS
from slurm_rl_plugin.policies.registry import NAMED_POLICIES
from tests.architecture.markdown_documents import TOP
from tests.functional.test_system_files import tool

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


def offered(folder: Path, *words: str) -> list[str]:
    """What is offered for the last word; the folder may hold files that can be completed."""
    (folder / "offered").touch()
    (folder / ".setup").write_text(SETUP % (TOP / "deploy" / "completion"))
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


def test_verbs(tmp_path: Path) -> None:
    assert offered(tmp_path, "exp") == ["experiment", "explain"]


def test_every_verb_has_options(tmp_path: Path) -> None:
    text = (TOP / "deploy" / "completion" / "_slurm-rl").read_text()
    for verb in VERBS:
        assert f"_shtab_slurm_rl_{verb.replace('-', '_')}_options=(" in text
    assert {"--policy", "--json"} <= set(offered(tmp_path, "evaluate", "--"))


def test_values_of_an_option(tmp_path: Path) -> None:
    assert offered(tmp_path, "evaluate", "--backfill", "") == [
        "conservative",
        "easy",
        "none",
        "slurm",
    ]


def test_policies_and_models_are_offered_beside_files(tmp_path: Path) -> None:
    (tmp_path / "mine.onnx").touch()
    names = {*NAMED_POLICIES, "mine.onnx"}
    assert set(offered(tmp_path, "evaluate", "--policy", "")) - {"offered"} == names


def test_files_are_offered_for_every_log(tmp_path: Path) -> None:
    (tmp_path / "site log.swf").touch()
    assert offered(tmp_path, "train", "first.swf", "site") == ["site log.swf"]


def test_nothing_is_offered_for_a_number(tmp_path: Path) -> None:
    assert offered(tmp_path, "queue", "--limit", "") == []
