"""Generic resources of a node: Gres= of slurm.conf, and the types that gres.conf tells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from slurm_rl_plugin.domain.resources import GPUS
from slurm_rl_plugin.machine_files.conf_lines import read_pairs
from slurm_rl_plugin.machine_files.statements import NODE, by_key
from slurm_rl_plugin.machine_files.values import NOTHING, Value, counted

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

    Raises:
        ConfigurationError: an entry of another form.
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
    """What gres.conf tells of each node by its name; "" for lines that name no nodes.

    Args:
        path: of gres.conf.
        notes: as in `read_pairs`.
        cluster: what %c stands for in names of included files.

    Raises:
        ConfigurationError: the file cannot be read or a line is not understood.
    """
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
