"""One configuration key: its type, default, bounds and meaning, the source of everything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, get_origin, get_type_hints

_KIND_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list of names",
    dict: "a table of numbers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One configuration key; validation, example file, man page and documents are made of it.

    Attributes:
        kind: type of the value; a list is one of names, a dict has numbers by names.
        default: taken where no source gives the key.
        meaning: what the key says, in the words of a sentence without its capital and full stop.
        choices: all that a text may be, or the names in a table; () for any text.
        least: bound of a number, or of the length of a text.
        most: bound of a number.
        note: further sentences, in Markdown.
        at_start: read at the start of the daemon only, not at a reload.
        former_names: `section.key` that this key had before; each still works, with a warning.
    """

    kind: type
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    least: float = -math.inf
    most: float = math.inf
    note: str = ""
    at_start: bool = False
    former_names: tuple[str, ...] = ()

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


def key(*, default: Any, meaning: str, **told: Any) -> Any:
    """A field of a section that is a key; its type is the field's, its default stands here alone.

    Args:
        default: taken where no source gives the key.
        meaning: what the key says.
        told: what else a `Key` tells of it.
    """
    metadata = {"key": {"default": default, "meaning": meaning, **told}}
    if isinstance(default, list | dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def keys_of(section: type) -> dict[str, Key]:
    """Name -> key of every field of a section."""
    kinds = get_type_hints(section)
    return {
        each.name: Key(
            kind=get_origin(kinds[each.name]) or kinds[each.name], **each.metadata["key"]
        )
        for each in fields(section)
    }
