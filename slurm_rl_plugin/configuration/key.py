"""One configuration key: its type, default, bounds and help, of which all else is made."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_origin, get_type_hints

_KIND_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list of names",
    dict: "a table of numbers",
}

#: What every name in the environment begins with.
ENVIRONMENT_PREFIX = "SLURM_RL_"
#: `section` or `section.key` -> what follows its name in a warning: what it was, that it is gone,
#: and what to do.
REMOVED: dict[str, str] = {
    "hook.class_defaults_file": "named the table from which job_submit.lua gave new jobs a factor; "
    "it is gone: new jobs get their factor in the next cycle. Remove this line, and take our "
    "job_submit.lua out of JobSubmitPlugins in slurm.conf before you delete the script.",
    "plan": "gave the scheduler predicted run times; it is gone, because jobs waited just as long "
    "with it. Remove the section.",
}
#: A link of Markdown: its words, and the document, with or without an anchor.
_LINK = re.compile(r"\[([^]]*)\]\(([^)]*)\)")
#: What is said before the choices of a text, and before the names that a table may have.
_CHOICES = ("One of", "Names are")
DEFAULT_PATH = Path("/etc/slurm-rl/slurm-rl.toml")
#: Origin of a value that no source gives.
DEFAULT = "default"
#: Sections with keys of the site's own choice.
SHARES, JOB_CLASS, UTILITY = "shares", "job_class", "utility"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One configuration key; validation, example file, man page and documents are made of it."""

    kind: type  #: type of the value; a list is one of names, a dict has numbers by names
    default: Any
    help: str = ""  #: in Markdown; the first sentence stands before the choices
    #: all that a text may be, or the names in a table; () for any text
    choices: tuple[str, ...] = ()
    least: float = -math.inf
    most: float = math.inf
    at_start: bool = False  #: read at the start of the daemon only, not at a reload

    def fault(self, value: Any) -> str | None:
        """What is wrong with a value, or None."""
        allowed: tuple[type, ...] = (int, float) if self.kind is float else (self.kind,)
        if not isinstance(value, allowed) or (isinstance(value, bool) and self.kind is not bool):
            return f"is {value!r}, give {_KIND_NAMES[self.kind]}"
        if isinstance(value, list) and not all(isinstance(each, str) for each in value):
            return f"is {value!r}, give a list of names"
        if isinstance(value, dict):
            return self._fault_of_table(value)
        if isinstance(value, int | float):
            return self._out_of_bounds(value)
        return self._fault_of_text(value) if isinstance(value, str) else None

    def _fault_of_text(self, text: str) -> str | None:
        if len(text) < self.least:
            return "is empty, give a path"
        if self.choices and text not in self.choices:
            return f"is {text!r}, give one of {', '.join(self.choices)}"
        return None

    def _fault_of_table(self, table: Mapping[str, Any]) -> str | None:
        for name, number in table.items():
            if name not in self.choices:
                return f"names {name!r}, give some of {', '.join(self.choices)}"
            if isinstance(number, bool) or not isinstance(number, int | float):
                return f"of {name!r} is {number!r}, give a number"
            fault = self._out_of_bounds(number)
            if fault is not None:
                return f"of {name!r} {fault}"
        return None

    def _out_of_bounds(self, value: float) -> str | None:
        try:
            finite = not math.isinf(value)
        except OverflowError:  # an integer that no float can hold
            return "is out of all bounds, give a finite number"
        if not finite:
            return f"is {value!r}, give a finite number"
        if not self.least <= value <= self.most:
            bound = f" and at most {self.most:g}" if self.most < math.inf else ""
            return f"is {value!r}, give at least {self.least:g}{bound}"
        return None

    def parsed(self, text: str) -> Any:
        """The value that a text of the environment or the command line means.

        Where it means none the text itself comes back, in which `fault` then finds the fault.
        """
        words = text.strip()
        try:
            if self.kind is list:
                return [name.strip() for name in words.split(",") if name.strip()]
            if self.kind is dict:
                pairs = [each.partition("=") for each in words.split(",") if each.strip()]
                return {name.strip(): float(number) for name, _, number in pairs}
            if self.kind is bool:
                return {"true": True, "false": False}.get(words, text)
            return text if self.kind is str else self.kind(words)
        except ValueError:
            return text

    @property
    def bounds(self) -> str:
        """The bounds of a number as a sentence; "" for none."""
        if self.kind not in (int, float, dict) or self.least == -math.inf:
            return ""
        if self.most == math.inf:
            return f"At least {self.least:g}."
        return f"From {self.least:g} to {self.most:g}."


#: Section -> key -> its definition.
Keys = Mapping[str, Mapping[str, Key]]


def key(default: Any, **told: Any) -> Any:
    """A field of a section that is a key: its type is the field's, its default is given here."""
    metadata = {"key": {"default": default, **told}}
    if isinstance(default, list | dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def keys_of(section: type) -> dict[str, Key]:
    """Name -> key of every field of a section; with AT_START, each is read at the start only."""
    kinds, shared = get_type_hints(section), {"at_start": getattr(section, "AT_START", False)}
    return {
        each.name: Key(
            kind=get_origin(kinds[each.name]) or kinds[each.name],
            **{**shared, **each.metadata["key"]},
        )
        for each in fields(section)
    }


def environment_name(section: str, name: str) -> str:
    """The name of a key in the environment: `SLURM_RL_HOOK_MODE`."""
    return f"{ENVIRONMENT_PREFIX}{section}_{name}".upper()


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence on an unknown name."""
    candidates = list(known)
    near = get_close_matches(name, candidates, n=1)
    if near:
        return f", did you mean {near[0]}?"
    return f", give one of {', '.join(candidates)}." if candidates else "."


def removal_of(section: str, name: str = "") -> str | None:
    """Why a section or a key no longer exists; None if no release had it."""
    return REMOVED.get(section) or REMOVED.get(f"{section}.{name}")


def markdown_of(key: Key) -> str:
    """What a key means, its choices and its bounds, on one line of Markdown."""
    meaning, end, more = key.help.partition(". ")
    choices = ", ".join(f"`{choice}`" for choice in key.choices)
    sentences = [
        f"{meaning}." if end else meaning,
        f"{_CHOICES[key.kind is dict]} {choices}." if choices else "",
        more,
        key.bounds,
        "Read at start only." if key.at_start else "",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def plain(markdown: str) -> str:
    """Markdown without its marks; a link to a document becomes its words and the path of that.

    The path alone where the words are no more than the document's name.
    """

    def linked(link: re.Match[str]) -> str:
        words, path = link.groups()
        named = words.lower().replace(" ", "-") == path.partition(".")[0]
        return f"docs/{path}" if named else f"{words}: docs/{path}"

    return _LINK.sub(linked, markdown).replace("`", "")
