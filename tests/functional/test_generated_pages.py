"""Completion of bash and zsh and the manual pages know the options of the parser."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import VERBS, verb_parser
from slurm_rl_plugin.policies.registry import NAMED_POLICIES, SHIPPED_MODELS
from tests.architecture.markdown_documents import TOP
from tests.functional.test_system_files import run, tool
from tests.functional.typed import asset, rows_of

Offered = Callable[..., list[str]]
#: Does what bash does at TAB: the function that `complete` names, on the words so far.
ASK = asset("completion.bash")


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
    assert offered("exp") == ["explain", "experiment"]


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


#: At TAB, notes what the completion system would add; "ready" says that the next line is read.
SETUP = asset("completion.zsh")


@pytest.fixture
def offered_zsh(pages: Path, tmp_path: Path) -> Offered:
    """What is offered for the last word, with the files of the test in its folder."""
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


def test_every_verb_has_options(pages: Path, offered_zsh: Offered) -> None:
    text = (pages / "completion" / "_slurm-rl").read_text()
    for verb in VERBS:
        assert f"_shtab_slurm_rl_{verb.replace('-', '_')}_options=(" in text
    assert {"--policy", "--json"} <= set(offered_zsh("evaluate", "--"))


def test_values_of_an_option(offered_zsh: Offered) -> None:
    assert offered_zsh("evaluate", "--backfill", "") == ["easy", "none", "slurm"]


def test_zsh_offers_files_for_every_log(offered_zsh: Offered, tmp_path: Path) -> None:
    (tmp_path / "site log.swf").touch()
    assert offered_zsh("train", "first.swf", "site") == ["site log.swf"]


NAMES = ("slurm-rl.1", "slurm-rl-run.8", "slurm-rl.toml.5")


@pytest.fixture
def page(pages: Path) -> str:
    """The source of slurm-rl(1)."""
    return (pages / "man" / "slurm-rl.1").read_text()


def rendered(page: Path) -> str:
    environment = {"PATH": "/usr/bin:/bin", "MANWIDTH": "100", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [tool("man"), "--warnings", "--local-file", str(page)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == ""
    return re.sub(r".\x08", "", done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_man_has_no_warning(pages: Path, name: str) -> None:
    assert rendered(pages / "man" / name).startswith(Path(name).stem.upper())


@pytest.mark.parametrize("name", NAMES)
def test_mandoc_finds_no_fault(pages: Path, name: str) -> None:
    done = run(tool("mandoc"), "-T", "lint", "-W", "warning", pages / "man" / name)
    assert done.stdout + done.stderr == ""


def test_every_option_of_every_verb_is_told_once_under_its_verb(pages: Path) -> None:
    text = rendered(pages / "man" / "slurm-rl.1")
    parts = re.split(r"^   (\S+)\n", text, flags=re.MULTILINE)
    told = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert list(told) == list(VERBS)
    for verb, part in told.items():
        for action in verb_parser(verb)._actions:
            for name in action.option_strings:
                if name in ("-h", "--help"):
                    continue
                found = re.findall(rf"^       (?:-\w[^\n]*, )?{re.escape(name)}\b(?!-)", part, re.M)
                assert len(found) == 1, f"{verb} {name}"


@pytest.mark.parametrize("verb", VERBS)
def test_every_argument_says_what_it_is_for(verb: str) -> None:
    all_of_them = [each.option_strings or each.dest for each in verb_parser(verb)._actions]
    told = [each.option_strings or each.dest for each in verb_parser(verb)._actions if each.help]
    assert told == all_of_them


def test_every_variable_that_is_read_is_told(page: str) -> None:
    sources = [path.read_text() for path in (TOP / "slurm_rl_plugin").rglob("*.py")]
    read = {name for text in sources for name in re.findall(r'"(SLURM_RL_[A-Z]+)"', text)}
    of_the_system = r'os\.environ\.get\("([A-Z_]+)"\)'
    read |= {name for text in sources for name in re.findall(of_the_system, text)}
    missing = {name for name in read if f"\\fB{name}\\fR" not in page}
    assert missing == {"XDG_CACHE_HOME", "JOURNAL_STREAM"}  # every program's


@rows_of("synopses")
def test_a_synopsis_shows_what_must_be_and_how_often(page: str, words: str, said: str) -> None:
    plain = re.sub(r"\\f[BIR]", "", page)
    (line,) = [each for each in plain.splitlines() if each.startswith(rf"slurm\-rl {words} ")]
    assert line.replace("\\-", "-").endswith(f" {said}")
