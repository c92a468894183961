"""The published layouts by their columns: which one a file has, and which columns are read."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLayout:
    """Columns of one data set."""

    kind: str  #: what `JobLog.kind` calls such a log
    title: str  #: as its authors call it
    told_by: frozenset[str]  #: columns that only it has
    needed: tuple[str, ...]  #: columns that each job needs
    taken: tuple[str, ...] = ()  #: columns that are read where they are there
    #: Names of columns that the authors changed -> today's.
    former: Mapping[str, str] = field(default_factory=dict)
    from_epoch: bool = True  #: times are dates, so that several files go together

    def today(self, name: str) -> str:
        """A column's name of today."""
        return self.former.get(name, name)


F_DATA = PublishedLayout(
    kind="f-data",
    title="F-DATA",
    told_by=frozenset({"jid", "usr", "elpl"}),
    needed=("jid", "usr", "adt", "sdt", "duration", "cnumr", "nnumr", "elpl"),
    taken=("jnam", "qdt", "cnumat", "nnuma", "mszl"),
)
PM100 = PublishedLayout(
    kind="pm100",
    title="PM100",
    told_by=frozenset({"job_id", "run_time", "num_gpus_req"}),
    needed=(
        *("job_id", "user_id", "submit_time", "start_time", "run_time", "time_limit"),
        *("num_cores_alloc", "num_cores_req", "num_nodes_alloc", "num_nodes_req"),
        *("num_gpus_req", "mem_req"),
    ),
    taken=(
        *("eligible_time", "group_id", "partition", "qos", "shared", "cores_per_task"),
        *("num_gpus_alloc", "mem_alloc", "req_nodes"),
    ),
    former={
        "num_cpus_req": "num_cores_req",
        "num_cpus_alloc": "num_cores_alloc",
        "cpus_per_task": "cores_per_task",
    },
)
OPENB = PublishedLayout(
    kind="openb",
    title="openb",
    told_by=frozenset({"cpu_milli", "creation_time"}),
    needed=(
        *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
        *("creation_time", "scheduled_time", "deletion_time"),
    ),
    taken=("gpu_spec", "qos"),
    from_epoch=False,
)
LAYOUTS = {each.kind: each for each in (F_DATA, PM100, OPENB)}


def layout_of(columns: Collection[str]) -> PublishedLayout | None:
    """The layout that a file of these columns has; None for any other file."""
    there = set(columns)
    return next((each for each in LAYOUTS.values() if each.told_by <= there), None)


def header_columns(line: str) -> list[str]:
    """The columns that the first line of a csv file names; none where it is no such line."""
    try:
        return [name.strip() for name in next(csv.reader([line.strip()]), [])]
    except csv.Error:
        return []
