"""Logs of the Parallel Workloads Archive in a folder of traces, plain or gzipped."""

from __future__ import annotations

from pathlib import Path

from slurm_rl_plugin.errors import ConfigurationError


def log_in(folder: Path, name: str) -> Path | None:
    """The file of a log of that name; None where the folder holds none."""
    for path in (folder / f"{name}.swf.gz", folder / f"{name}.swf"):
        if path.is_file():
            return path
    return None


def archived_log(
    folder: Path, name: str, where: str = "which is at the Parallel Workloads Archive"
) -> Path:
    """The file of a log that a study cannot do without.

    Args:
        folder: of traces.
        name: of the file, without its ending.
        where: it comes from, a clause.

    Raises:
        ConfigurationError: the folder holds none.
    """
    path = log_in(folder, name)
    if path is None:
        raise ConfigurationError(
            f"{folder} holds no {name}.swf.gz: give the directory of the traces, {where}."
        )
    return path
