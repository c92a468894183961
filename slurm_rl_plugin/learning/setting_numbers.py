"""Numbers among the settings of a training: one out of its range is refused in one sentence."""

from __future__ import annotations

from slurm_rl_plugin.errors import ConfigurationError


def check_number(training: str, name: str, value: float, holds: bool, words: str) -> None:
    """Refuse a setting.

    Args:
        training: whose setting it is, as people call it.
        name: of the setting.
        value: as given.
        holds: whether it may be that.
        words: what it may be: "at least 1".

    Raises:
        ConfigurationError: it may not.
    """
    if not holds:
        raise ConfigurationError(f"{training} setting {name} is {value:g}: give a number {words}.")
