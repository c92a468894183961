"""The tables of docs/configuration.md: a section each, a key a row."""

from __future__ import annotations

from slurm_rl_plugin.configuration.keys.definitions import SECTION_NOTES
from slurm_rl_plugin.configuration.keys.sections import KEYS
from slurm_rl_plugin.configuration.keys.text import markdown_of
from slurm_rl_plugin.configuration.toml_text import toml_value

#: Between these two lines of the document nothing is written by hand.
BEGIN = "<!-- keys: made of their definitions by slurm_rl_plugin.configuration.generated.files -->"
END = "<!-- end of keys -->"


def with_tables(document: str) -> str:
    """The document with its tables made anew from the definitions of keys.

    Raises:
        ValueError: it has not both lines that stand around the tables.
    """
    before, begin, rest = document.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no line {BEGIN} or no line {END}")
    return f"{before}{begin}\n{_reference_tables()}\n{end}{after}"


def _reference_tables() -> str:
    """A heading, what is to be said of the section, and a table, for each."""
    parts = []
    for section, definitions in KEYS.items():
        note = SECTION_NOTES.get(section)
        rows = ["| key | default | meaning |", "|---|---|---|"]
        for name, key in definitions.items():
            rows.append(f"| `{name}` | `{toml_value(key.default)}` | {markdown_of(key)} |")
        parts.append("\n".join([f"## [{section}]", "", *([note, ""] if note else []), *rows, ""]))
    return "\n".join(parts)
