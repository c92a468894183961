"""The reader of published data sets, csv or parquet: F-DATA, PM100 and openb.

F-DATA: three years of Fugaku's jobs, a parquet file a month. Antici and others, "F-DATA: A Fugaku
Workload Dataset for Job-centric Predictive Modelling in HPC Systems", doi:10.5281/zenodo.11467483.
Columns as in docs/feature_list.md of github.com/francescoantici/F-DATA; duration is in seconds
there. The list names no unit for elpl and mszl: elpl is read as seconds, as duration is, and mszl
as bytes of each node.

PM100: jobs of Marconi100 of 2020 that had their nodes for themselves, in one parquet file. Antici
and others, "PM100: A Job Power Consumption Dataset of a Large-scale Production HPC System", SC-W
2023, doi:10.5281/zenodo.8129257. Columns as in documentation/job_features.md of
github.com/francescoantici/PM100-data: run_time in seconds, time_limit in minutes. Memory is in
gigabytes as its inspect_data.py says, taken as GiB, as Slurm counts. Earlier revisions name the
columns of cores num_cpus_req, num_cpus_alloc and cpus_per_task.

openb: pods of a cluster of Alibaba with 6,212 GPUs of seven types, csv. Weng and others, "Beware of
Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC
2023. Columns of openb_pod_list_*.csv as in cluster-trace-gpu-v2023/README.md of
github.com/alibaba/clusterdata: CPUs and parts of a GPU in thousandths, memory in MiB, times in
seconds of the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.log_reader import AccountingReader
from slurm_rl_plugin.accounting.port import NOT_READ, TEXTS, Tally
from slurm_rl_plugin.accounting.published.files import (
    PublishedRows,
    layout_of_parquet,
    rows_of_csv,
    rows_of_parquet,
)
from slurm_rl_plugin.accounting.published.layouts import header_columns, layout_of
from slurm_rl_plugin.accounting.stored.log import (
    COLUMNS,
    NAMES,
    NOTHING_ASKED,
    REQUESTS,
    resource_texts,
)
from slurm_rl_plugin.units import MINUTE, BoolArray, FloatArray, IntArray

#: No machine has as many processors or nodes.
MOST = 2**31
_MIB = 2.0**20
#: MiB: no limit is written as the largest number of 64 bits, and a node has far less than 2^60 B.
_NO_MEMORY_LIMIT = 2.0**40
#: Seconds that no job may run, so that a larger limit is none: over a century.
_NO_TIME_LIMIT = 2.0**32
_MIB_OF_GIB = 1024.0
#: Slurm's numbers of 32 bits for INFINITE and for none.
_NO_LIMIT = 2.0**32 - 2
_WORDS = ("infinite", "unlimited")
_MILLI = 1000.0
_UNKNOWN = {"time_limit": np.nan, **dict.fromkeys((*NAMES, *TEXTS), ""), **NOTHING_ASKED}
PART_OF_CPU = "a part of a CPU counted as a whole one"
PART_OF_GPU = "a part of a GPU counted as a whole one"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedJobs:
    """n records in the domain's words, those that never ran too."""

    #: By the names of `stored.log`, shape [n] each, those that the data set has: numbers are NaN
    #: where a record has none.
    columns: Mapping[str, Any]
    total: FloatArray  #: CPUs, MiB of memory and GPUs that the whole job asks for, shape [n, 3]
    odd: Mapping[str, BoolArray] = field(default_factory=dict)  #: oddity -> which records show it


def kept_jobs(jobs: PublishedJobs, tally: Tally) -> pl.DataFrame:
    """The jobs of a batch that ran, in its order; columns as `stored.log` has them.

    A job that is eligible before its submission or after its start counts as one without a time.
    """
    submit, start, run_time, processors = (
        jobs.columns[name] for name in ("submit", "start", "run_time", "processors")
    )
    faults = {
        "no submit time": np.isnan(submit),
        "negative submit time": submit < 0,
        "negative run time": run_time < 0,
        "never ran": ~(run_time > 0) | np.isnan(start),
        "start before submit": start < submit,
        "no processors": ~(processors > 0),
        "impossible processors": processors > MOST,
    }
    kept = tally.sift(faults.items(), len(submit))
    for oddity, shown in jobs.odd.items():
        tally.noticed[oddity] += int(np.count_nonzero(shown[kept]))
    tally.keep(submit[kept])
    eligible = pl.col("eligible")
    within = eligible.is_between(pl.col("submit"), pl.col("start"))
    return (
        pl.DataFrame({**_UNKNOWN, **jobs.columns})
        .filter(kept)
        .with_columns(
            eligible=pl.when(within).then(eligible).otherwise("submit"),
            resources=resource_texts(jobs.total[kept]),
        )
        .select(pl.col(name).cast(kind) for name, kind in {**COLUMNS, **REQUESTS}.items())
    )


def whole_numbers(column: FloatArray, least: int = 0) -> IntArray:
    """A column as whole numbers from `least` to MOST, `least` where there is none."""
    return np.clip(np.nan_to_num(column), least, MOST).astype(np.int64)


def first_positive(*columns: FloatArray) -> FloatArray:
    """The first of several columns that is above 0, for each record; NaN where none is."""
    found = np.full(len(columns[0]), np.nan)
    for column in reversed(columns):
        found = np.where(column > 0, column, found)
    return found


def _within(amounts: FloatArray, limit: float, otherwise: float = np.nan) -> FloatArray:
    return np.where((amounts > 0) & (amounts < limit), amounts, otherwise)


