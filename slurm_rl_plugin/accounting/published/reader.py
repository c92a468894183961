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
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.log_reader import AccountingReader
from slurm_rl_plugin.accounting.port import NOT_READ, Tally
from slurm_rl_plugin.accounting.published.files import (
    PublishedRows,
    layout_of_parquet,
    rows_of_csv,
    rows_of_parquet,
)
from slurm_rl_plugin.accounting.published.layouts import (
    F_DATA,
    OPENB,
    PM100,
    header_columns,
    layout_of,
)
from slurm_rl_plugin.accounting.stored.log import COLUMNS, REQUESTS, WHOLE_NUMBERS, request_columns
from slurm_rl_plugin.domain.resources import ResourceRequests
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
PART_OF_CPU = "a part of a CPU counted as a whole one"
PART_OF_GPU = "a part of a GPU counted as a whole one"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedJobs:
    """Records in the domain's words, those that never ran too; every column has shape [n]."""

    job_id: IntArray  #: number of each
    #: submit, eligible, start: seconds; NaN if a record has none. A job that is eligible
    #: before its submission or after its start counts as one without.
    submit: FloatArray
    eligible: FloatArray
    start: FloatArray
    run_time: FloatArray  #: seconds; NaN if unknown
    time_limit: FloatArray  #: seconds; NaN if unknown
    processors: FloatArray  #: that it got; NaN if unknown
    texts: Mapping[str, pl.Series]  #: account, user, partition, qos, job_name, if the layout has it
    total: FloatArray  #: CPUs, MiB of memory and GPUs that the whole job asks for, shape [n, 3]
    nodes: FloatArray  #: that it asks for; NaN if unknown
    cpus_per_task: IntArray  #: CPUs that must be on one node together, >= 1
    exclusive: BoolArray  #: it wants its nodes for itself
    constraint: pl.Series | None = None  #: expression over features of nodes, "" for any
    odd: Mapping[str, BoolArray] = field(default_factory=dict)  #: oddity -> which records show it

    def reasons(self) -> dict[str, BoolArray]:
        """Why there is no job; of several reasons the first counts."""
        return {
            "no submit time": np.isnan(self.submit),
            "negative submit time": self.submit < 0,
            "negative run time": self.run_time < 0,
            "never ran": ~(self.run_time > 0) | np.isnan(self.start),
            "start before submit": self.start < self.submit,
            "no processors": ~(self.processors > 0),
            "impossible processors": self.processors > MOST,
        }


def kept_jobs(jobs: PublishedJobs, tally: Tally) -> pl.DataFrame:
    """The jobs of a batch that ran, in its order; columns as `stored.log` has them."""
    places = np.flatnonzero(tally.sift(jobs.reasons(), len(jobs.job_id)))
    for oddity, shown in jobs.odd.items():
        tally.noticed[oddity] += int(np.count_nonzero(shown[places]))
    tally.keep(jobs.submit[places])
    return _frame(jobs, places)


def _frame(jobs: PublishedJobs, places: IntArray) -> pl.DataFrame:
    count = len(places)
    columns: dict[str, Any] = {}
    for name, kind in COLUMNS.items():
        if kind == pl.String:
            texts = jobs.texts.get(name)
            columns[name] = [""] * count if texts is None else texts.gather(places)
            continue
        column = getattr(jobs, name)[places]
        columns[name] = column.astype(np.int64) if name in WHOLE_NUMBERS else column
    submit, eligible = columns["submit"], columns["eligible"]
    within = (submit <= eligible) & (eligible <= columns["start"])
    columns["eligible"] = np.where(within, eligible, submit)
    columns |= request_columns(_requests(jobs, places), slice(None))
    return pl.DataFrame(columns, schema={**COLUMNS, **REQUESTS})


def _requests(jobs: PublishedJobs, places: IntArray) -> ResourceRequests:
    asked = ResourceRequests.of_totals(jobs.total[places], nodes=whole_numbers(jobs.nodes[places]))
    asked = replace(
        asked, cpus_per_task=jobs.cpus_per_task[places], exclusive=jobs.exclusive[places]
    )
    if jobs.constraint is None:
        return asked
    constraint = jobs.constraint.gather(places)
    constraints = sorted({"", *constraint.unique().to_list()})
    index = constraint.replace_strict(constraints, range(len(constraints)), return_dtype=pl.Int64)
    return replace(asked, constraint=index.to_numpy().copy(), constraints=tuple(constraints))


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
    """Amounts above 0 and below a limit."""
    return np.where((amounts > 0) & (amounts < limit), amounts, otherwise)


