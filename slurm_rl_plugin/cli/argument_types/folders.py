"""Folders that a command line names for results."""

from __future__ import annotations

from pathlib import Path

from slurm_rl_plugin.errors import ConfigurationError


def make_folder(option: str, folder: Path | None) -> None:
    """Make the folder for results before the work, so that no result is lost.

    Raises:
        ConfigurationError: it cannot be made.
    """
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{option} {folder}: the folder cannot be made ({error.strerror})."
        ) from None
