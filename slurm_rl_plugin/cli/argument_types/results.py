"""Files and folders that a command line names for results: looked at before the work."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_rl_plugin.errors import ConfigurationError


def make_folder(option: str, folder: Path | None) -> None:
    """Make the folder for results before the work, so that no result is lost.

    Raises:
        ConfigurationError: it cannot be made, or not be written to.
    """
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{option} {folder}: the folder cannot be made ({error.strerror})."
        ) from None
    if not os.access(folder, os.W_OK):
        raise ConfigurationError(f"{option} {folder}: the folder cannot be written to.")


def result_file(option: str, path: Path) -> Path:
    """The file that a result is to be written to: links are followed, so that they stay.

    Raises:
        ConfigurationError: its folder is missing or cannot be written to, or what is there is no
            plain file.
    """
    file = path.resolve()
    if not file.parent.is_dir():
        raise ConfigurationError(f"{option} {path}: there is no such folder; make it.")
    if not os.access(file.parent, os.W_OK):
        raise ConfigurationError(
            f"{option} {path}: {file.parent} is no folder that can be written to."
        )
    if file.is_dir():
        raise ConfigurationError(f"{option} {path}: this is a folder; give a file.")
    if file.exists() and not file.is_file():
        raise ConfigurationError(f"{option} {path}: this is no plain file; give another.")
    return file