def jobs_of_f_data(rows: PublishedRows) -> PublishedJobs:
    """Records of F-DATA as jobs; an account is the user, as the data names no other."""
    cores, nodes = rows.numbers("cnumr"), rows.numbers("nnumr")
    got = first_positive(rows.numbers("cnumat"), cores)
    nodes = first_positive(nodes, rows.numbers("nnuma"))
    limit, user = rows.numbers("elpl"), rows.texts("usr")
    memory = _within(rows.numbers("mszl") / _MIB, _NO_MEMORY_LIMIT, 0.0) * np.fmax(nodes, 1.0)
    return PublishedJobs(
        columns={
            "job_id": rows.numbers_in("jid"),
            "submit": rows.times("adt"),
            "eligible": rows.times("qdt"),
            "start": rows.times("sdt"),
            "run_time": rows.numbers("duration"),
            "time_limit": _within(limit, _NO_TIME_LIMIT),
            "processors": got,
            "account": user,
            "user": user,
            "job_name": rows.texts("jnam"),
            "nodes": whole_numbers(nodes),
        },
        total=np.column_stack([first_positive(cores, got), memory, np.zeros(len(rows))]),
    )


def jobs_of_pm100(rows: PublishedRows) -> PublishedJobs:
    """Records of PM100 as jobs; the account is the group that a job was submitted as, if known."""
    asked, got = rows.numbers("num_cores_req"), rows.numbers("num_cores_alloc")
    user, group = rows.texts("user_id"), rows.texts("group_id")
    limit = _within(rows.numbers("time_limit", nothing=_WORDS), _NO_LIMIT) * MINUTE
    memory = _told(rows, "mem_req", "mem_alloc") * _MIB_OF_GIB
    gpus = _told(rows, "num_gpus_req", "num_gpus_alloc")
    nodes = first_positive(rows.numbers("num_nodes_req"), rows.numbers("num_nodes_alloc"))
    return PublishedJobs(
        columns={
            "job_id": rows.numbers_in("job_id"),
            "submit": rows.times("submit_time"),
            "eligible": rows.times("eligible_time"),
            "start": rows.times("start_time"),
            "run_time": rows.numbers("run_time"),
            "time_limit": limit,
            "processors": first_positive(got, asked),
            "account": user if (group == "").all() else group,
            "user": user,
            **{name: rows.texts(name) for name in ("partition", "qos")},
            "nodes": whole_numbers(nodes),
            "cpus_per_task": whole_numbers(rows.numbers("cores_per_task"), least=1),
            "exclusive": rows.texts("shared") == "0",
        },
        total=np.column_stack([first_positive(asked, got), memory, gpus]),
        odd={f"req_nodes{NOT_READ}": (rows.texts("req_nodes") != "").to_numpy()},
    )


def _told(rows: PublishedRows, asked: str, got: str) -> FloatArray:
    """What a job asked for, else what it got; 0 if both are unknown."""
    return np.nan_to_num(first_positive(rows.numbers(asked), rows.numbers(got)))


def jobs_of_openb(rows: PublishedRows) -> PublishedJobs:
    """Pods as jobs of one node each; their owners are unknown.

    Nodes give out whole CPUs and whole GPUs, so parts are rounded up, and reported as odd. Types of
    GPUs that a pod asks for (`V100M16|V100M32`) are its constraint.
    """
    cpus, gpus = rows.numbers("cpu_milli") / _MILLI, rows.numbers("num_gpu")
    whole = np.ceil(cpus)
    submit, start = rows.numbers("creation_time"), rows.numbers("scheduled_time")
    return PublishedJobs(
        columns={
            "job_id": rows.numbers_in("name"),
            "submit": submit,
            "eligible": submit,
            "start": start,
            "run_time": rows.numbers("deletion_time") - start,
            "processors": whole,
            "qos": rows.texts("qos"),
            "nodes": 1,
            "cpus_per_task": whole_numbers(whole, least=1),
            "constraint": rows.texts("gpu_spec").set(pl.Series(~(gpus > 0)), ""),
        },
        total=np.nan_to_num(np.column_stack([whole, rows.numbers("memory_mib"), gpus])),
        odd={
            PART_OF_CPU: whole > cpus,
            PART_OF_GPU: (gpus == 1.0) & (rows.numbers("gpu_milli") < _MILLI),
        },
    )


_JOBS: Mapping[str, Callable[[PublishedRows], PublishedJobs]] = {
    "f-data": jobs_of_f_data,
    "pm100": jobs_of_pm100,
    "openb": jobs_of_openb,
}


class PublishedReader(AccountingReader):
    """Reads files of one layout, csv or parquet, recognised by their columns."""

    def jobs(self, log: LogFile) -> Iterator[pl.DataFrame]:
        """The jobs of a file; a missing column or a value that is not understood is a fault."""
        layout = layout_of_parquet(log.path)
        if layout is not None:
            log.pass_over()
            batches = rows_of_parquet(log.path, layout)
        else:
            line = log.head().lstrip().partition(b"\n")[0].decode(errors="replace")
            layout = layout_of(header_columns(line))
            if layout is None:
                raise log.fault("these are no columns of F-DATA, PM100 or openb; give one of them")
            batches = rows_of_csv(log.path, layout, log.batches())
        self.kind = layout.kind
        before = self.tally.read
        for rows in batches:
            yield kept_jobs(_JOBS[self.kind](rows), self.tally)
        if self.tally.read == before:
            raise log.fault("the file holds no record; export it again")
