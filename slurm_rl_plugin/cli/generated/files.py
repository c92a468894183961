"""Writes the files of deploy/ that are made of the parsers: `python -m ...cli.generated.files`."""

from __future__ import annotations

import re
from pathlib import Path

from slurm_rl_plugin.cli.generated.completion import completion
from slurm_rl_plugin.cli.generated.manual_pages import command_page, daemon_page
from slurm_rl_plugin.whole_file import write_whole

TOP = Path(__file__).resolve().parents[3]


def generated_files() -> dict[str, str]:
    """Path below `deploy` -> what the file is to hold.

    Raises:
        ModuleNotFoundError: an extra that a verb needs is not installed.
    """
    changes = (TOP / "CHANGELOG.md").read_text()
    day = re.findall(r"^## \[\d.*\] - (\S+)$", changes, re.MULTILINE)[0]
    others = sorted(path.name for path in (TOP / "deploy" / "man").glob("*.5"))
    return {
        "completion/slurm-rl": completion("bash"),
        "completion/_slurm-rl": completion("zsh"),
        "man/slurm-rl.1": command_page(day, others),
        "man/slurm-rl-run.8": daemon_page(day, others),
    }


if __name__ == "__main__":
    for name, content in generated_files().items():
        write_whole(TOP / "deploy" / name, content)
