"""The value of each feature on a fixed queue in this release: detects a changed formula.

Names and version of a schema say what a feature is called, not what it is. A fixed queue gives
each feature a value of its own, made by the whole way from a snapshot to the columns.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.domain import (
    EndedJobs,
    JobTable,
    PendingJobs,
    QueueSnapshot,
    RunningJobs,
    StartedJobs,
)
from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.domain.jobs import empty_job_table
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests, ResourcesNow
from slurm_rl_plugin.errors import ModelSchemaMismatch
from slurm_rl_plugin.features.columns import KNOWN_SCHEMAS, feature_columns
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.features.history.past_runs import PastRuns
from slurm_rl_plugin.features.history.run_history import recent_arrivals
from slurm_rl_plugin.features.site import SITE, FeatureSchema
from slurm_rl_plugin.whole_file import read_whole

#: Decimals of a value that count, in single precision.
_DECIMALS = 9
#: Seconds since the epoch at which the queue is seen.
_NOW = 1_700_000_000.0
#: What all nodes of the machine have together, CPUs of their nodes, and what is free.
_NAMES = (*BASIC_RESOURCES, "gres/gpu:x")
_HAS = np.array([96.0, 400_000.0, 12.0, 8.0])
_BESIDE, _FREE = np.array([96.0, 96.0, 48.0, 32.0]), np.array([66.0, 210_000.0, 3.0, 2.0])


def _jobs(columns: Mapping[str, Any], *, resources: bool) -> JobTable:
    own = {name: np.array(values) for name, values in columns.items()}
    nothing = np.zeros(len(own["submit"]), dtype=np.int64)
    total = own.pop("requests")
    requests = ResourceRequests.of_totals(total, names=_NAMES, nodes=nothing)
    return JobTable(
        job_id=np.arange(len(nothing)),
        eligible=own["submit"],
        partition=nothing,
        requests=requests if resources else None,
        **{name: each for name, each in own.items() if name not in ("start", "end")},
    )


def probe_snapshot(*, resources: bool = False) -> QueueSnapshot:
    """The queue of probe_queue.toml; with `resources` it has more than processors."""
    given = tomllib.loads(read_whole(Path(__file__).with_name("probe_queue.toml")).decode())
    waiting, running, over = (
        _jobs(given[name], resources=resources) for name in ("pending", "running", "ended")
    )
    start, ended = np.array(given["running"]["start"]), given["ended"]
    nothing = empty_job_table()
    machine = ResourcesNow(names=_NAMES, capacity=_HAS, free=_FREE, beside=_BESIDE)
    return QueueSnapshot(
        now=_NOW,
        pending=PendingJobs.untouched(waiting),
        running=RunningJobs(jobs=running, start=start),
        started=StartedJobs(jobs=nothing, start=nothing.submit),
        ended=EndedJobs(jobs=over, start=np.array(ended["start"]), end=np.array(ended["end"])),
        capacity=96,
        accounts=("a", "b", "c", "d", "e"),
        partitions=("all",),
        shares=np.array([0.4, 0.25, 0.2, 0.1, 0.05]),
        usage=np.array([0.1, 0.2, 0.3, 0.15, 0.25]),
        users=("u", "v", "w"),
        resources=machine if resources else None,
    )


def probe_values(schema: FeatureSchema) -> dict[str, list[float]]:
    """Each feature of the fixed queue: one value of a queue feature, one a job of a job feature."""
    snapshot, estimates = probe_snapshot(resources=schema == SITE), RequestedLimit()
    waiting, running = snapshot.pending.jobs, snapshot.running.jobs
    queue, jobs = feature_columns(
        schema,
        snapshot,
        estimates.estimate(waiting.time_limit, waiting.interactive),
        estimates.estimate(running.time_limit, running.interactive),
        recent_arrivals(snapshot)[1:],
        PastRuns().after(snapshot),
        Goals(shares=0.5, short_jobs=1.5, wide_jobs=0.75, longest_wait=2.0, interactive=3.0),
        100_000.0,
    )
    given = {name: [value] for name, value in zip(schema.queue, queue.tolist(), strict=True)}
    columns = zip(schema.jobs, jobs.T.tolist(), strict=True)
    return given | {f"{name} of jobs": column for name, column in columns}


def digest_of(values: Mapping[str, list[float]]) -> str:
    """sha256 over names and values of features, hexadecimal; rounded, so that machines agree."""
    lines = [
        " ".join([name, *(f"{round(value, _DECIMALS) + 0.0:.{_DECIMALS}f}" for value in column)])
        for name, column in values.items()
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@lru_cache
def probe_digest(schema: FeatureSchema) -> str:
    """The digest of what this release computes for the schema."""
    return digest_of(probe_values(schema))


#: Entry of a newer model's metadata: digest of its features on the fixed queue of `probe`.
PROBE_ENTRY = "feature_probe"


def schema_entries(schema: FeatureSchema) -> dict[str, str]:
    """What a new model says of its features; of a schema not computed here, no values."""
    entries = {
        "schema_name": schema.name,
        "schema_version": str(schema.version),
        "schema_digest": schema.digest,
    }
    if schema in KNOWN_SCHEMAS:
        entries[PROBE_ENTRY] = probe_digest(schema)
    return entries


def known_schema(path: Path, metadata: Mapping[str, str]) -> FeatureSchema:
    """The schema that a model's metadata name.

    Raises:
        ModelSchemaMismatch: trained for other features than this release computes, or for features
            of the same names that were computed in another way.
    """
    for schema in KNOWN_SCHEMAS:
        if metadata.get("schema_digest") == schema.digest:
            if metadata.get(PROBE_ENTRY) in (None, probe_digest(schema)):
                return schema
            raise ModelSchemaMismatch(
                f"model {path} was trained on features of schema {schema.name} version "
                f"{schema.version} that were computed in another way than by this release: "
                "retrain it."
            )
    name = metadata.get("schema_name", "unknown")
    computed = {schema.name: schema for schema in KNOWN_SCHEMAS}.get(name, SITE)
    raise ModelSchemaMismatch(
        f"model {path} was trained for schema {name} version "
        f"{metadata.get('schema_version', '?')}, this release computes {computed.name} version "
        f"{computed.version}: retrain it."
    )
