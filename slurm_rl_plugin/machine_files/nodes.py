"""Nodes by their records: CPUs, memory, generic resources, and whether they serve at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.scheduling import sharing_of
from slurm_rl_plugin.machine_files.statements import (
    NODE,
    ConfRecord,
    Statements,
    by_key,
    read_pairs,
)
from slurm_rl_plugin.machine_files.values import (
    MOST_NAMES,
    NOTHING,
    Value,
    compress,
    counted,
    not_modelled_of,
    place_of,
)

PREFIX = "gres/"
#: A comma outside of brackets, in which a node's sockets or indices stand.
_COMMA = re.compile(r",(?![^(\[]*[)\]])")
_SOCKETS = re.compile(r"\(.*?\)")

#: Of a node: resource -> count.
Counts = dict[str, float]


def gres_of(value: Value) -> Counts:
    """What a node has by `Gres=NAME[:TYPE][:no_consume][:COUNT][(S:SOCKETS)],...`.

    GPUs of all types come as `gpus`, other names as `gres/NAME`; each type also as
    `gres/NAME:TYPE`. What is not consumed is left out, since jobs share it without bound.
    """
    counts: Counts = {}
    for word in _COMMA.split(value.text):
        name, *parts = _SOCKETS.sub("", word).strip().split(":")
        if name.lower() in NOTHING or "no_consume" in parts:
            continue
        count = counted(parts[-1]) if parts else 1.0
        kinds = parts[:-1] if count is not None and parts else parts
        if len(kinds) > 1:
            raise value.fault(f"{word} is no NAME, NAME:COUNT or NAME:TYPE:COUNT; write such")
        add(counts, name, ":".join(kinds), 1.0 if count is None else count)
    return counts


def add(counts: Counts, name: str, kind: str, count: float) -> None:
    """Count so many more of a generic resource, by its name and by its type."""
    whole = GPUS if name == "gpu" else PREFIX + name
    counts[whole] = counts.get(whole, 0.0) + count
    if kind:
        typed = f"{PREFIX}{name}:{kind}"
        counts[typed] = counts.get(typed, 0.0) + count


def read_gres_conf(path: Path, notes: list[str], cluster: str) -> dict[str, Counts]:
    """Generic resources of each node by its name; "" for lines that name no nodes."""
    found: dict[str, Counts] = {}
    for line in read_pairs(path, notes, cluster=cluster):
        keys = by_key(line)
        if "name" in keys:
            nodes = keys[NODE].names() if NODE in keys else [""]
            kind = keys["type"].text if "type" in keys else ""
            for node in nodes:
                add(found.setdefault(node, {}), keys["name"].text, kind, _count(keys))
    return found


def _count(keys: Mapping[str, Value]) -> float:
    """How many a line of gres.conf tells of: Count, else its files, else one."""
    if "count" in keys:
        count = counted(keys["count"].text)
        if count is None:
            raise keys["count"].fault("this is no count; write a whole number")
        return count
    for key in ("file", "files", "multiplefiles"):
        if key in keys:
            return float(len(keys[key].names()))
    return 1.0


def with_types(counts: Counts, told: Counts) -> Counts:
    """A node's counts with the types that gres.conf tells, where Gres= names none.

    Counts of slurm.conf are those that Slurm gives out; more in gres.conf changes nothing.
    """
    typed = {key: count for key, count in told.items() if ":" in key}
    return {**counts, **{key: n for key, n in _untyped(counts, typed) if n > 0}}


def _untyped(counts: Counts, typed: Counts) -> Iterator[tuple[str, float]]:
    for key, count in typed.items():
        name = key.partition(":")[0].removeprefix(PREFIX)
        whole = GPUS if name == "gpu" else PREFIX + name
        if whole in counts and not any(each.startswith(f"{PREFIX}{name}:") for each in counts):
            yield key, min(count, counts[whole])


#: Nodes that slurm.conf keeps out of service; FUTURE ones are not there yet.
AWAY = ("DOWN", "DRAIN", "FAIL", "FUTURE")
#: CPUs of a node at most: Slurm counts them in 16 bits.
MOST_OF_NODE = 65_535
#: Processors of a machine at most, more than any has; a simulation holds an entry for each.
MOST_OF_MACHINE = 1 << 24
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Processors:
    """CPUs that jobs may have, and how many of them one core has."""

    count: int
    of_core: int


def processors_of(record: ConfRecord) -> Processors:
    """Infer as Slurm does: sockets from CPUs or boards, CPUs from sockets, cores and threads."""
    cores = max(record.number("corespersocket", 1), 1)
    threads = max(record.number("threadspercore", 1), 1)
    sockets = max(_sockets(record, cores * threads), 1)
    whole = sockets * cores * threads
    cpus = record.number("cpus", whole)
    if cpus not in (sockets, sockets * cores, whole):
        cpus = whole  # as Slurm sets it anew
    if cpus > MOST_OF_NODE:
        named = record.keys.get("cpus", record.name)
        raise named.fault(f"a node has {MOST_OF_NODE} CPUs at most, not {cpus}; write fewer")
    of_core = max(cpus // (sockets * cores), 1)
    return Processors(max(cpus - _kept(record, of_core), 1), of_core)


def _sockets(record: ConfRecord, of_socket: int) -> int:
    boards = record.number("boards", 1)
    if "socketsperboard" in record.keys:
        return boards * record.number("socketsperboard", 1)
    if "sockets" in record.keys:
        return record.number("sockets", 1)
    cpus = record.number("cpus", 0)
    return cpus // of_socket if cpus and cpus % of_socket == 0 else boards


def _kept(record: ConfRecord, of_core: int) -> int:
    """CPUs of CpuSpecList, such as 0,1,8-11, or of CoreSpecCount cores."""
    value = record.keys.get("cpuspeclist")
    if value is None or not value.text or value.text == "(null)":
        return of_core * record.number("corespeccount", 0)
    named: set[int] = set()
    listed = 0
    for word in value.words:
        found = _RANGE.fullmatch(word)
        if found is None:
            raise value.fault("this is no list of CPUs; write such as 0,1,8-11")
        cpus = range(int(found[1]), int(found[2] or found[1]) + 1)
        listed += len(cpus)
        if listed > MOST_OF_NODE:
            raise value.fault(f"it lists more than {MOST_OF_NODE} CPUs; list each once")
        named.update(cpus)
    return len(named)


@dataclass(frozen=True, slots=True)
class Node:
    """One node that serves."""

    name: str  #: of the node
    counts: Counts  #: resource -> how much jobs may have of it; memory in MiB
    features: frozenset[str]  #: words that constraints may ask for
    weight: int  #: those of less weight are taken first


def nodes_of(
    said: Statements, gres_conf: Mapping[str, Counts]
) -> tuple[dict[str, Node], frozenset[str], list[str]]:
    """Nodes that serve, names of those that do not, and what is left out.

    Slurm numbers its nodes by name, whatever their order in slurm.conf.
    """
    down = [record for record in said.down if _is_away(record, unsaid="DOWN")]
    away = {name for _, names in _names_of(down) for name in names}
    serving: dict[str, Node] = {}
    left_out: list[str] = []
    for record, names in _names_of(said.nodes):
        if twice := [name for name in names if name in serving]:
            raise record.name.fault(f"{compress(twice)} has a line already; take one out")
        if _is_away(record):
            away.update(names)
        left_out += _not_modelled(record, names)
        serving |= _alike(record, names, gres_conf)
    in_order = sorted(serving, key=place_of)
    kept = {name: serving[name] for name in in_order if name not in away}
    if gone := [name for name in in_order if name in away]:
        left_out.append(f"{compress(gone)}: down, drained or FUTURE, so not part of the machine.")
    left_out += _whole_cores(said)
    if not said.nodes:
        raise ConfigurationError("no NodeName line: give a whole slurm.conf.")
    if not kept:
        raise ConfigurationError(
            "no node is left that serves: name at least one that is not down, drained or FUTURE."
        )
    return kept, frozenset(away), left_out


def check_size(nodes: Iterable[Node]) -> None:
    """Refuse a machine of more processors than can be simulated."""
    found = sum(int(node.counts[CPUS]) for node in nodes)
    if found > MOST_OF_MACHINE:
        raise ConfigurationError(
            f"the machine has {found} processors, and {MOST_OF_MACHINE} can be simulated; describe "
            "fewer nodes, or nodes with fewer CPUs."
        )


def _names_of(records: Iterable[ConfRecord]) -> Iterator[tuple[ConfRecord, list[str]]]:
    """Each record with the names of its nodes."""
    count = 0
    for record in records:
        names = record.name.names()
        count += len(names)
        if count > MOST_NAMES:
            raise record.name.fault(f"with the lines before, it names more than {MOST_NAMES} nodes")
        yield record, names


def _alike(
    record: ConfRecord, names: Iterable[str], gres_conf: Mapping[str, Counts]
) -> Iterator[tuple[str, Node]]:
    counts = {CPUS: float(processors_of(record).count), MEMORY: float(_memory(record))}
    if "gres" in record.keys:
        counts |= gres_of(record.keys["gres"])
    features = frozenset(record.keys["features"].words if "features" in record.keys else ())
    weight = record.number("weight", 1)
    for name in names:
        told = gres_conf.get(name) or gres_conf.get("", {})
        yield name, Node(name, with_types(counts, told), features, weight)


def _is_away(record: ConfRecord, unsaid: str = "UNKNOWN") -> bool:
    return record.text("state", unsaid).upper().startswith(AWAY)


def _memory(record: ConfRecord) -> int:
    """MiB that jobs may have; Slurm takes 1 where nothing is said."""
    real, kept = record.number("realmemory", 1), record.number("memspeclimit", 0)
    return real - kept if kept < real else real


def _not_modelled(record: ConfRecord, names: list[str]) -> Iterator[str]:
    yield from not_modelled_of("node", record.keys)
    if record.text("state").upper().startswith("CLOUD"):
        yield f"{compress(names)}: State=CLOUD, counted as if always powered up."
    if "realmemory" not in record.keys:
        yield f"{compress(names)}: no RealMemory, so 1 MiB each, as Slurm takes it."


def _whole_cores(said: Statements) -> Iterator[str]:
    """The sentence on nodes of whose cores Slurm gives all threads to one job."""
    words = sharing_of(said.settings).words
    if not any(word.startswith(("cr_core", "cr_socket")) for word in words):
        return
    names: dict[int, list[str]] = {}
    for record in said.nodes:
        names.setdefault(processors_of(record).of_core, []).extend(record.name.names())
    for of_core in sorted(set(names) - {1}):
        yield (
            f"{compress(names[of_core])}: a core of {of_core} CPUs goes to one job whole; "
            "CPUs are given out one by one."
        )
