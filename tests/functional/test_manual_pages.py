"""Manual pages are those of the parsers, and their readers find nothing wrong."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.entry import VERBS, verb_parser
from tests.architecture.markdown_documents import TOP
from tests.functional.test_system_files import run, tool

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


def test_no_default_is_told_where_there_is_none(page: str) -> None:
    assert not re.findall(r"^.*\bdefault\.$", page, re.MULTILINE)


@pytest.mark.parametrize(
    ("verb", "shown"),
    [
        ("convert", "LOG ..."),
        ("train", "[LOG ...]"),
        ("evaluate", "[LOG]"),
        ("route", "-- COMMAND ..."),
        ("explain", "JOBID"),
    ],
)
def test_a_synopsis_shows_what_must_be_and_how_often(page: str, verb: str, shown: str) -> None:
    plain = re.sub(r"\\f[BIR]", "", page)
    (line,) = [each for each in plain.splitlines() if each.startswith(rf"slurm\-rl {verb} ")]
    assert line.replace("\\-", "-").endswith(f" {shown}")
