"""For what jobs waited, told from the record of a run: processors, memory, GPUs, or their turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from slurm_rl_plugin.units import FloatArray
from tests.bench.node_hours.site import DEFAULT_MEMORY, KINDS, PARTITIONS
from tests.real.cluster_files import NodeKind

Job = Mapping[str, Any]
#: Seconds between the moments that are looked at.
_STEP = 10.0
#: Columns of what a node has.
_PROCESSORS, _MEMORY, _GPUS = range(3)
_ORDER = [(name, kind) for kind in KINDS for name in kind.names]
_NODES = {name: (place, kind) for place, (name, kind) in enumerate(_ORDER)}
_LACKS = ("processors", "memory", "gpus", "processors_free", "turn")
_WHOLE = np.array([[kind.processors, kind.memory, kind.gpus] for _, kind in _ORDER])


def waiting_by_lack(jobs: Sequence[Job]) -> dict[str, float]:
    """Seconds that jobs waited while too few of their nodes had enough of each for them.

    `turn` had enough of everything, and `processors_free` enough processors and not all else. A
    waiting job of several nodes counts as spread evenly over them.
    """
    starts, ends, eligible = (
        np.array([job["outcome"][name] for job in jobs], dtype=float)
        for name in ("start", "end", "eligible")
    )
    used = [_used(job) for job in jobs]
    able = [_able(job) for job in jobs]
    found = dict.fromkeys(_LACKS, 0.0)
    for now in np.arange(eligible.min(), starts.max(), _STEP):
        free = _WHOLE.astype(float)
        for place in np.flatnonzero((starts <= now) & (now < ends)).tolist():
            free -= used[place]
        for place in np.flatnonzero((eligible <= now) & (now < starts)).tolist():
            nodes = able[place]
            for lack in _lacks(jobs[place], free[nodes], _WHOLE[nodes]):
                found[lack] += _STEP
    return found


def _lacks(job: Job, free: FloatArray, whole: FloatArray) -> Iterator[str]:
    """What its nodes lack; a row a node, of what is free and of what they have."""
    least = np.full(len(whole), -(-job["tasks"] // job["nodes"]))
    processors = whole[:, _PROCESSORS] if job["exclusive"] else least
    enough = {
        "processors": free[:, _PROCESSORS] >= processors,
        "memory": free[:, _MEMORY] >= (job["memory"] or processors * DEFAULT_MEMORY),
        "gpus": free[:, _GPUS] >= job["gpus"],
    }
    missing = [lack for lack, nodes in enough.items() if nodes.sum() < job["nodes"]]
    yield from missing
    if not missing and np.logical_and.reduce(list(enough.values())).sum() >= job["nodes"]:
        yield "turn"
    elif "processors" not in missing:
        yield "processors_free"


def _able(job: Job) -> list[int]:
    """Places of the nodes of its partition that have its feature."""
    kinds = [kind.name for kind in PARTITIONS[job["partition"]].kinds]
    return [place for place, kind in _NODES.values() if kind.name in kinds and _has(kind, job)]


def _has(kind: NodeKind, job: Job) -> bool:
    return not job["feature"] or job["feature"] in kind.features


def _used(job: Job) -> FloatArray:
    """A row a node, by columns."""
    rows = np.zeros((len(_NODES), 3))
    for each in job["outcome"]["placed"]:
        rows[_NODES[each["node"]][0]] = each["processors"], each["memory"], each["gpus"]
    return rows
