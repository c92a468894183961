"""slurm.conf files of a few lines, for tests of what reads them."""

from __future__ import annotations

from pathlib import Path

from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.machine_files.reader import read_machine

NODES = "NodeName=n[1-4] CPUs=8 RealMemory=16000"
PARTITION = "PartitionName=batch Nodes=ALL Default=YES"


def machine_of_lines(folder: Path, *lines: str, **files: str) -> Machine:
    """The machine of a slurm.conf with these lines.

    Args:
        folder: where it is written.
        lines: of slurm.conf.
        files: content of further files in its folder, by name with _ for a point.
    """
    for name, text in files.items():
        folder.joinpath(name.replace("_", ".")).write_text(text)
    folder.joinpath("slurm.conf").write_text("\n".join(lines) + "\n")
    return read_machine(folder)
