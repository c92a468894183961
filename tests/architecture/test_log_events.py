"""docs/log-events.md lists every event of the log with its level and its values."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from slurm_rl_plugin.hook.memory.carried_factors import DISTURBANCES
from tests.architecture.markdown_documents import TOP, code_spans

DOCS = TOP / "docs"

_LEVELS = {"info": "info", "warning": "warning", "error": "error", "exception": "error"}
#: They log no event: messages of commands, and the simulator's about compiled code.
_WITHOUT_EVENTS = ("cli/site_options.py", "simulator/")
_TABLE = re.compile(r"^\| (`.*)\|$", re.MULTILINE)


class Event(NamedTuple):
    """A line of the log: `name` as a pattern where the code leaves a part open."""

    name: str
    level: str
    keys: frozenset[str]


def logged() -> Iterator[Event]:
    """The events of all calls of a logger."""
    package = TOP / "slurm_rl_plugin"
    for path in sorted(package.rglob("*.py")):
        if str(path.relative_to(package)).startswith(_WITHOUT_EVENTS):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if ast.unparse(node.func.value) != "logger" or node.func.attr not in _LEVELS:
                continue
            text = ast.literal_eval(node.args[0])
            head, *rest = text.split(" ", 1)
            values = frozenset(re.findall(r"(\w+)=", " ".join(rest)))
            if head == "lever=%s" and values:  # two parts are added where they are known
                values |= {"harm"} if "influence" in values else set()
            if head == "experiment=%s":
                values |= {"reason"}
            yield Event(re.sub(r"%\w", r"\\w*", head.rstrip(":")), _LEVELS[node.func.attr], values)


def documented() -> list[Event]:
    """The rows of the tables of events; those of disturbances have no level."""
    rows = [row.split("|") for row in _TABLE.findall((DOCS / "log-events.md").read_text())]
    return [
        Event(name, row[1].strip(), frozenset(code_spans(row[2])))
        for row in rows
        for name in code_spans(row[0])
        if row[1].strip() in _LEVELS
    ]


def test_every_event_is_documented_with_its_level_and_values() -> None:
    known, found = documented(), list(logged())
    for event in found:
        rows = [
            each
            for each in known
            if each.level == event.level and re.fullmatch(event.name, each.name)
        ]
        assert rows, event
        assert any(event.keys <= each.keys for each in rows), event
    for row in known:
        calls = [
            each for each in found if each.level == row.level and re.fullmatch(each.name, row.name)
        ]
        assert calls, row
        assert row.keys <= frozenset().union(*(each.keys for each in calls)), row


def test_every_disturbance_is_documented() -> None:
    text = (DOCS / "log-events.md").read_text()
    rows = [row.split("|")[0].strip(" `") for row in _TABLE.findall(text)]
    assert set(DISTURBANCES) <= set(rows)
