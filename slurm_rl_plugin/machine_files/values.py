"""Values of a configuration that know where they stand: numbers, times, node names, resources."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from slurm_rl_plugin.accounting.slurm.resources import asked_seconds
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import MINUTE
from slurm_rl_plugin.whole_file import read_whole

UNLIMITED = frozenset({"unlimited", "infinite", "-1"})
#: What commands print for a key that nobody has set.
NOTHING = frozenset({"", "(null)", "none", "n/a"})
#: Letters of a value that a sentence shows.
_LONGEST_SHOWN = 200
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_TRUTH = {"yes": True, "up": True, "true": True, "1": True}
_TRUTH |= {"no": False, "down": False, "false": False, "0": False}
#: Of 1,024, as Slurm takes them after a count.
_SUFFIXES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4, "p": 1024**5}


@dataclass(frozen=True, slots=True)
class Value:
    """What one key is set to."""

    place: str  #: file and line, or the command that told it
    key: str  #: as it is written there
    text: str  #: without quotes

    @property
    def said(self) -> str:
        """Where it stands and what, for a sentence; of a long text its beginning."""
        shown = (
            self.text if len(self.text) <= _LONGEST_SHOWN else f"{self.text[:_LONGEST_SHOWN]}..."
        )
        return f"{self.place}: {self.key}={shown}"

    @property
    def words(self) -> tuple[str, ...]:
        """What its commas part."""
        return tuple(word for each in self.text.split(",") if (word := each.strip()))

    def fault(self, problem: str) -> ConfigurationError:
        """Return the error that blames it, for the caller to raise; `problem` says the mend."""
        return ConfigurationError(f"{self.said}: {problem}")

    def number(self) -> int:
        """A whole number."""
        if _NUMBER.fullmatch(self.text) is None:
            raise self.fault("this is no whole number; write one, 0 or more")
        return int(self.text)

    def bound(self) -> float:
        """A whole number, or inf for a word of UNLIMITED."""
        return math.inf if self.text.lower() in UNLIMITED else float(self.number())

    def seconds(self) -> float:
        """A span of time, of minutes where nothing else is said, rounded up to whole minutes."""
        if self.text.lower() in UNLIMITED:
            return math.inf
        try:
            return MINUTE * math.ceil(asked_seconds(self.text) / MINUTE)
        except ValueError:
            raise self.fault(
                "this is no span of time; write minutes, hours:minutes:seconds, "
                "days-hours:minutes:seconds or UNLIMITED"
            ) from None

    def truth(self) -> bool:
        """Yes or no."""
        try:
            return _TRUTH[self.text.lower()]
        except KeyError:
            raise self.fault("write YES or NO") from None

    def names(self) -> list[str]:
        """Names of a hostlist."""
        try:
            return expand(self.text)
        except ValueError as error:
            raise self.fault(f"{error}; write such as n[001-087,100]") from None


def counted(text: str) -> float | None:
    """A count with or without a suffix, such as 4 or 2K; None for anything else."""
    found = re.fullmatch(r"(\d{1,18})([kKmMgGtTpP]?)", text, re.ASCII)
    return float(int(found[1]) * _SUFFIXES[found[2].lower()]) if found else None


#: More names than any cluster has nodes: a slip of the pen, or an attack on our memory.
MOST_NAMES = 1 << 18
_PART = re.compile(r"(?:[^\[\],\s]+|\[[^\[\]]*\])+")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)
_NUMBERED = re.compile(r"(.*?)(\d{1,18})", re.ASCII | re.DOTALL)
#: Digits together, anything else by itself.
_RUN = re.compile(r"[0-9]+|[^0-9]", re.DOTALL)


def expand(text: str) -> list[str]:
    """Every name of a hostlist, in its order; ValueError says what is wrong in another text."""
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


_NAMES = {"cpu": CPUS, "mem": MEMORY, "gres/gpu": GPUS, "node": "nodes"}
#: Slurm counts memory in MiB; a suffix says of what unit a weight or a limit is.
_IN_MIB = {"k": 1.0 / 1024, "m": 1.0, "": 1.0, "g": 1024.0, "t": 1024.0**2, "p": 1024.0**3}
_AMOUNT = re.compile(r"(\d{1,18}(?:\.\d{1,18})?|\.\d{1,18})([kmgtp]?)b?", re.ASCII | re.IGNORECASE)


def resource_of(name: str) -> str:
    """The resource that Slurm calls so: `cpu`, `mem`, `gres/gpu:a100`, `license/matlab`."""
    words = name.strip()
    found = _NAMES.get(words.lower())
    if found is not None:
        return found
    kind, slash, rest = words.partition("/")
    return f"{kind.lower()}/{rest}" if slash else words.lower()


def weights_of(value: Value) -> dict[str, float]:
    """Weights by resource, such as `CPU=1.0,Mem=0.25G,GRES/gpu=2.0`; of memory for each MiB."""
    return {
        name: amount / unit if name == MEMORY else amount for name, amount, unit in _amounts(value)
    }


def limits_of(value: Value) -> dict[str, float]:
    """Amounts by resource, such as `cpu=100,mem=1T,gres/gpu=4`; memory in MiB."""
    return {
        name: amount * unit if name == MEMORY else amount for name, amount, unit in _amounts(value)
    }


def _amounts(value: Value) -> list[tuple[str, float, float]]:
    """Resource, number, and MiB of its unit, of each entry; an entry of -1 is no limit."""
    entries = []
    for word in value.words:
        name, _, amount = word.partition("=")
        found = _AMOUNT.fullmatch(amount.strip())
        if found is not None:
            unit = _IN_MIB[found[2].lower()]
            entries.append((resource_of(name), float(found[1]), unit))
        elif amount.strip() != "-1" and word.lower() not in NOTHING:
            raise value.fault(f"{word} is no RESOURCE=NUMBER; write such as cpu=1,mem=2G")
    return entries


@cache
def not_modelled_keys() -> dict[str, dict[str, Any]]:
    """What of Slurm's files is not modelled, and what holds instead, by table."""
    return tomllib.loads(read_whole(Path(__file__).with_name("not_modelled.toml")).decode())


def not_modelled_of(kind: str, keys: Mapping[str, Value]) -> Iterator[str]:
    """A sentence on each key of a `node` or `partition` that would change starts, or is unknown."""
    told = not_modelled_keys()[kind]
    for key, value in keys.items():
        if value.text.lower() in told["neutral"]:
            continue
        if key in told["why"]:
            yield f"{value.said}: {told['why'][key]}."
        elif key not in told["known"]:
            yield f"{value.said}: not known here, so it has no effect."
