"""Nodes and partitions by their records: resources of nodes, and nodes of partitions."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.accounting.slurm.resources import counted
from slurm_rl_plugin.domain.machine import Admission, MachinePartition, PartitionAccess
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.scheduling import selected
from slurm_rl_plugin.machine_files.statements import (
    MOST_NAMES,
    NODE,
    NOTHING,
    ConfRecord,
    Keys,
    Statements,
    Value,
    by_key,
    compress,
    not_modelled_of,
    place_of,
    read_pairs,
    slurm_keys,
    weights_of,
)

PREFIX = "gres/"
#: A comma outside of brackets, which hold a node's sockets or indices.
_COMMA = re.compile(r",(?![^(\[]*[)\]])")
_SOCKETS = re.compile(r"\(.*?\)")

#: Of a node: resource -> count.
Counts = dict[str, float]


def gres_of(value: Value) -> Counts:
    """Resources of a node by `Gres=NAME[:TYPE][:no_consume][:COUNT][(S:SOCKETS)],...`.

    GPUs of all types are `gpus`, other names `gres/NAME`; each type is also `gres/NAME:TYPE`.
    A `no_consume` resource is left out, since jobs share it without bound.
    """
    counts: Counts = {}
    for word in _COMMA.split(value.text):
        name, *parts = _SOCKETS.sub("", word).strip().split(":")
        if name.lower() in NOTHING or "no_consume" in parts:
            continue
        count = counted(parts[-1]) if parts else 1.0
        kinds = parts[:-1] if count is not None and parts else parts
        if len(kinds) > 1:
            raise value.fault(f"{word} is no NAME, NAME:COUNT or NAME:TYPE:COUNT; write one")
        add(counts, name, ":".join(kinds), 1.0 if count is None else count)
    return counts


def add(counts: Counts, name: str, kind: str, count: float) -> None:
    """Add a count of a generic resource, by its name and by its type."""
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
        if "name" not in keys:
            continue
        files = [keys[key] for key in ("file", "files", "multiplefiles") if key in keys]
        if "count" not in keys:
            count: float | None = float(len(files[0].names())) if files else 1.0
        elif (count := counted(keys["count"].text)) is None:
            raise keys["count"].fault("this is no count; write a whole number")
        kind = keys["type"].text if "type" in keys else ""
        for node in keys[NODE].names() if NODE in keys else [""]:
            add(found.setdefault(node, {}), keys["name"].text, kind, count or 0.0)
    return found


def with_types(counts: Counts, gres_conf: Counts) -> Counts:
    """A node's counts with the types of gres.conf if Gres= names no type.

    Slurm allocates the counts of slurm.conf; higher ones in gres.conf change nothing.
    """
    found = dict(counts)
    for key, count in gres_conf.items():
        generic = key.partition(":")[0]
        whole = GPUS if generic == f"{PREFIX}gpu" else generic
        typed = any(each.startswith(f"{generic}:") for each in counts)
        if ":" in key and whole in counts and not typed and (n := min(count, counts[whole])) > 0:
            found[key] = n
    return found


#: States of nodes that slurm.conf keeps out of service; FUTURE nodes do not exist yet.
AWAY = ("DOWN", "DRAIN", "FAIL", "FUTURE")
#: Most CPUs of a node: Slurm counts them in 16 bits.
MOST_OF_NODE = 65_535
#: Most processors of a machine, more than any has; a simulation holds an entry for each.
MOST_OF_MACHINE = 1 << 24
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)


def processors_of(record: ConfRecord) -> tuple[int, int]:
    """CPUs for jobs, and CPUs of a core.

    Inferred as by Slurm: sockets from CPUs or boards, CPUs from sockets, cores and threads.
    """
    cores = max(record.keys.number("corespersocket", 1), 1)
    threads = max(record.keys.number("threadspercore", 1), 1)
    sockets = max(_sockets(record, cores * threads), 1)
    whole = sockets * cores * threads
    cpus = record.keys.number("cpus", whole)
    if cpus not in (sockets, sockets * cores, whole):
        cpus = whole  # as Slurm corrects it
    if cpus > MOST_OF_NODE:
        named = record.keys.get("cpus", record.name)
        raise named.fault(f"a node has {MOST_OF_NODE} CPUs at most, not {cpus}; write fewer")
    of_core = max(cpus // (sockets * cores), 1)
    return max(cpus - _kept(record, of_core), 1), of_core


def _sockets(record: ConfRecord, of_socket: int) -> int:
    boards = record.keys.number("boards", 1)
    if "socketsperboard" in record.keys:
        return boards * record.keys.number("socketsperboard", 1)
    if "sockets" in record.keys:
        return record.keys.number("sockets", 1)
    cpus = record.keys.number("cpus", 0)
    return cpus // of_socket if cpus and cpus % of_socket == 0 else boards


def _kept(record: ConfRecord, of_core: int) -> int:
    """CPUs of CpuSpecList, such as 0,1,8-11, or of CoreSpecCount cores."""
    value = record.keys.get("cpuspeclist")
    if value is None or not value.text or value.text == "(null)":
        return of_core * record.keys.number("corespeccount", 0)
    named: set[int] = set()
    listed = 0
    for word in value.words:
        found = _RANGE.fullmatch(word)
        if found is None:
            raise value.fault("this is no list of CPUs; write a list such as 0,1,8-11")
        cpus = range(int(found[1]), int(found[2] or found[1]) + 1)
        listed += len(cpus)
        if listed > MOST_OF_NODE:
            raise value.fault(f"it lists more than {MOST_OF_NODE} CPUs; list each once")
        named.update(cpus)
    return len(named)


@dataclass(frozen=True, slots=True)
class Node:
    """One node in service."""

    name: str
    counts: Counts  #: resource -> amount for jobs; memory in MiB
    features: frozenset[str]  #: words of constraints
    weight: int  #: nodes of less weight are allocated first


def nodes_of(
    said: Statements, gres_conf: Mapping[str, Counts]
) -> tuple[dict[str, Node], frozenset[str], list[str]]:
    """Nodes in service, names of the others, and what is not modelled.

    Slurm numbers its nodes by name, whatever their order in slurm.conf.
    """
    down = [record for record in said.down if _is_away(record, unsaid="DOWN")]
    away = {name for _, names in _names_of(down) for name in names}
    serving: dict[str, Node] = {}
    left_out: list[str] = []
    for record, names in _names_of(said.nodes):
        if twice := [name for name in names if name in serving]:
            raise record.name.fault(f"{compress(twice)} has a line already; remove one")
        if _is_away(record):
            away.update(names)
        left_out += not_modelled_of("node", record.keys)
        if record.keys.text("state").upper().startswith("CLOUD"):
            left_out.append(f"{compress(names)}: State=CLOUD, counted as if always powered up.")
        if "realmemory" not in record.keys:
            left_out.append(f"{compress(names)}: no RealMemory, so 1 MiB each, as in Slurm.")
        serving |= _nodes_of(record, names, gres_conf)
    in_order = sorted(serving, key=place_of)
    kept = {name: serving[name] for name in in_order if name not in away}
    if gone := [name for name in in_order if name in away]:
        left_out.append(f"{compress(gone)}: down, drained or FUTURE, so not part of the machine.")
    left_out += _whole_cores(said)
    if not said.nodes:
        raise ConfigurationError("no NodeName line: give a whole slurm.conf.")
    if not kept:
        raise ConfigurationError(
            "no node is in service: name at least one that is not down, drained or FUTURE."
        )
    return kept, frozenset(away), left_out


def check_size(nodes: Iterable[Node]) -> None:
    """Refuse a machine with more processors than can be simulated."""
    found = sum(int(node.counts[CPUS]) for node in nodes)
    if found > MOST_OF_MACHINE:
        raise ConfigurationError(
            f"the machine has {found} processors, and {MOST_OF_MACHINE} can be simulated; describe "
            "fewer nodes, or nodes with fewer CPUs."
        )


def _names_of(records: Iterable[ConfRecord]) -> Iterator[tuple[ConfRecord, list[str]]]:
    count = 0
    for record in records:
        names = record.name.names()
        count += len(names)
        if count > MOST_NAMES:
            raise record.name.fault(f"with the lines before, it names more than {MOST_NAMES} nodes")
        yield record, names


def _nodes_of(
    record: ConfRecord, names: Iterable[str], gres_conf: Mapping[str, Counts]
) -> Iterator[tuple[str, Node]]:
    # Slurm's default is 1 MiB
    real, kept = record.keys.number("realmemory", 1), record.keys.number("memspeclimit", 0)
    memory = real - kept if kept < real else real
    counts = {CPUS: float(processors_of(record)[0]), MEMORY: float(memory)}
    if "gres" in record.keys:
        counts |= gres_of(record.keys["gres"])
    features = frozenset(record.keys.words("features"))
    weight = record.keys.number("weight", 1)
    for name in names:
        types = gres_conf.get(name) or gres_conf.get("", {})
        yield name, Node(name, with_types(counts, types), features, weight)


def _is_away(record: ConfRecord, unsaid: str = "UNKNOWN") -> bool:
    return record.keys.text("state", unsaid).upper().startswith(AWAY)


def _whole_cores(said: Statements) -> Iterator[str]:
    """A sentence on nodes on which Slurm gives all threads of a core to one job."""
    words = selected(said.settings)
    if not any(word.startswith(("cr_core", "cr_socket")) for word in words):
        return
    names: dict[int, list[str]] = {}
    for record in said.nodes:
        names.setdefault(processors_of(record)[1], []).extend(record.name.names())
    for of_core in sorted(set(names) - {1}):
        yield (
            f"{compress(names[of_core])}: Slurm gives a core of {of_core} CPUs to one job; "
            "here CPUs are allocated one by one."
        )


@dataclass(frozen=True, slots=True)
class ServedPartition:
    """A partition without its kinds, and the names of the nodes that serve it."""

    partition: MachinePartition
    nodes: frozenset[str]


def partitions_of(
    said: Statements, nodes: Mapping[str, Node], away: Collection[str]
) -> tuple[list[ServedPartition], list[str]]:
    """Partitions in their order, and what of them is not modelled."""
    sets: dict[str, list[str]] = {}
    for record in said.node_sets:  # named nodes, and nodes with any of its features
        named = record.keys["nodes"].names() if "nodes" in record.keys else []
        wanted = set(record.keys.words("features"))
        with_any = [name for name, node in nodes.items() if wanted & node.features]
        sets[record.name.text] = named + with_any
    found: dict[str, ServedPartition] = {}
    left_out: list[str] = []
    for record in said.partitions:
        name = record.name.text
        if name in found:
            left_out.append(f"{record.name.said}: named before, so this line has no effect.")
            continue
        served = _served(record, nodes, sets, away)
        found[name] = ServedPartition(_partition(record, said.settings), served)
        left_out += _left_out_of_partition(record)
    if not found:
        raise ConfigurationError("there is no PartitionName line; give a whole slurm.conf")
    return list(found.values()), left_out


def _partition(record: ConfRecord, settings: Mapping[str, Value]) -> MachinePartition:
    keys = record.keys
    per_node, per_cpu = _default_memory(record.keys) or _default_memory(settings) or (0.0, 0.0)
    exclusive = record.keys.text("exclusive").upper()
    whole = exclusive in ("NODE", "TOPO") or record.keys.truth("exclusivetopo")
    whole |= record.keys.text("oversubscribe").upper() == "EXCLUSIVE"
    return MachinePartition(
        name=record.name.text,
        kinds=(),
        # the old Priority overrides both
        tier=keys.number("priority", keys.number("prioritytier", 1)),
        priority_factor=keys.number("priority", keys.number("priorityjobfactor", 1)),
        longest=record.keys.seconds("maxtime", math.inf),
        default_time=record.keys.seconds("defaulttime", math.inf),
        default_memory_per_cpu=per_cpu,
        default_memory_per_node=per_node,
        whole_nodes=whole and exclusive not in ("NO", "NONE"),
        widest=keys["maxnodes"].bound() if "maxnodes" in keys else math.inf,
        qos=record.keys.word("qos"),
        is_default=record.keys.truth("default"),
        billing=billing_weights(record),
        access=_access(keys),
    )


def _access(keys: Keys) -> PartitionAccess | None:
    """Whose jobs enter a partition; None for one of slurm.conf, which does not name every right."""
    is_open = all(
        keys.text(key).upper() == value for key, value in slurm_keys()["open_partition"].items()
    )
    accounts, qos = (_admission(keys, what) for what in ("accounts", "qos"))
    if not is_open or accounts is None or qos is None or "minnodes" not in keys:
        return None
    # releases before 23.02 print no MaxCPUsPerSocket
    if keys.text("maxcpuspersocket", "UNLIMITED").upper() != "UNLIMITED":
        return None
    return PartitionAccess(accounts=accounts, qos=qos, fewest_nodes=keys.number("minnodes", 0))


def _admission(keys: Keys, what: str) -> Admission | None:
    """Who is allowed, or who is denied: `scontrol` prints one of them."""
    allowed, denied = keys.text(f"allow{what}").lower(), keys.text(f"deny{what}").lower()
    if denied:
        return Admission(denied=frozenset(denied.split(",")))
    if not allowed:
        return None
    return Admission(None if allowed == "all" else frozenset(allowed.split(",")))


def billing_weights(record: ConfRecord) -> dict[str, float]:
    """TRESBillingWeights of a partition by resource."""
    value = record.keys.get("tresbillingweights")
    return {} if value is None else weights_of(value)


def _default_memory(keys: Mapping[str, Value]) -> tuple[float, float] | None:
    """MiB for each node and for each CPU, one of them 0; None if neither is set."""
    for key, of_node in (("defmempernode", True), ("defmempercpu", False)):
        if key in keys and keys[key].text.lower() not in {"unlimited", *NOTHING}:
            memory = float(keys[key].number())
            return (memory, 0.0) if of_node else (0.0, memory)
    return None


def _served(
    record: ConfRecord,
    nodes: Mapping[str, Node],
    sets: Mapping[str, list[str]],
    away: Collection[str],
) -> frozenset[str]:
    if not record.keys.word("nodes"):
        return frozenset()
    value = record.keys["nodes"]
    served: set[str] = set()
    for name in value.names():
        if name.upper() == "ALL":
            served.update(nodes)
        elif name in sets:
            served.update(sets[name])
        elif name in nodes or name in away:
            served.add(name)
        else:
            raise value.fault(
                f"no NodeName or NodeSet line has {name}; add one, or remove the name here"
            )
    return frozenset(served.intersection(nodes))


def _left_out_of_partition(record: ConfRecord) -> Iterator[str]:
    yield from not_modelled_of("partition", record.keys)
    name = record.name.text
    sharing = record.keys.text("oversubscribe", "NO").upper()
    if sharing not in ("NO", "EXCLUSIVE", "YES:1", "FORCE:1"):
        yield f"partition {name}: OverSubscribe={sharing}: a CPU goes to one job at a time."
    state = record.keys.text("state", "UP")
    if state.upper() != "UP":
        yield f"partition {name}: State={state}: its jobs start as if it were UP."
    if record.keys.truth("exclusiveuser") or record.keys.text("exclusive").upper() == "USER":
        yield f"partition {name}: ExclusiveUser: jobs of several users share its nodes."
    if record.keys.truth("exclusivetopo") or record.keys.text("exclusive").upper() == "TOPO":
        yield f"partition {name}: ExclusiveTopo: jobs get whole nodes, but no whole segments."
    if record.keys.truth("lln"):
        yield f"partition {name}: LLN: nodes are not filled evenly."


def unserved(nodes: Mapping[str, Node], partitions: list[ServedPartition]) -> list[str]:
    """Names of nodes in no partition, which no job can use."""
    served = frozenset[str]().union(*(each.nodes for each in partitions))
    return [name for name in nodes if name not in served]
