"""Changes of a configuration as people write them: `PriorityWeightAge=2000`, `partition short ...`.

A change is made to the configuration before a machine is made of it, so that the same settings are
modelled in a change and in slurm.conf.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.database import ACCOUNT, QOS, USER, DatabaseEntry
from slurm_rl_plugin.machine_files.reader import DescribedCluster
from slurm_rl_plugin.machine_files.statements import (
    NODE,
    PARTITION,
    ConfRecord,
    Keys,
    Value,
    by_key,
    compress,
    pairs_of,
    slurm_keys,
)

#: Place of a changed value in sentences.
PLACE = "--change"
#: A sign before the first `=` of a pair, which is moved after it.
_SIGN = re.compile(r"(?<![^\s\w.])([+-])=")
_PARAMETERS, _NODES, _DEFAULT = "schedulerparameters", "nodes", "default"


def changed(cluster: DescribedCluster, words: str) -> DescribedCluster:
    """A cluster after one change.

    `KEY=VALUE`, `KEY+=VALUE` or `KEY-=VALUE` of slurm.conf, several with blanks between; the same
    after `partition NAME`, `node HOSTLIST`, `qos NAME`, `account NAME` or `user NAME`.
    """
    first, _, rest = words.strip().partition(" ")
    kind, _, named = first.partition("=")
    change, example = _KINDS.get(kind.lower(), (None, ""))
    if change is None or (not named and not rest):
        given = _assignments(words)
        if records := [value for value, _ in given if value.key.lower() in (NODE, PARTITION)]:
            raise records[0].fault("write it first, and the changes after it")
        said = replace(cluster.said, settings=_with(cluster.said.settings, given))
        return replace(cluster, said=said)
    name = named
    if not named:
        name, _, rest = rest.strip().partition(" ")
    if name.lower() == _DEFAULT:
        raise ConfigurationError(
            f"{PLACE} {words!r}: a DEFAULT line applies to later lines of a file: name the object "
            "to change."
        )
    if not name or not rest.strip():
        raise ConfigurationError(
            f"{PLACE} {words!r}: write {kind} NAME KEY=VALUE, such as {example!r}."
        )
    return change(cluster, name, _assignments(rest))


def _assignments(words: str) -> list[tuple[Value, str]]:
    """Each value with the sign before its `=`: "", "+" or "-"."""
    found: list[tuple[Value, str]] = []
    for value in pairs_of(_SIGN.sub(r"=\0\1", words), PLACE):
        sign = value.text[1] if value.text.startswith("\0") else ""
        found.append((replace(value, text=value.text[2:] if sign else value.text), sign))
    if not found:
        raise ConfigurationError(f"{PLACE} {words!r}: write KEY=VALUE, as in slurm.conf.")
    return found


def _with(keys: Mapping[str, Value], given: Sequence[tuple[Value, str]]) -> Keys:
    found = Keys(keys)
    for value, sign in given:
        (key,) = by_key([value])
        found[key] = _listed(found.get(key), value, sign, key) if sign else value
    return found


def _listed(before: Value | None, value: Value, sign: str, key: str) -> Value:
    """A list with more or fewer entries; a new parameter replaces one of the same name."""
    entries = list(before.words) if before is not None else []

    def named(word: str) -> str:
        return (word.partition("=")[0].strip() if key == _PARAMETERS else word).lower()

    words = list(value.words)
    if key == _NODES:
        entries, words = ([] if before is None else before.names()), value.names()
    given = {named(word) for word in words}
    kept = [word for word in entries if named(word) not in given]
    if sign == "-" and len(kept) == len(entries):
        raise value.fault("it is not set, so nothing can be removed")
    left = [*kept, *words] if sign == "+" else kept
    return replace(value, text=compress(left) if key == _NODES else ",".join(left))


def _of_partition(
    cluster: DescribedCluster, name: str, given: Sequence[tuple[Value, str]]
) -> DescribedCluster:
    """Change keys of one partition, or add one that names its nodes at the end of the file.

    Keys that restrict jobs change nothing, since the partition accepted the jobs of the log.
    """
    partitions, known = list(cluster.said.partitions), False
    for place, record in enumerate(partitions):
        if record.name.text == name:
            partitions[place] = replace(record, keys=_with(record.keys, given))
            known = True
    if not known:
        if "nodes" not in by_key(value for value, _ in given):  # the name may be a mistake
            raise _unknown("partition", name, [each.name.text for each in partitions])
        keys = _with(cluster.said.defaults.get(PARTITION, {}), given)
        partitions.append(ConfRecord(Value(PLACE, "PartitionName", name), keys))
    notes = [
        f"{value.said}: access to partitions is not simulated: jobs of the log stay in theirs."
        for value, _ in given
        if value.key.lower() in slurm_keys()["partition"]["restricting"]
    ]
    said = replace(cluster.said, partitions=partitions, notes=[*cluster.said.notes, *notes])
    return replace(cluster, said=said)


def _of_nodes(
    cluster: DescribedCluster, name: str, given: Sequence[tuple[Value, str]]
) -> DescribedCluster:
    wanted = Value(PLACE, "NodeName", name).names()
    known = {each for record in cluster.said.nodes for each in record.name.names()}
    missing = [each for each in wanted if each not in known]
    if missing and len(missing) < len(wanted):
        raise ConfigurationError(
            f"{PLACE} node {name}: the cluster lacks {compress(missing)} but has the others: "
            "change nodes and add nodes in two changes."
        )
    if missing and not any(
        value.key.lower() in slurm_keys()["node"]["sizes"] for value, _ in given
    ):
        raise _unknown("node", name, [compress(sorted(known))])
    nodes = [
        part for record in cluster.said.nodes for part in _parted(record, frozenset(wanted), given)
    ]
    if missing:
        keys = _with(cluster.said.defaults.get(NODE, {}), given)
        nodes.append(ConfRecord(Value(PLACE, "NodeName", name), keys))
    return replace(cluster, said=replace(cluster.said, nodes=nodes))


def _parted(
    record: ConfRecord, wanted: Collection[str], given: Sequence[tuple[Value, str]]
) -> Iterator[ConfRecord]:
    """The record for the nodes that stay, and a new one for the nodes that change."""
    names = record.name.names()
    mine = [name for name in names if name in wanted]
    others = [name for name in names if name not in wanted]
    if not mine:
        yield record
        return
    if others:
        yield replace(record, name=replace(record.name, text=compress(others)))
    name = replace(record.name, text=compress(mine))
    yield replace(record, name=name, keys=_with(record.keys, given))


def _of_database(
    kind: str, cluster: DescribedCluster, name: str, given: Sequence[tuple[Value, str]]
) -> DescribedCluster:
    name = name if kind == USER else name.lower()
    known = {each.name for each in cluster.entries if each.kind == kind}
    if name not in known:
        raise _unknown(kind, name, known)
    if signed := [value for value, sign in given if sign]:
        raise signed[0].fault("limits of the database cannot be changed by + and -: write =")
    keys = {value.key.lower(): value for value, _ in given}
    entry = DatabaseEntry(kind=kind, name=name, keys=keys)
    return replace(cluster, entries=[*cluster.entries, entry])


def _unknown(kind: str, name: str, known: Collection[str]) -> ConfigurationError:
    names = ", ".join(sorted(set(known))[:20]) or "none"
    return ConfigurationError(
        f"{PLACE} {kind} {name}: the cluster has no such {kind}; it has {names}."
    )


#: First word of a change -> its function, and an example.
_KINDS: Mapping[str, tuple[Callable[..., DescribedCluster], str]] = {
    **dict.fromkeys(("partition", PARTITION), (_of_partition, "partition short MaxTime=2:00:00")),
    **dict.fromkeys(("node", "nodes", NODE), (_of_nodes, "node g[1-8] RealMemory=512000")),
    QOS: (partial(_of_database, QOS), "qos interactive Priority=500"),
    ACCOUNT: (partial(_of_database, ACCOUNT), "account physics Fairshare=50"),
    USER: (partial(_of_database, USER), "user alice MaxJobs=10"),
}
