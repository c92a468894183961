"""Names of nodes as Slurm shortens them: n[001-087,100], rack[0-1]n[1-4]."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

#: More names than any cluster has nodes: a slip of the pen, or an attack on our memory.
MOST_NAMES = 1 << 18
_PART = re.compile(r"(?:[^\[\],\s]+|\[[^\[\]]*\])+")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)
_NUMBERED = re.compile(r"(.*?)(\d{1,18})", re.ASCII | re.DOTALL)
#: Digits together, anything else by itself.
_RUN = re.compile(r"[0-9]+|[^0-9]", re.DOTALL)


def expand(text: str) -> list[str]:
    """Every name of a hostlist, in its order.

    Raises:
        ValueError: no hostlist, with what is wrong.
    """
    names: list[str] = []
    for part in _parts(text):
        names += _names_of(part)
        if len(names) > MOST_NAMES:
            raise ValueError(f"it names more than {MOST_NAMES} nodes")
    return names


def compress(names: Iterable[str]) -> str:
    """The hostlist that expands to these names in this order."""
    parts: list[str] = []
    for prefix, numbers in _by_prefix(names):
        ranges = ",".join(_ranges(numbers))
        plain = len(numbers) == 1
        parts.append(prefix + (ranges if plain else f"[{ranges}]"))
    return ",".join(parts)


def place_of(name: str) -> tuple[tuple[int, int, str], ...]:
    """What names sort by as Slurm numbers its nodes: n2 before n10, and n010 before both."""
    return tuple(
        (ord("0"), 0, run)
        if run.startswith("0")
        else (ord("1"), int(run), "")
        if run.isdigit()
        else (ord(run), 0, "")
        for run in _RUN.findall(name)
    )


def _parts(text: str) -> Iterator[str]:
    """What commas and blanks outside brackets part."""
    rest = _PART.sub("", text)
    if rest.strip(", \t"):
        raise ValueError("its brackets do not match")
    for found in _PART.finditer(text):
        yield found[0]


def _names_of(part: str) -> list[str]:
    choices: list[list[str]] = []
    count = 1
    for found in _PIECE.finditer(part):
        choices.append([found[2]] if found[2] else _choices(found[1]))
        count *= len(choices[-1])
        if count > MOST_NAMES:
            raise ValueError(f"it names more than {MOST_NAMES} nodes")
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def _choices(inside: str) -> list[str]:
    """What stands for a pair of brackets; the first number of a range says how many digits."""
    choices: list[str] = []
    for word in inside.split(","):
        found = _RANGE.fullmatch(word.strip())
        if found is None:
            raise ValueError(f"[{inside[:80]}] is no list of numbers and ranges such as [1-3,7]")
        first, last = found[1], found[2] or found[1]
        if int(last) < int(first):
            raise ValueError(f"the range {word} runs backwards")
        if int(last) - int(first) >= MOST_NAMES - len(choices):
            raise ValueError(f"it names more than {MOST_NAMES} nodes")
        choices += [f"{n:0{len(first)}d}" for n in range(int(first), int(last) + 1)]
    return choices


def _by_prefix(names: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Neighbours that differ in their last digits only; a name without any stands alone."""
    split = [(found[1], found[2]) if (found := _NUMBERED.fullmatch(n)) else (n, "") for n in names]
    for (prefix, numbered), group in itertools.groupby(
        split, lambda each: (each[0], bool(each[1]))
    ):
        numbers = [number for _, number in group]
        if numbered:
            yield prefix, numbers
        else:
            yield from ((prefix, [number]) for number in numbers)


def _ranges(numbers: Sequence[str]) -> Iterator[str]:
    first = last = numbers[0]
    for number in [*numbers[1:], ""]:
        if number and number == f"{int(last) + 1:0{len(first)}d}":
            last = number
            continue
        yield first if first == last else f"{first}-{last}"
        first = last = number
