"""Writes manual pages and completion: `python -m ...cli.generated.files FOLDER [DAY]`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from slurm_rl_plugin.cli.generated.completion import completion
from slurm_rl_plugin.cli.generated.manual_pages import command_page, daemon_page
from slurm_rl_plugin.configuration.generated.manual_page import manual_page
from slurm_rl_plugin.whole_file import write_whole


def write_files(folder: Path, day: str) -> None:
    """Write `man/*.[158]`, `completion/slurm-rl` for bash and `completion/_slurm-rl` for zsh."""
    files = {
        "completion/slurm-rl": completion("bash"),
        "completion/_slurm-rl": completion("zsh"),
        "man/slurm-rl.1": command_page(day),
        "man/slurm-rl-run.8": daemon_page(day),
        "man/slurm-rl.toml.5": manual_page(day),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, content)


if __name__ == "__main__":
    today = datetime.now(UTC).date().isoformat()
    write_files(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else today)
