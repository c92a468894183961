"""The option `--goal NAME=VALUE`: what a site may want, tried without a configuration."""

from __future__ import annotations

import argparse
from dataclasses import fields, replace

from slurm_rl_plugin.configuration.keys.sections import KEYS
from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.errors import ConfigurationError

_NAMES = tuple(each.name for each in fields(Goals))


def add_goal_option(parser: argparse.ArgumentParser) -> None:
    """Add --goal; `options.goal` is a list of (name, value)."""
    parser.add_argument(
        "--goal",
        action="append",
        type=_goal,
        default=[],
        metavar="NAME=VALUE",
        help=f"how much something counts in a model's order, as [goals] has it: "
        f"{', '.join(_NAMES)}; repeat",
    )


def goals_of(options: argparse.Namespace, configured: Goals = AS_TRAINED) -> Goals:
    """The configured goals, changed by the options."""
    return replace(configured, **dict(options.goal))


def goal_of(text: str) -> tuple[str, float]:
    """Name and value of NAME=VALUE.

    Raises:
        ConfigurationError: no such goal, or not that value.
    """
    name, _, value = text.partition("=")
    if name not in _NAMES:
        raise ConfigurationError(f"{name!r} is no goal: give one of {', '.join(_NAMES)}")
    key = KEYS["goals"][name]
    number = key.parsed(value)
    if fault := key.fault(number):
        raise ConfigurationError(f"goal {name} {fault}")
    return name, float(number)


def _goal(text: str) -> tuple[str, float]:
    try:
        return goal_of(text)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
