"""The options --goal and --reserve-as."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial

from slurm_rl_plugin.cli.argument_types import whole_number
from slurm_rl_plugin.configuration.sections import KEYS
from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.kernel.class_limit import FREE, LIMIT, ClassLimit

_GOALS = tuple(each.name for each in fields(Goals))
#: Setting after `limit:` -> the attribute of ClassLimit and its type; times in seconds.
_LIMITS: dict[str, tuple[str, Callable[[str], float]]] = {
    "widest": ("widest_batch_job", whole_number(1)),
    "change": ("change_interval", float),
    "lift": ("lift_after", float),
    "idle": ("idle_after", float),
    "narrow": ("narrow_first", {"0": False, "1": True}.__getitem__),
    "most": ("most", float),
}


def add_goal_option(parser: argparse.ArgumentParser) -> None:
    """Add --goal; `options.goal` is a list of (name, value)."""
    parser.add_argument(
        "--goal",
        action="append",
        type=partial(goal_of, refused=argparse.ArgumentTypeError),
        default=[],
        metavar="NAME=VALUE",
        help=f"weight in a model's order, as in [goals]: {', '.join(_GOALS)}; may be repeated",
    )


def goals_of(options: argparse.Namespace, configured: Goals = AS_TRAINED) -> Goals:
    """The configured goals, changed by the options."""
    return replace(configured, **dict(options.goal))


def goal_of(text: str, refused: type[Exception] = ConfigurationError) -> tuple[str, float]:
    """Name and value of NAME=VALUE."""
    name, _, value = text.partition("=")
    if name not in _GOALS:
        raise refused(f"{name!r} is not a goal: give one of {', '.join(_GOALS)}")
    key = KEYS["goals"][name]
    number = key.parsed(value)
    if fault := key.fault(number):
        raise refused(f"goal {name} {fault}")
    return name, float(number)


def add_reserve_option(parser: argparse.ArgumentParser) -> None:
    """Add --reserve-as; `options.reserve_as` is None or a ClassLimit."""
    parser.add_argument(
        "--reserve-as",
        type=_class_limit,
        metavar="{free,limit}",
        help="how a reserve is kept: free processors, or the limit on batch jobs of [reserve] "
        "(default: free). limit:change=60,lift=86400,idle=3600,widest=1,narrow=0,most=inf changes "
        "seconds and widths, puts wide batch jobs last (narrow=1), and bounds the reserve",
    )


def reserve_words(limit: ClassLimit | None) -> list[str]:
    """The option as words of a command; none if processors are kept free."""
    if limit is None:
        return []
    values = [f"{name}={getattr(limit, of):g}" for name, (of, _) in _LIMITS.items()]
    return [f"--reserve-as {LIMIT}:{','.join(values)}"]


def _class_limit(text: str) -> ClassLimit | None:
    kind, _, rest = text.partition(":")
    if text == FREE:
        return None
    if kind != LIMIT:
        raise argparse.ArgumentTypeError(f"must be {FREE} or {LIMIT}, not {text!r}")
    values: dict[str, float | int] = {}
    for part in filter(None, rest.split(",")):
        name, _, value = part.partition("=")
        if name not in _LIMITS:
            raise argparse.ArgumentTypeError(
                f"{text!r}: {name!r} is not a setting: give one of {', '.join(_LIMITS)}"
            )
        attribute, number = _LIMITS[name]
        try:
            values[attribute] = number(value)
        except (KeyError, ValueError, argparse.ArgumentTypeError):
            raise argparse.ArgumentTypeError(f"{text!r}: {part!r} has no valid number") from None
    try:
        return ClassLimit(**values)  # type: ignore[arg-type]
    except ConfigurationError as error:
        sentence = str(error)
        for name, (attribute, _) in _LIMITS.items():  # with the names of the option
            sentence = sentence.replace(attribute, name)
        raise argparse.ArgumentTypeError(f"{text!r}: {sentence}") from None
