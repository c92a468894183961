"""Lines of slurm.conf and gres.conf, and the settings and records that they hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.values import Value
from slurm_rl_plugin.whole_file import read_whole

_COMMENT = re.compile(r"((?:[^#\\]|\\.)*)#.*", re.DOTALL)
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\s*$")
_ESCAPE = re.compile(r"\\(.?)")
_PAIR = re.compile(r'\s*([A-Za-z0-9_.]+)\s*=\s*(?:"([^"]*)"|(\S+))(?=\s|$)')
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*", re.IGNORECASE)
#: Of files that include each other.
_DEEPEST = 20


def read_pairs(path: Path, notes: list[str], *, cluster: str = "") -> Iterator[list[Value]]:
    """The keys and values of each line, those of included files where they are included.

    Included files are looked for in the folder of `path`; %c stands for `cluster` in their names.
    `notes` gets a sentence on each that Slurm would have read elsewhere.
    """
    yield from _Reader(path.parent, notes, cluster).lines(path, 0)


class _Reader:
    def __init__(self, folder: Path, notes: list[str], cluster: str) -> None:
        self._folder = folder
        self._notes = notes
        self._cluster = cluster

    def lines(self, path: Path, depth: int) -> Iterator[list[Value]]:
        if depth > _DEEPEST:
            raise ConfigurationError(f"{path}: files include each other; take one Include out")
        for number, line in logical_lines(path):
            place = f"{path}:{number}"
            if (included := _INCLUDE.fullmatch(line)) is not None:
                yield from self.lines(self._included(included[1], place), depth + 1)
            elif pairs := pairs_of(line, place):
                self._note_cluster(pairs)
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

    def _note_cluster(self, pairs: list[Value]) -> None:
        for value in pairs:
            if value.key.lower() == "clustername":
                self._cluster = value.text


def _copies(folder: Path, named: PurePath) -> Iterator[Path]:
    """Where a file of this name may lie in the folder of a slurm.conf that was copied elsewhere.

    Of `/etc/slurm/conf.d/nodes.conf` first `conf.d/nodes.conf`, then `nodes.conf`, and so on.
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
        raise ConfigurationError(
            f"{path}: the file cannot be read ({error.strerror}); check its path and permissions"
        ) from None
    if b"\0" in stored:
        raise ConfigurationError(f"{path}: the file is no text; give a slurm.conf")
    return stored.decode("utf-8", "replace").removeprefix("\ufeff")


def pairs_of(line: str, place: str) -> list[Value]:
    """Keys and values of one line.

    The error for another form says where it stands, and not what stands there: an `Include` may
    lead to a file that nobody else may read.
    """
    pairs, at = [], 0
    line = line.rstrip()
    while at < len(line):
        found = _PAIR.match(line, at)
        if found is None:
            word = len(line) - len(line[at:].lstrip()) + 1
            raise ConfigurationError(
                f"{place}: the word at column {word} is no key=value; mend the line, or give a "
                "slurm.conf"
            )
        pairs.append(Value(place, found[1], found[3] if found[2] is None else found[2]))
        at = found.end()
    return pairs


NODE, PARTITION, NODE_SET, DOWN = "nodename", "partitionname", "nodeset", "downnodes"
#: Keys whose line is a record of its own; all that follows on the line belongs to it.
RECORDS = (NODE, PARTITION, NODE_SET, DOWN)
#: Keys that have two names -> the names, first the one that Slurm looks for first, wherever it
#: stands on the line: `_parse_nodename` and `_parse_partitionname` in its `read_config.c`.
_NAMES = {
    "cpus": ("cpus", "procs"),
    "features": ("feature", "features"),
    "oversubscribe": ("oversubscribe", "shared"),
}
_NAMED = {name: key for key, names in _NAMES.items() for name in names}
#: Of these, one name of the line itself goes before the other name of a DEFAULT line.
_OWN_FIRST = ("features",)
#: Keys of a partition that Slurm does not take from a DEFAULT line.
_NEVER_DEFAULT = frozenset(
    {
        *("disablerootjobs", "exclusivetopo", "exclusiveuser", "powerdownonidle"),
        *("selecttypeparameters", "suspendtime"),
    }
)


@dataclass(frozen=True, slots=True)
class ConfRecord:
    """One line for nodes or a partition."""

    name: Value  #: of the nodes, the partition or the node set
    keys: Mapping[str, Value]  #: what holds by key in lower case, earlier DEFAULT lines included

    def text(self, key: str, default: str = "") -> str:
        """What a key is set to."""
        return self.keys[key].text if key in self.keys else default

    def number(self, key: str, default: int) -> int:
        """A whole number; see `Value.number`."""
        return self.keys[key].number() if key in self.keys else default


@dataclass(frozen=True, slots=True)
class Statements:
    """Everything that a slurm.conf, or a running Slurm, says."""

    #: Of the cluster by key in lower case; of two the later.
    settings: Mapping[str, Value] = field(default_factory=dict)
    nodes: Sequence[ConfRecord] = ()  #: records in the order of the file
    partitions: Sequence[ConfRecord] = ()  #: records in the order of the file
    node_sets: Sequence[ConfRecord] = ()  #: records in the order of the file
    down: Sequence[ConfRecord] = ()  #: records in the order of the file
    notes: Sequence[str] = ()  #: what else is to be known of the machine, each one sentence
    #: By kind of record, what DEFAULT lines say of one that would follow.
    defaults: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)


def collect(lines: Iterable[Sequence[Value]]) -> Statements:
    """Sort the lines of a file; a DEFAULT line holds for those of its kind that follow it."""
    settings: dict[str, Value] = {}
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
                kept = own.keys() - (_NEVER_DEFAULT if kind == PARTITION else ())
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


def by_key(values: Iterable[Value]) -> dict[str, Value]:
    """Values of one line by their key in lower case, keys of two names by the one of now."""
    return _keys({value.key.lower(): value for value in values}, {})


def _keys(own: Mapping[str, Value], default: Mapping[str, Value]) -> dict[str, Value]:
    """What holds for a record, keys of two names by the one of now."""
    said = {**default, **own}
    found = {_NAMED.get(name, name): value for name, value in said.items()}
    for key in found.keys() & _NAMES.keys():
        layers = (own, default) if key in _OWN_FIRST else (said,)
        found[key] = next(layer[name] for layer in layers for name in _NAMES[key] if name in layer)
    return found
