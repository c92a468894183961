"""Types of arguments: numbers within bounds, times and jobs as Slurm writes them, files."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from slurm_rl_plugin.accounting.slurm.resources import asked_seconds
from slurm_rl_plugin.configuration.sections import KEYS
from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.errors import ConfigurationError

#: The largest number that compiled code and random generators take.
LARGEST = 2**31 - 1
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_RELATIVE = re.compile(r"now(?:(?P<sign>[+-])(?P<count>\d{1,9})(?P<unit>[a-z]*))?")
_FORMS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%H:%M", "%H:%M:%S")
_SHORT_UNITS = {name[0]: seconds for name, seconds in _UNITS.items()}
_COUNTED = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)
_UNITED = re.compile(r"(?:\d{1,9}[smhdw])+", re.ASCII)
#: Ten years: for longer, `disable` is the right command.
_LONGEST_SPAN = 3650 * 86400.0
#: A job, a job array, one task of it or a list of tasks in brackets, or a component.
_JOB = re.compile(r"(?P<number>\d{1,10})(?:_(?:\d+|\[[\d,%:-]+\])|\+\d+)?")
_GOALS = tuple(each.name for each in fields(Goals))


def whole_number(least: int, most: int = LARGEST) -> Callable[[str], int]:
    """The type of a whole number from `least` to `most`."""

    def parsed(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"must be a whole number from {least} to {most}, not {text!r}"
            )
        return value

    return parsed


def number_from_zero(most: float = math.inf) -> Callable[[str], float]:
    """The type of a finite number from 0 to `most`."""
    bounds = f"from 0 to {most:g}" if most < math.inf else "of at least 0"

    def parsed(text: str) -> float:
        value = _finite(text)
        if not 0 <= value <= most:
            raise argparse.ArgumentTypeError(f"must be a number {bounds}, not {text!r}")
        return value

    return parsed


def positive_number(text: str) -> float:
    """A finite number above 0."""
    value = _finite(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


def _finite(text: str) -> float:
    """The number; NaN if it is not a finite one."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


at_least_one = whole_number(1)


def add_seed_option(parser: argparse.ArgumentParser) -> None:
    """Add --seed S."""
    parser.add_argument(
        "--seed", type=whole_number(0), default=1, metavar="S", help="random seed (default: 1)"
    )


def time_argument(text: str) -> float:
    """Seconds since the epoch of a time that may be relative to now; see `parse_slurm_time`."""
    return parse_slurm_time(text, datetime.now())


def add_time_options(parser: argparse.ArgumentParser, example: str) -> None:
    """Add --since and --until; None where they are not given."""
    form = f"YYYY-MM-DD[THH:MM[:SS]] or {example}"
    begin, end = f"first time: {form}", f"last time: {form}"
    parser.add_argument("-S", "--since", type=time_argument, metavar="TIME", help=begin)
    parser.add_argument("-E", "--until", type=time_argument, metavar="TIME", help=end)


def parse_slurm_time(text: str, now: datetime) -> float:
    """Seconds since the epoch; times without a zone are local.

    Args:
        text: `YYYY-MM-DD[THH:MM[:SS]]`, `HH:MM[:SS]` of today, `today`, `midnight`, `now`, or
            `now-COUNT[UNIT]` with seconds, minutes, hours, days or weeks.
    """
    words = text.strip()
    relative = _RELATIVE.fullmatch(words)
    if relative is not None:
        unit = (relative["unit"] or "").removesuffix("s") or "second"
        if unit not in _UNITS:
            raise _not_a_time(text)
        sign = {None: 0, "+": 1, "-": -1}[relative["sign"]]
        return now.timestamp() + sign * int(relative["count"] or 0) * _UNITS[unit]
    if words in ("today", "midnight"):
        return now.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    for form in _FORMS:
        try:
            found = datetime.strptime(words, form)
            if not form.startswith("%Y"):
                found = found.replace(year=now.year, month=now.month, day=now.day)
            return found.timestamp()
        except (ValueError, OverflowError, OSError):  # or a year beyond the clock's range
            continue
    raise _not_a_time(text)


def parse_slurm_duration(text: str) -> float:
    """Seconds of a span in the form of Slurm's `--time`, or with units.

    Args:
        text: `MINUTES[:SECONDS]`, `HOURS:MINUTES:SECONDS`, `DAYS-HOURS[:MINUTES[:SECONDS]]`, or
            counts with units such as `30m`, `2h`, `1d12h`.
    """
    words = text.strip()
    try:
        counted = _COUNTED.findall(words) if _UNITED.fullmatch(words) else []
        seconds = float(sum(int(count) * _SHORT_UNITS[unit] for count, unit in counted))
        seconds = seconds if counted else asked_seconds(words)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_SPAN:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a span of time: give minutes, or such as 30m, 2h or 1-00:00:00"
        )
    return seconds


def _not_a_time(text: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(
        f"{text!r} is not a time: give YYYY-MM-DD[THH:MM[:SS]] or now-COUNT[hours]"
    )


def job_number(text: str) -> int:
    """The number of a job, or of the whole job for a part: `123`, `123_4`, `123_[5-7]`, `123+1`."""
    found = _JOB.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a job ID: give NUMBER, ARRAY_TASK or JOB+COMPONENT"
        )
    return int(found["number"])


def job_numbers(text: str) -> frozenset[int]:
    """Numbers of jobs from a list separated by commas."""
    return frozenset(job_number(each) for each in re.split(r",(?![^\[]*\])", text))


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


def names(text: str) -> frozenset[str]:
    """Names from a list separated by commas."""
    return frozenset(each for each in text.split(",") if each)


def make_folder(option: str, folder: Path | None) -> None:
    """Make the folder for results before the work begins, so that no result is lost."""
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{option} {folder}: the folder cannot be made ({error.strerror})."
        ) from None
    if not os.access(folder, os.W_OK):
        raise ConfigurationError(f"{option} {folder}: you cannot write to this folder.")


def result_file(option: str, path: Path) -> Path:
    """The file for a result; a symbolic link is followed, so that it survives."""
    file = path.resolve()
    fault = ""
    if not file.parent.is_dir():
        fault = "there is no such folder: make it."
    elif not os.access(file.parent, os.W_OK):
        fault = f"you cannot write to the folder {file.parent}."
    elif file.is_dir():
        fault = "this is a folder: give a file."
    elif file.exists() and not file.is_file():
        fault = "this is not a plain file: give another."
    if fault:
        raise ConfigurationError(f"{option} {path}: {fault}")
    return file
