"""What repetitions show: waits by class and partition, what bound, and the noise among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from slurm_rl_plugin.units import FloatArray
from tests.bench.node_hours.load import DEFAULT_MEMORY, KINDS, PARTITIONS
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


Run = Mapping[str, Any]
#: Class and partition; all of one where the other says so.
Cell = tuple[str, str]
ALL = "all"


def figures_of(run: Run) -> dict[str, Any]:
    """Counts and means of one repetition; seconds."""
    jobs, start, wait = run["jobs"], starts_of(run), waits_of(run)
    ran = np.array([job["outcome"]["end"] - job["outcome"]["start"] for job in jobs])
    done = np.array([job["outcome"]["state"] == "COMPLETED" for job in jobs])
    asked = np.array([job["seconds"] for job in jobs])
    return {
        "jobs": len(jobs),
        "states": dict(Counter(job["outcome"]["state"].split()[0] for job in jobs)),
        "late": run["late"],
        "mean_wait": float(wait.mean()),
        "median_wait": float(np.median(wait)),
        "longest_wait": float(wait.max()),
        "mean_run_time": float(ran[done].mean()),
        "added_to_a_run": float((ran - asked)[done].mean()),
        "minutes": float(start.max() - start.min()) / 60.0,
        "by_backfill": sum("SchedBackfill" in job["outcome"]["flags"] for job in jobs) / len(jobs),
        "waited_seconds_lacking": waiting_by_lack(jobs),
        "cells": {
            " ".join(cell): {"jobs": int(mask.sum()), "mean_wait": float(wait[mask].mean())}
            for cell, mask in cells_of(run).items()
        },
    }


def waits_of(run: Run) -> FloatArray:
    """Seconds from the moment that a job may start until it does."""
    outcomes = [job["outcome"] for job in run["jobs"]]
    return np.array([each["start"] - each["eligible"] for each in outcomes], dtype=float)


def starts_of(run: Run) -> FloatArray:
    """Seconds since the first submission."""
    outcomes = [job["outcome"] for job in run["jobs"]]
    begin = min(each["submit"] for each in outcomes)
    return np.array([each["start"] - begin for each in outcomes], dtype=float)


def cells_of(run: Run) -> dict[Cell, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Which jobs each holds; none is empty."""
    kinds = np.array(["interactive" if job["interactive"] else "batch" for job in run["jobs"]])
    partitions = np.array([job["partition"] for job in run["jobs"]])
    found = {}
    for kind in (ALL, *sorted(set(kinds))):
        for partition in (ALL, *sorted(set(partitions))):
            mask = np.isin(kinds, [kind] if kind != ALL else kinds)
            mask &= np.isin(partitions, [partition] if partition != ALL else partitions)
            if mask.any():
                found[kind, partition] = mask
    return found


def noise_of(runs: Sequence[Run]) -> dict[str, Any]:
    """How far repetitions are apart: what a simulator of no error would still show.

    For each pair: the difference of mean waits of each cell over their mean, and the median
    difference of a job's start over the mean wait.
    """
    pairs = list(combinations(runs, 2))
    return {
        "cells": {
            " ".join(cell): [_apart(waits_of(one)[mask], waits_of(other)[mask])
                             for one, other in pairs]
            for cell, mask in cells_of(runs[0]).items()
        },
        "median_start_difference": [
            float(np.median(np.abs(starts_of(one) - starts_of(other))) / waits_of(one).mean())
            for one, other in pairs
        ],
    }  # fmt: skip


def _apart(one: FloatArray, other: FloatArray) -> float:
    """Relative difference of two means; 0 where nobody waits in either."""
    both = (one.mean() + other.mean()) / 2.0
    return float(abs(one.mean() - other.mean()) / both) if both else 0.0
