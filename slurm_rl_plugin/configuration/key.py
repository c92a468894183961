"""One configuration key: its type, default, bounds and help."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_origin, get_type_hints

_KIND_NAMES = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list of names",
    dict: "a table of numbers",
}

#: The beginning of every variable of the environment that gives a key.
ENVIRONMENT_PREFIX = "SLURM_RL_"
#: Removed `section` or `section.key` -> the warning after its name: what it was and what to do.
REMOVED: dict[str, str] = {
    "hook.class_defaults_file": "named the table of factors for job_submit.lua and was removed: "
    "new jobs get their factor in the next cycle. Remove this line, and take our job_submit.lua "
    "out of JobSubmitPlugins in slurm.conf before you delete the script.",
    "plan": "gave the scheduler predicted run times and was removed, because jobs waited just as "
    "long with it. Remove the section.",
}
#: A Markdown link: its words and its document, with or without an anchor.
_LINK = re.compile(r"\[([^]]*)\]\(([^)]*)\)")
#: Introduces the choices of a text, and the names of a table.
_CHOICES = ("One of", "Names are")
DEFAULT_PATH = Path("/etc/slurm-rl/slurm-rl.toml")
#: Origin of a value that no file, variable or option gives.
DEFAULT = "default"
#: Sections whose keys the site chooses.
SHARES, JOB_CLASS, UTILITY = "shares", "job_class", "utility"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One configuration key; validation, example file, man page and documents are made of it."""

    kind: type  #: type of the value: a list has names, a dict has numbers by names
    default: Any
    help: str = ""  #: in Markdown; the choices follow its first sentence
    #: all valid texts, or the valid names in a table; () for any text
    choices: tuple[str, ...] = ()
    least: float = -math.inf
    most: float = math.inf
    at_start: bool = False  #: a reload does not change it, only a restart of the daemon

    def fault(self, value: Any) -> str | None:
        """What is wrong with a value, as "must be ..., not ..."; None if it is valid."""
        kinds = (int, float) if self.kind is float else self.kind
        valid = isinstance(value, kinds) and isinstance(value, bool) is (self.kind is bool)
        if isinstance(value, list):
            valid = valid and all(isinstance(each, str) for each in value)
        if not valid:
            return f"must be {_KIND_NAMES[self.kind]}, not {value!r}"
        if self.kind is dict:
            return self._fault_of_table(value)
        if self.kind is str and len(value) < self.least:
            return "must be a path, not empty"
        if self.kind is str and self.choices and value not in self.choices:
            return f"must be one of {', '.join(self.choices)}, not {value!r}"
        return self._out_of_bounds(value) if self.kind in (int, float) else None

    def _fault_of_table(self, table: Mapping[str, Any]) -> str | None:
        for name, number in table.items():
            if name not in self.choices:
                return f"must not name {name!r}: the names are {', '.join(self.choices)}"
            if isinstance(number, bool) or not isinstance(number, int | float):
                return f"of {name!r} must be a number, not {number!r}"
            if fault := self._out_of_bounds(number):
                return f"of {name!r} {fault}"
        return None

    def _out_of_bounds(self, value: float) -> str | None:
        try:
            finite = not math.isinf(value)
        except OverflowError:  # an integer that no float can hold
            return "must be a finite number, not one of hundreds of digits"
        if not finite or not self.least <= value <= self.most:
            bounds = (finite and self.bounds) or "a finite number"
            return f"must be {bounds}, not {value!r}"
        return None

    def parsed(self, text: str) -> Any:
        """The value of a text from the environment or the command line.

        A text without a value is returned unchanged, so that `fault` reports it.
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
        """The bounds of a number, such as `from 0 to 10`; "" for none."""
        if self.kind not in (int, float, dict) or self.least == -math.inf:
            return ""
        return f"{'at least' if self.most == math.inf else 'from'} {self.least:g}" + (
            f" to {self.most:g}" if self.most < math.inf else ""
        )


#: Section -> key -> its definition.
Keys = Mapping[str, Mapping[str, Key]]


def key(default: Any, **more: Any) -> Any:
    """A field of a section that is a key of the field's type."""
    metadata = {"key": {"default": default, **more}}
    if isinstance(default, list | dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def keys_of(section: type) -> dict[str, Key]:
    """Name -> key of every field of a section; AT_START holds for all of them."""
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
    """The end of a sentence about an unknown name: the nearest known one, or all."""
    candidates = list(known)
    near = get_close_matches(name, candidates, n=1)
    if near:
        return f", did you mean {near[0]}?"
    return f", give one of {', '.join(candidates)}." if candidates else "."


def removal_of(section: str, name: str = "") -> str | None:
    """The warning about a removed section or key; None if no release had it."""
    return REMOVED.get(section) or REMOVED.get(f"{section}.{name}")


def markdown_of(key: Key) -> str:
    """A key's meaning, choices and bounds on one line of Markdown."""
    meaning, end, more = key.help.partition(". ")
    choices = ", ".join(f"`{choice}`" for choice in key.choices)
    sentences = [
        f"{meaning}." if end else meaning,
        f"{_CHOICES[key.kind is dict]} {choices}." if choices else "",
        more,
        f"{key.bounds[0].upper()}{key.bounds[1:]}." if key.bounds else "",
        "A change needs a restart." if key.at_start else "",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def plain(markdown: str) -> str:
    """Markdown without its marks; a link becomes its words and the path of the document.

    If the words are only the document's name, the link becomes the path.
    """

    def linked(link: re.Match[str]) -> str:
        words, path = link.groups()
        named = words.lower().replace(" ", "-") == path.rpartition("/")[2].partition(".")[0]
        return f"docs/{path}" if named else f"{words}: docs/{path}"

    return _LINK.sub(linked, markdown).replace("`", "")
