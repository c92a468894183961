"""What jobs ask of nodes, as columns of a frame: one text of amounts, and what goes with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.resource_amounts import resources_text, totals_of
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.units import FloatArray, IntArray

#: Columns that only logs with requests have, and what they say of a job of processors alone.
REQUESTS: dict[str, Any] = {
    "resources": pl.String,
    "nodes": pl.Int64,
    "cpus_per_task": pl.Int64,
    "memory_per_cpu": pl.Boolean,
    "exclusive": pl.Boolean,
    "constraint": pl.String,
}
NOTHING_ASKED: dict[str, Any] = {
    "resources": "",
    "nodes": 0,
    "cpus_per_task": 1,
    "memory_per_cpu": False,
    "exclusive": False,
    "constraint": "",
}


def with_requests(jobs: pl.DataFrame) -> pl.DataFrame:
    """Jobs of which some tell no requests, as jobs that all do."""
    known = [name for name in REQUESTS if name in jobs.columns]
    filled = jobs.with_columns(pl.col(name).fill_null(NOTHING_ASKED[name]) for name in known)
    missing = [
        pl.lit(NOTHING_ASKED[name], dtype=kind).alias(name)
        for name, kind in REQUESTS.items()
        if name not in known
    ]
    return filled.with_columns(missing)


def request_columns(requests: ResourceRequests, chosen: slice) -> dict[str, Any]:
    """The stored columns of some jobs."""
    total = requests.total[chosen]
    distinct, place = np.unique(total, axis=0, return_inverse=True)
    texts = [resources_text(dict(zip(requests.names, row, strict=True))) for row in distinct]
    constraints = pl.Series(requests.constraints, dtype=pl.String)
    return {
        "resources": pl.Series(texts, dtype=pl.String).gather(place.reshape(-1)),
        "nodes": requests.nodes[chosen],
        "cpus_per_task": requests.cpus_per_task[chosen],
        "memory_per_cpu": requests.memory_per_cpu[chosen],
        "exclusive": requests.exclusive[chosen],
        "constraint": constraints.gather(requests.constraint[chosen]),
    }


def requests_of(jobs: pl.DataFrame) -> ResourceRequests | None:
    """What stored jobs ask for; None where they tell of processors alone.

    Raises:
        ValueError: a text of amounts is none that we wrote.
    """
    if "resources" not in jobs.columns:
        return None
    names, total = _totals(jobs)
    constraints = tuple(sorted({"", *jobs["constraint"].unique().to_list()}))
    places = pl.Series(range(len(constraints)), dtype=pl.Int64)
    place = jobs["constraint"].replace_strict(pl.Series(constraints), places)
    return ResourceRequests(
        names=names,
        total=total,
        nodes=jobs["nodes"].to_numpy().copy(),
        cpus_per_task=jobs["cpus_per_task"].to_numpy().copy(),
        memory_per_cpu=jobs["memory_per_cpu"].to_numpy().copy(),
        exclusive=jobs["exclusive"].to_numpy().copy(),
        constraint=place.to_numpy().copy(),
        constraints=constraints,
    )


def _totals(jobs: pl.DataFrame) -> tuple[tuple[str, ...], FloatArray]:
    distinct = jobs["resources"].unique()
    places = np.arange(len(distinct))
    place: IntArray = (
        jobs["resources"].replace_strict(distinct, places, return_dtype=pl.Int64).to_numpy()
    )
    return totals_of(distinct.to_list(), place, jobs["processors"].to_numpy())
