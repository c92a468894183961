"""The completion file in a real bash: what TAB would offer."""

from __future__ import annotations

import os
import pty
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import VERBS, verb_parser
from slurm_rl_plugin.policies.registry import NAMED_POLICIES, SHIPPED_MODELS
from tests.functional.test_system_files import tool

Offered = Callable[..., list[str]]
#: Does what bash does at TAB: the function that `complete` names, on the words so far.
ASK = """
set -u
source "$1"; shift
[[ $(complete -p slurm-rl) == *" -F _shtab_slurm_rl slurm-rl" ]] || exit 1
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_shtab_slurm_rl slurm-rl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
((${#COMPREPLY[@]} == 0)) || printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def offered(pages: Path, tmp_path: Path) -> Offered:
    """What is offered for the last word, in an empty folder unless the test fills it."""

    def ask(*words: str) -> list[str]:
        file = pages / "completion" / "slurm-rl"
        done = subprocess.run(
            [tool("bash"), "-c", ASK, "bash", str(file), "slurm-rl", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout.splitlines()

    return ask


def test_verbs(offered: Offered) -> None:
    assert offered("") == list(VERBS)
    assert "--version" in offered("-")
    assert offered("exp") == ["experiment", "explain"]


@pytest.mark.parametrize("verb", VERBS)
def test_options_are_those_of_the_parser(verb: str, offered: Offered) -> None:
    known = [name for action in verb_parser(verb)._actions for name in action.option_strings]
    assert offered(verb, "-") == known


@pytest.mark.parametrize("verb", VERBS)
def test_values_are_those_of_the_parser(verb: str, offered: Offered) -> None:
    for action in verb_parser(verb)._actions:
        if action.choices is not None:
            before = action.option_strings[:1]
            assert offered(verb, *before, "") == list(action.choices), action.dest


def test_policies_and_models_are_offered_beside_files(offered: Offered, tmp_path: Path) -> None:
    (tmp_path / "mine.onnx").touch()
    live = {each.name for each in NAMED_POLICIES.values() if not each.needs_log}
    assert set(offered("evaluate", "--policy", "")) == {*NAMED_POLICIES, "mine.onnx"}
    assert set(offered("benchmark", "hook", "--policy", "")) == {*live, "mine.onnx"}
    models = {"slurm", *SHIPPED_MODELS, "mine.onnx"}
    assert set(offered("train", "--from", "")) == models
    assert offered("evaluate", "--policy", "mi") == ["min-run-wait", "mine.onnx"]


def test_files_are_offered_where_a_file_is_wanted(offered: Offered, tmp_path: Path) -> None:
    (tmp_path / "site log.swf").touch()
    for words in (("check", "--config"), ("evaluate",), ("reproduce", "heldout")):
        assert offered(*words, "site") == ["site log.swf"]


def test_nothing_is_offered_for_a_number(offered: Offered, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert offered("queue", "--limit", "") == []
    assert offered("explain", "") == []


def test_a_tab_at_the_prompt_completes(pages: Path, tmp_path: Path) -> None:
    terminal, end = pty.openpty()
    bash = subprocess.Popen(
        [tool("bash"), "--norc", "--noprofile", "-i"],
        stdin=end,
        stdout=end,
        stderr=end,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "TERM": "dumb", "HISTFILE": ""},
        start_new_session=True,
    )
    os.close(end)
    try:
        typed = (
            f"source {pages}/completion/slurm-rl\nslurm-rl() {{ echo got $1; }}\nslurm-rl expl\t\n"
        )
        os.write(terminal, typed.encode())
        text, until = "", time.monotonic() + 20
        while "got explain" not in text and time.monotonic() < until:
            text += os.read(terminal, 4096).decode()
        assert "got explain" in text
    finally:
        bash.kill()
        bash.wait(timeout=10)
        os.close(terminal)
