"""Lines of slurm.conf and gres.conf as records of values with their place."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePath
from typing import Any

from slurm_rl_plugin.accounting.slurm.resources import MIB, asked_seconds
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import MINUTE
from slurm_rl_plugin.whole_file import read_whole

UNLIMITED = frozenset({"unlimited", "infinite", "-1"})
#: Printed by commands for a key that is not set.
NOTHING = frozenset({"", "(null)", "none", "n/a"})
#: Characters of a value in a sentence.
_LONGEST_SHOWN = 200
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_TRUTH = {"yes": True, "up": True, "true": True, "1": True}
_TRUTH |= {"no": False, "down": False, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Value:
    """The value of one key."""

    place: str  #: file and line, or the command that printed it
    key: str  #: as written there
    text: str  #: without quotes

    @property
    def said(self) -> str:
        """Place, key and value for a sentence; a long value is cut."""
        more = "..." if len(self.text) > _LONGEST_SHOWN else ""
        return f"{self.place}: {self.key}={self.text[:_LONGEST_SHOWN]}{more}"

    @property
    def words(self) -> tuple[str, ...]:
        """Its parts between commas."""
        return tuple(word for each in self.text.split(",") if (word := each.strip()))

    def fault(self, problem: str) -> ConfigurationError:
        """Make an error about it, for the caller to raise; `problem` includes the fix."""
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
        """A span of time, by default in minutes, rounded up to whole minutes."""
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


#: More names than any cluster has nodes are a mistake, or an attack on our memory.
MOST_NAMES = 1 << 18
_PART = re.compile(r"(?:[^\[\],\s]+|\[[^\[\]]*\])+")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)
_NUMBERED = re.compile(r"(.*?)(\d{1,18})", re.ASCII | re.DOTALL)
#: Digits together, anything else by itself.
_RUN = re.compile(r"[0-9]+|[^0-9]", re.DOTALL)


def expand(text: str) -> list[str]:
    """Every name of a hostlist, in its order; ValueError, with the reason, for other text."""
    if _PART.sub("", text).strip(", \t"):
        raise ValueError("its brackets do not match")
    names: list[str] = []
    for part in _PART.findall(text):
        names += _names_of(part)
        if len(names) > MOST_NAMES:
            raise ValueError(f"it names more than {MOST_NAMES} nodes")
    return names


def compress(names: Iterable[str]) -> str:
    """The hostlist that expands to these names in this order."""
    return ",".join(
        prefix + (numbers[0] if len(numbers) == 1 else f"[{','.join(_ranges(numbers))}]")
        for prefix, numbers in _by_prefix(names)
    )


def place_of(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key of names in the order of Slurm's nodes: n2 before n10, and n010 before both."""
    return tuple(
        (ord("0"), 0, run)
        if run.startswith("0")
        else (ord("1"), int(run), "")
        if run.isdigit()
        else (ord(run), 0, "")
        for run in _RUN.findall(name)
    )


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
    """The choices in brackets; numbers have the digits of the first number of their range."""
    choices: list[str] = []
    for word in inside.split(","):
        found = _RANGE.fullmatch(word.strip())
        if found is None:
            raise ValueError(f"[{inside[:80]}] is no list of numbers and ranges such as [1-3,7]")
        first, last = found[1], found[2] or found[1]
        if int(last) < int(first):
            raise ValueError(f"the range {word} is backwards")
        if int(last) - int(first) >= MOST_NAMES - len(choices):
            raise ValueError(f"it names more than {MOST_NAMES} nodes")
        choices += [f"{n:0{len(first)}d}" for n in range(int(first), int(last) + 1)]
    return choices


