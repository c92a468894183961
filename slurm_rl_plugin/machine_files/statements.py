"""What slurm.conf says: settings of the cluster, and records of nodes, partitions and node sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slurm_rl_plugin.machine_files.values import Value

NODE, PARTITION, NODE_SET, DOWN = "nodename", "partitionname", "nodeset", "downnodes"
#: Keys whose line is a record of its own; all that follows on the line belongs to it.
RECORDS = (NODE, PARTITION, NODE_SET, DOWN)
#: Old names of keys.
_FORMER = {"feature": "features", "procs": "cpus", "shared": "oversubscribe"}


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
            own = by_key(line[at + 1 :])
            if kind in (NODE, PARTITION) and value.text.upper() == "DEFAULT":
                defaults[kind] |= own
            else:
                records[kind].append(ConfRecord(value, {**defaults[kind], **own}))
            break
    return Statements(
        settings,
        nodes=records[NODE],
        partitions=records[PARTITION],
        node_sets=records[NODE_SET],
        down=records[DOWN],
        defaults=defaults,
    )


def by_key(values: Iterable[Value]) -> dict[str, Value]:
    """Values by their key in lower case, old names of keys as the present ones."""
    lowered = ((value.key.lower(), value) for value in values)
    return {_FORMER.get(key, key): value for key, value in lowered}
