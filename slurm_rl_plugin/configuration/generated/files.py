"""Writes the example file and the tables of docs/configuration.md, in a source tree.

``python -m slurm_rl_plugin.configuration.generated.files`` writes them; tests compare them.
"""

from __future__ import annotations

from pathlib import Path

from slurm_rl_plugin.configuration.generated.example_file import example_text
from slurm_rl_plugin.configuration.generated.reference_tables import with_tables
from slurm_rl_plugin.whole_file import write_whole

TOP = Path(__file__).resolve().parents[3]
DOCUMENT = Path("docs") / "configuration.md"


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


if __name__ == "__main__":
    write_generated_files()
