"""`--reserve-as`: how the simulated batch system keeps processors from batch work."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields

from slurm_rl_plugin.cli.argument_types import whole_number
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.kernel.class_limit import FREE, LIMIT, ClassLimit

#: What may stand behind `limit:` -> the attribute of ClassLimit; times in seconds.
_NAMES = {
    "widest": "widest_batch_job",
    "change": "change_interval",
    "lift": "lift_after",
    "idle": "idle_after",
    "narrow": "narrow_first",
    "most": "most",
}

#: By the attribute's type.
_KINDS: dict[str, Callable[[str], float]] = {
    "int": whole_number(1),
    "float": float,
    "bool": {"0": False, "1": True}.__getitem__,
}


def add_reserve_option(parser: argparse.ArgumentParser) -> None:
    """Add --reserve-as; `options.reserve_as` is None or a ClassLimit."""
    parser.add_argument(
        "--reserve-as",
        type=_class_limit,
        metavar="{free,limit}",
        help="what a reserve is: free processors beside all jobs, or a limit on the batch class as "
        "[reserve] sets it; limit:change=60,lift=86400,idle=3600,widest=1,narrow=0,most=inf "
        "has other seconds, another width, with narrow=1 wide batch jobs last, and a bound on what "
        "the policy wants (default: free)",
    )


def reserve_words(limit: ClassLimit | None) -> list[str]:
    """The option's words for a command; none where processors are kept free."""
    if limit is None:
        return []
    values = [f"{name}={getattr(limit, attribute):g}" for name, attribute in _NAMES.items()]
    return [f"--reserve-as {LIMIT}:{','.join(values)}"]


def _class_limit(text: str) -> ClassLimit | None:
    kind, _, rest = text.partition(":")
    if text == FREE:
        return None
    if kind != LIMIT:
        raise argparse.ArgumentTypeError(f"{text!r} is neither {FREE} nor {LIMIT}")
    values: dict[str, float | int] = {}
    for part in filter(None, rest.split(",")):
        name, _, value = part.partition("=")
        if name not in _NAMES:
            raise argparse.ArgumentTypeError(f"{text!r}: {name!r} is none of {', '.join(_NAMES)}")
        attribute = _NAMES[name]
        kinds = {each.name: each.type for each in fields(ClassLimit)}
        try:
            values[attribute] = _KINDS[str(kinds[attribute])](value)
        except (KeyError, ValueError, argparse.ArgumentTypeError):
            raise argparse.ArgumentTypeError(f"{text!r}: {part!r} has no such number") from None
    try:
        return ClassLimit(**values)  # type: ignore[arg-type]
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {_in_its_words(str(error))}") from None


def _in_its_words(sentence: str) -> str:
    """With the option's names in place of those of ClassLimit."""
    for name, attribute in _NAMES.items():
        sentence = sentence.replace(attribute, name)
    return sentence
