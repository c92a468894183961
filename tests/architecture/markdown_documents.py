"""Reads the project's Markdown: code blocks, tables, headings, links and commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

TOP = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [
        *(TOP / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
        *(
            path
            for room in ("docs", "policy_models", "deploy")
            for path in TOP.glob(f"{room}/**/*.md")
        ),
    ]
)
#: Also in a list, where it is indented.
_FENCE = re.compile(r"^ *```(?P<kind>[^\n]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SHELL_OPERATORS = {"|", "&&", "||", ";", ">", ">>", "<"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBlock:
    """A fenced block; `kind` is the text behind the first fence."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One of our commands in a code block: `slurm-rl` or `make`, and its words."""

    document: str
    program: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join([self.program, *self.words])


def code_blocks(document: Path) -> list[CodeBlock]:
    return [
        CodeBlock(kind=found["kind"].strip(), text=dedent(found["text"]))
        for found in _FENCE.finditer(document.read_text())
    ]


def prose(document: Path) -> str:
    """The document without its code blocks."""
    return _FENCE.sub("", document.read_text())


def shell_lines(document: Path) -> list[str]:
    """Lines of console blocks without their prompt, and commands of unit files."""
    lines = []
    for block in code_blocks(document):
        for line in block.text.replace("\\\n", " ").splitlines():
            if block.kind == "console":
                assert line[:2] in ("$ ", "# "), f"{document.name}: no prompt in {line!r}"
                lines.append(line[2:])
            elif block.kind == "ini" and line.startswith("Exec"):
                lines.append(line.partition("=")[2])
    return lines


def commands(document: Path) -> Iterator[Command]:
    for line in shell_lines(document):
        yield from commands_in(line, document.relative_to(TOP).as_posix())


def commands_in(line: str, document: str) -> Iterator[Command]:
    """Our commands in one shell line, also behind `sudo` or in a folder `bin`."""
    words = shlex.split(line, comments=True)
    if words[:1] in (["ln"], ["rm"]):  # what they name is not run
        return
    for place, word in enumerate(words):
        ours = word in ("slurm-rl", "make") or word.endswith("bin/slurm-rl")
        if ours and (place == 0 or words[place - 1] not in ("venv", "-p")):
            rest = words[place + 1 :]
            end = next((i for i, each in enumerate(rest) if each in _SHELL_OPERATORS), len(rest))
            yield Command(document=document, program=Path(word).name, words=tuple(rest[:end]))


def all_commands() -> list[Command]:
    """Each command of the documents once."""
    found = [each for document in DOCUMENTS for each in commands(document)]
    return list({(each.program, each.words): each for each in found}.values())


def rollback_line(document: Path) -> str:
    """The line of shell that takes back all factors without our program."""
    (line,) = [line for line in shell_lines(document) if line.endswith("| scontrol")]
    return line


def headings(document: Path) -> list[str]:
    return [line.lstrip("#").strip() for line in prose(document).splitlines() if line[:1] == "#"]


def anchor(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def links(document: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", prose(document))


def table_rows(text: str) -> list[list[str]]:
    """Cells of every table row but headers and rules; a code span's backquotes are kept."""
    lines = text.splitlines()
    rows = []
    for place, line in enumerate(lines):
        following = lines[place + 1] if place + 1 < len(lines) else ""
        if line.startswith("|") and not line.startswith("|-") and not following.startswith("|-"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def section(document: Path, heading: str) -> str:
    """Text between a heading of the second level and the next one."""
    parts = re.split(r"^## (.*)$", document.read_text(), flags=re.MULTILINE)
    named = dict(zip(parts[1::2], parts[2::2], strict=True))
    return named[heading]


def code_spans(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", _FENCE.sub("", text))
