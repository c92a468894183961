"""What the programs of the bench write: documents, goals, and parts of pages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from slurm_rl_plugin.whole_file import write_whole


class Goal(NamedTuple):
    """A figure as text, its goal, and whether it is met; "" and None without a goal."""

    what: str
    figure: str
    goal: str = ""
    met: bool | None = None


def print_goals(goals: Iterable[Goal]) -> bool:
    """Prints a line for each goal; returns whether none is missed."""
    every = list(goals)
    for each in every:
        verdict = "met" if each.met else "MISSED"
        goal = "" if each.met is None else f"  goal {each.goal}: {verdict}"
        print(f"{each.what:48s} {each.figure}{goal}", flush=True)
    return all(each.met is not False for each in every)


def write_document(path: Path, document: Any) -> None:
    """Writes JSON; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(document, indent=1) + "\n")


def with_part(document: str, begin: str, end: str, made: str) -> str:
    """The document with the part between two lines made anew."""
    before, found, rest = document.partition(begin)
    _, closes, after = rest.partition(end)
    if not found or not closes:
        raise ValueError(f"no lines {begin} and {end}")
    return f"{before}{begin}\n{made}\n{end}{after}"