def _by_prefix(names: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Groups of neighbours that differ only in their last digits; a name without digits is one."""
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


_RESOURCES = {"cpu": CPUS, "mem": MEMORY, "gres/gpu": GPUS, "node": "nodes"}
_AMOUNT = re.compile(r"(\d{1,18}(?:\.\d{1,18})?|\.\d{1,18})([kmgtp]?)b?", re.ASCII | re.IGNORECASE)


def resource_of(name: str) -> str:
    """The resource of Slurm's name, such as `cpu`, `mem`, `gres/gpu:a100`, `license/matlab`."""
    words = name.strip()
    found = _RESOURCES.get(words.lower())
    if found is not None:
        return found
    kind, slash, rest = words.partition("/")
    return f"{kind.lower()}/{rest}" if slash else words.lower()


def weights_of(value: Value) -> dict[str, float]:
    """Weights by resource, such as `CPU=1.0,Mem=0.25G,GRES/gpu=2.0`; for each MiB of memory."""
    return {
        name: amount / unit if name == MEMORY else amount for name, amount, unit in _amounts(value)
    }


def limits_of(value: Value) -> dict[str, float]:
    """Amounts by resource, such as `cpu=100,mem=1T,gres/gpu=4`; memory in MiB."""
    return {
        name: amount * unit if name == MEMORY else amount for name, amount, unit in _amounts(value)
    }


def _amounts(value: Value) -> list[tuple[str, float, float]]:
    """Resource, number, and MiB of its unit, of each entry that is not -1 (no limit)."""
    entries = []
    for word in value.words:
        name, _, amount = word.partition("=")
        found = _AMOUNT.fullmatch(amount.strip())
        if found is not None:
            unit = MIB[found[2].upper()]
            entries.append((resource_of(name), float(found[1]), unit))
        elif amount.strip() != "-1" and word.lower() not in NOTHING:
            raise value.fault(f"{word} is no RESOURCE=NUMBER; write such as cpu=1,mem=2G")
    return entries


@cache
def slurm_keys() -> dict[str, dict[str, Any]]:
    """Tables of settings: what is modelled, what is not, and what holds instead."""
    return tomllib.loads(read_whole(Path(__file__).with_name("slurm_keys.toml")).decode())


def not_modelled_of(kind: str, keys: Mapping[str, Value]) -> Iterator[str]:
    """A sentence on each key of a `node` or `partition` that would change starts, or is unknown."""
    tables = slurm_keys()[kind]
    for key, value in keys.items():
        if value.text.lower() in tables["neutral"]:
            continue
        if key in tables["why"]:
            yield f"{value.said}: {tables['why'][key]}."
        elif key not in tables["known"]:
            yield f"{value.said}: not known here, so it has no effect."


_COMMENT = re.compile(r"((?:[^#\\]|\\.)*)#.*", re.DOTALL)
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\s*$")
_ESCAPE = re.compile(r"\\(.?)")
_PAIR = re.compile(r'\s*([A-Za-z0-9_.]+)\s*=\s*(?:"([^"]*)"|(\S+))(?=\s|$)')
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*", re.IGNORECASE)
#: Depth of files that include each other.
_DEEPEST = 20


def read_pairs(path: Path, notes: list[str], *, cluster: str = "") -> Iterator[list[Value]]:
    """The keys and values of each line, with those of included files at their place.

    Included files are searched for in the folder of `path`; %c in their names is `cluster`.
    `notes` gets a sentence on each file that Slurm would have read elsewhere.
    """
    yield from _Reader(path.parent, notes, cluster).lines(path, 0)


class _Reader:
    def __init__(self, folder: Path, notes: list[str], cluster: str) -> None:
        self._folder = folder
        self._notes = notes
        self._cluster = cluster

    def lines(self, path: Path, depth: int) -> Iterator[list[Value]]:
        if depth > _DEEPEST:
            raise ConfigurationError(f"{path}: files include each other; remove one Include")
        for number, line in logical_lines(path):
            place = f"{path}:{number}"
            if (included := _INCLUDE.fullmatch(line)) is not None:
                yield from self.lines(self._included(included[1], place), depth + 1)
            elif pairs := pairs_of(line, place):
                names = [each.text for each in pairs if each.key.lower() == "clustername"]
                self._cluster = [self._cluster, *names][-1]
                yield pairs

    def _included(self, name: str, place: str) -> Path:
        if "*" in name:
            raise ConfigurationError(f"{place}: Slurm includes no {name}; name each file")
        named = PurePath(name.replace("%c", self._cluster.lower()))
        path = self._folder / named
        copies = [copy for copy in _copies(self._folder, named) if copy.is_file()]
        if not path.is_file():
            if not copies:
                raise ConfigurationError(
                    f"{place}: Include {name}: there is no file {path}; copy it to {self._folder}"
                )
            self._notes.append(
                f"{place}: Include {name}: {path} is not on this host; {copies[0]} is read instead."
            )
            return copies[0]
        if copies and not copies[0].samefile(path):
            self._notes.append(
                f"{place}: Include {name}: {path} is read; {copies[0]} has no effect."
            )
        return path


def _copies(folder: Path, named: PurePath) -> Iterator[Path]:
    """Places of an included file in the folder of a slurm.conf that was copied elsewhere.

    For `/etc/slurm/conf.d/nodes.conf` first `conf.d/nodes.conf`, then `nodes.conf`, and so on.
    """
    parts = named.relative_to(named.anchor).parts
    for first in range(0 if named.is_absolute() else 1, len(parts)):
        yield folder.joinpath(*parts[first:])


def logical_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number and text of each line, continued ones joined, without comments and escapes."""
    joined: list[str] = []
    first = 0
    for number, line in enumerate(_text(path).splitlines(), start=1):
        first = first or number
        bare = found[1] if (found := _COMMENT.fullmatch(line)) else line
        if _CONTINUED.search(bare):
            joined.append(bare.rstrip()[:-1])
            continue
        whole, place = "".join([*joined, bare]), first
        joined, first = [], 0
        if whole.strip():
            yield place, _ESCAPE.sub(r"\1", whole)
    if (whole := "".join(joined)).strip():
        yield first, _ESCAPE.sub(r"\1", whole)


def _text(path: Path) -> str:
    try:
        stored = read_whole(path)
    except OSError as error:
        problem = f"the file cannot be read ({error.strerror}); check its path and permissions"
        raise ConfigurationError(f"{path}: {problem}") from None
    if b"\0" in stored:
        raise ConfigurationError(f"{path}: the file is no text; give a slurm.conf")
    return stored.decode("utf-8", "replace").removeprefix("\ufeff")


def pairs_of(line: str, place: str) -> list[Value]:
    """Keys and values of one line.

    The error for another form names the place but not the text, since an `Include` may name a file
    that the user may not read.
    """
    pairs, at = [], 0
    line = line.rstrip()
    while at < len(line):
        found = _PAIR.match(line, at)
        if found is None:
            word = len(line) - len(line[at:].lstrip()) + 1
            raise ConfigurationError(
                f"{place}: the word at column {word} is no key=value; correct the line, or give a "
                "slurm.conf"
            )
        pairs.append(Value(place, found[1], found[3] if found[2] is None else found[2]))
        at = found.end()
    return pairs


NODE, PARTITION, NODE_SET, DOWN = "nodename", "partitionname", "nodeset", "downnodes"
#: Keys that begin a record; the rest of the line belongs to it.
RECORDS = (NODE, PARTITION, NODE_SET, DOWN)
#: Keys with two names for which a name on the line itself overrides the other on a DEFAULT line.
_OWN_FIRST = ("features",)


class Keys(dict[str, Value]):
    """Values of the cluster, of nodes or of a partition, by key in lower case."""

    def text(self, key: str, default: str = "") -> str:
        """The text of a key."""
        return self[key].text if key in self else default

    def word(self, key: str, default: str = "") -> str:
        """The text in lower case; the default where it is one of NOTHING."""
        text = self.text(key).lower()
        return default if text in NOTHING else text

    def words(self, key: str) -> tuple[str, ...]:
        """The parts between commas; none where nothing is set."""
        return self[key].words if self.word(key) else ()

    def number(self, key: str, default: int) -> int:
        """A whole number."""
        return self[key].number() if key in self else default

    def seconds(self, key: str, default: float) -> float:
        """A span of time; the default where nothing is set."""
        return self[key].seconds() if self.word(key) else default

    def truth(self, key: str) -> bool:
        """Yes or no; no where it is not set."""
        return key in self and self[key].truth()


@dataclass(frozen=True, slots=True)
class ConfRecord:
    """One line for nodes or a partition."""

    name: Value  #: of the nodes, the partition or the node set
    keys: Keys  #: with earlier DEFAULT lines


@dataclass(frozen=True, slots=True)
class Statements:
    """The content of a slurm.conf, or of a running Slurm; records in the order of the file."""

    settings: Keys = field(default_factory=Keys)  #: of the cluster; the later of equal keys
    nodes: Sequence[ConfRecord] = ()
    partitions: Sequence[ConfRecord] = ()
    node_sets: Sequence[ConfRecord] = ()
    down: Sequence[ConfRecord] = ()
    notes: Sequence[str] = ()  #: remarks on the machine, each one sentence
    #: By kind of record, the DEFAULT lines at the end of the file.
    defaults: Mapping[str, Keys] = field(default_factory=dict)


def collect(lines: Iterable[Sequence[Value]]) -> Statements:
    """Sort the lines of a file; a DEFAULT line applies to the later lines of its kind."""
    settings = Keys()
    records: dict[str, list[ConfRecord]] = {kind: [] for kind in RECORDS}
    defaults: dict[str, dict[str, Value]] = {kind: {} for kind in RECORDS}
    for line in lines:
        for at, value in enumerate(line):
            kind = value.key.lower()
            if kind not in RECORDS:
                settings[kind] = value
                continue
            own = {each.key.lower(): each for each in line[at + 1 :]}
            if kind in (NODE, PARTITION) and value.text.upper() == "DEFAULT":
                never = slurm_keys()["partition"]["never_default"] if kind == PARTITION else ()
                kept = own.keys() - {*never}
                defaults[kind] |= {key: own[key] for key in own if key in kept}
            else:
                records[kind].append(ConfRecord(value, _keys(own, defaults[kind])))
            break
    return Statements(
        settings,
        nodes=records[NODE],
        partitions=records[PARTITION],
        node_sets=records[NODE_SET],
        down=records[DOWN],
        defaults={kind: _keys({}, said) for kind, said in defaults.items()},
    )


def by_key(values: Iterable[Value]) -> Keys:
    """Values of one line by their key in lower case; keys with two names have the present one."""
    return _keys({value.key.lower(): value for value in values}, {})


def _keys(own: Mapping[str, Value], default: Mapping[str, Value]) -> Keys:
    said = {**default, **own}
    found = Keys(said)
    for key, names in slurm_keys()["names"].items():
        for layer in (own, default) if key in _OWN_FIRST else (said,):
            if values := [layer[name] for name in names if name in layer]:
                found[key] = values[0]
                break
        for name in {*names} - {key}:
            found.pop(name, None)
    return found
