"""Writes the example file and the tables of docs/configuration.md, in a source tree.

``python -m slurm_rl_plugin.configuration.generated.files`` writes them; tests compare them.
"""

from __future__ import annotations

from pathlib import Path

from slurm_rl_plugin.configuration.generated.example_file import example_text, toml_value
from slurm_rl_plugin.configuration.keys.key import SECTION_NOTES, markdown_of
from slurm_rl_plugin.configuration.keys.sections import KEYS
from slurm_rl_plugin.whole_file import write_whole

TOP = Path(__file__).resolve().parents[3]
DOCUMENT = Path("docs") / "configuration.md"
#: Between these two lines of the document nothing is written by hand.
BEGIN = "<!-- keys: made of their definitions by slurm_rl_plugin.configuration.generated.files -->"
END = "<!-- end of keys -->"


def generated_files(top: Path = TOP) -> dict[Path, str]:
    """Path below the top of the source tree -> content."""
    return {
        Path("deploy") / "slurm-rl.toml": example_text(),
        DOCUMENT: with_tables((top / DOCUMENT).read_text()),
    }


def write_generated_files(top: Path = TOP) -> None:
    """Write every generated file anew."""
    for path, text in generated_files(top).items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        write_whole(top / path, text)


def with_tables(document: str) -> str:
    """The document with its tables made anew from the definitions of keys."""
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


if __name__ == "__main__":
    write_generated_files()
