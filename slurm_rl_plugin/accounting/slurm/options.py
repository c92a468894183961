"""Options of sbatch as words of a command: long names, values, counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from slurm_rl_plugin.accounting.slurm.option_names import (
    FLAG_LETTERS,
    FLAGS,
    VALUED,
    VALUED_LETTERS,
)

_COUNT = re.compile(r"(\d{1,8})([kKmM]?)(?![\w.])", re.ASCII)
_NAMES = sorted(FLAGS | VALUED)
_THOUSANDS = {"": 1, "k": 1024, "m": 1024**2}
#: No machine has as many CPUs.
_MOST = 2**31


def cut_options(words: Sequence[str]) -> tuple[dict[str, str], int]:
    """Long name -> value, the last one of each, and the place of the first word that is no option.

    Raises:
        ValueError: says which word is not understood.
    """
    found: dict[str, str] = {}
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "-":
        word = words[place]
        place += 1
        if word == "--":
            break
        follows = words[place] if place < len(words) else None
        taken = False
        for name, value in _read(word):
            if value is None:
                if follows is None:
                    raise ValueError(f"{word} wants a value.")
                taken = True
            found[name] = follows or "" if value is None else value
        place += taken
    return found, place


def _read(word: str) -> Iterator[tuple[str, str | None]]:
    """Options of one word; the value is None where it is the next word."""
    if word.startswith("--"):
        yield _long_option(word)
        return
    letters = word[1:]
    for place, letter in enumerate(letters):
        if letter in VALUED_LETTERS:
            rest = letters[place + 1 :].removeprefix("=")
            yield VALUED_LETTERS[letter], rest or None
            return
        if letter in FLAG_LETTERS:
            yield FLAG_LETTERS[letter], ""


def _long_option(word: str) -> tuple[str, str | None]:
    name, sign, value = word[2:].partition("=")
    if name not in FLAGS and name not in VALUED:
        for meant in _NAMES:
            if meant.startswith(name):  # sbatch takes --clust=x for --clusters=x
                raise ValueError(f"--{name} may be --{meant}: write its full name.")
    if sign:
        return name, value
    if name in FLAGS:
        return name, ""
    if name in VALUED:
        return name, None
    raise ValueError(f"--{name} is not known here: write --{name}=VALUE, or its full name.")


def asked_processors(options: Mapping[str, str]) -> int:
    """CPUs that a job asks for, at least: a task a node where it names no tasks.

    Raises:
        ValueError: a count is none, or more than any machine has; says which option.
    """
    nodes = asked_count(options, "nodes")
    tasks = asked_count(options, "ntasks", nodes * asked_count(options, "ntasks-per-node"))
    processors = tasks * asked_count(options, "cpus-per-task")
    if processors > _MOST:
        raise ValueError(f"--ntasks asks with --cpus-per-task for {processors} CPUs: give fewer.")
    return processors


def asked_count(options: Mapping[str, str], name: str, default: int = 1) -> int:
    """The number of an option, the least of a range.

    Raises:
        ValueError: it is no number of at least 1.
    """
    text = options.get(name, "")
    if not text:
        return default
    least = _COUNT.match(text)
    if least is None or int(least[1]) < 1:
        raise ValueError(f"--{name} {text!r} is no number: give one of at least 1.")
    return int(least[1]) * _THOUSANDS[least[2].lower()]