def jobs_of_f_data(rows: PublishedRows) -> PublishedJobs:
    """Records of F-DATA as jobs; an account is the user, as the data names no other."""
    cores, nodes = rows.numbers("cnumr"), rows.numbers("nnumr")
    got = first_positive(rows.numbers("cnumat"), cores)
    nodes = first_positive(nodes, rows.numbers("nnuma"))
    limit = rows.numbers("elpl")
    user = rows.texts("usr")
    count = len(rows)
    return PublishedJobs(
        job_id=rows.numbers_in("jid"),
        submit=rows.times("adt"),
        eligible=rows.times("qdt"),
        start=rows.times("sdt"),
        run_time=rows.numbers("duration"),
        time_limit=_within(limit, _NO_TIME_LIMIT),
        processors=got,
        texts={"account": user, "user": user, "job_name": rows.texts("jnam")},
        total=np.column_stack(
            [
                first_positive(cores, got),
                _within(rows.numbers("mszl") / _MIB, _NO_MEMORY_LIMIT, 0.0) * np.fmax(nodes, 1.0),
                np.zeros(count),
            ]
        ),
        nodes=nodes,
        cpus_per_task=np.ones(count, dtype=np.int64),
        exclusive=np.zeros(count, dtype=np.bool_),
    )


def jobs_of_pm100(rows: PublishedRows) -> PublishedJobs:
    """Records of PM100 as jobs; the account is the group that a job was submitted as, if known."""
    asked, got = rows.numbers("num_cores_req"), rows.numbers("num_cores_alloc")
    user, group = rows.texts("user_id"), rows.texts("group_id")
    return PublishedJobs(
        job_id=rows.numbers_in("job_id"),
        submit=rows.times("submit_time"),
        eligible=rows.times("eligible_time"),
        start=rows.times("start_time"),
        run_time=rows.numbers("run_time"),
        time_limit=_within(rows.numbers("time_limit", nothing=_WORDS), _NO_LIMIT) * MINUTE,
        processors=first_positive(got, asked),
        texts={
            "account": user if (group == "").all() else group,
            "user": user,
            "partition": rows.texts("partition"),
            "qos": rows.texts("qos"),
        },
        total=np.column_stack(
            [
                first_positive(asked, got),
                _told(rows, "mem_req", "mem_alloc") * _MIB_OF_GIB,
                _told(rows, "num_gpus_req", "num_gpus_alloc"),
            ]
        ),
        nodes=first_positive(rows.numbers("num_nodes_req"), rows.numbers("num_nodes_alloc")),
        cpus_per_task=whole_numbers(rows.numbers("cores_per_task"), least=1),
        exclusive=(rows.texts("shared") == "0").to_numpy(),
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
    count = len(rows)
    return PublishedJobs(
        job_id=rows.numbers_in("name"),
        submit=submit,
        eligible=submit,
        start=start,
        run_time=rows.numbers("deletion_time") - start,
        time_limit=np.full(count, np.nan),
        processors=whole,
        texts={"qos": rows.texts("qos")},
        total=np.nan_to_num(np.column_stack([whole, rows.numbers("memory_mib"), gpus])),
        nodes=np.ones(count),
        cpus_per_task=whole_numbers(whole, least=1),
        exclusive=np.zeros(count, dtype=np.bool_),
        constraint=rows.texts("gpu_spec").set(pl.Series(~(gpus > 0)), ""),
        odd={
            PART_OF_CPU: whole > cpus,
            PART_OF_GPU: (gpus == 1.0) & (rows.numbers("gpu_milli") < _MILLI),
        },
    )


_JOBS: Mapping[str, Callable[[PublishedRows], PublishedJobs]] = {
    F_DATA.kind: jobs_of_f_data,
    PM100.kind: jobs_of_pm100,
    OPENB.kind: jobs_of_openb,
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
