"""What slurm.conf says: settings of the cluster, and records of nodes, partitions and node sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slurm_rl_plugin.machine_files.values import Value

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
    """One line for nodes or a partition.

    Attributes:
        name: of the nodes, the partition or the node set.
        keys: what holds for it by key in lower case, what earlier DEFAULT lines say included.
    """

    name: Value
    keys: Mapping[str, Value]

    def text(self, key: str, default: str = "") -> str:
        """What a key is set to."""
        return self.keys[key].text if key in self.keys else default

    def number(self, key: str, default: int) -> int:
        """A whole number; see `Value.number`."""
        return self.keys[key].number() if key in self.keys else default


@dataclass(frozen=True, slots=True)
class Statements:
    """Everything that a slurm.conf, or a running Slurm, says.

    Attributes:
        settings: of the cluster by key in lower case; of two the later.
        nodes, partitions, node_sets, down: records in the order of the file.
        notes: what else is to be known of the machine, each one sentence.
        defaults: by kind of record, what DEFAULT lines say of one that would follow.
    """

    settings: Mapping[str, Value] = field(default_factory=dict)
    nodes: Sequence[ConfRecord] = ()
    partitions: Sequence[ConfRecord] = ()
    node_sets: Sequence[ConfRecord] = ()
    down: Sequence[ConfRecord] = ()
    notes: Sequence[str] = ()
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
    """What holds for a record, keys of two names by the one of now.

    Args:
        own: what its line says, by names as they are written, in lower case.
        default: what DEFAULT lines before it say, the same.
    """
    said = {**default, **own}
    found = {_NAMED.get(name, name): value for name, value in said.items()}
    for key in found.keys() & _NAMES.keys():
        layers = (own, default) if key in _OWN_FIRST else (said,)
        found[key] = next(layer[name] for layer in layers for name in _NAMES[key] if name in layer)
    return found
