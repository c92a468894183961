"""What repetitions show: waits by class and partition, what bound, and the noise among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from slurm_rl_plugin.units import FloatArray
from tests.bench.node_hours.binding import waiting_by_lack

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
