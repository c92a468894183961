"""Jobs of an accounting log as one parquet file: written by batches, read whole or in part.

The file holds a row a job in submit order, and in its metadata what the reader of the log reported.

Stored jobs that ask for what no log does raise ValueError.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.port import TEXTS, JobLog, ReadReport, resources_text, totals_of
from slurm_rl_plugin.domain.jobs import float_columns
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

NAMES = ("account", "user", "partition")
WHOLE_NUMBERS = ("job_id", "processors")
#: Unknown columns are None in a table, and NaN in the file.
NUMBERS = float_columns(JobLog)
#: Columns of every file; one with requests has those of REQUESTS too.
COLUMNS: dict[str, Any] = {
    **dict.fromkeys(NUMBERS, pl.Float64),
    **dict.fromkeys(WHOLE_NUMBERS, pl.Int64),
    **dict.fromkeys((*NAMES, *TEXTS), pl.String),
}
#: Columns that only logs with requests have, and what they say of a job of processors alone.
NOTHING_ASKED: dict[str, Any] = {
    "resources": "",
    "nodes": 0,
    "cpus_per_task": 1,
    "memory_per_cpu": False,
    "exclusive": False,
    "constraint": "",
}
_TYPES = {str: pl.String, int: pl.Int64, bool: pl.Boolean}
REQUESTS: dict[str, Any] = {name: _TYPES[type(each)] for name, each in NOTHING_ASKED.items()}
_KEY, _VERSION = "slurm_rl_log", 2
#: Files of version 1 know no requests.
_SCHEMAS = {1: [COLUMNS], 2: [COLUMNS, {**COLUMNS, **REQUESTS}]}
_NOT_OURS = (
    "this parquet file is none that `slurm-rl convert` wrote, nor F-DATA or PM100; give one of "
    "these, or the log"
)


class StoredLog:
    """A parquet file of jobs, opened; columns are read when they are asked for.

    Raises:
        AccountingLogError: it is missing, broken, or not one that we wrote; each method too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _faults(path):
            stored = pl.read_parquet_metadata(path).get(_KEY)
            if stored is None:
                raise AccountingLogError(path, _NOT_OURS)
            self._rows = pl.scan_parquet(path)
            schema = dict(self._rows.collect_schema())
        try:
            told = json.loads(stored)
            if schema not in _SCHEMAS[told["version"]]:
                raise ValueError(told["version"])
            report = ReadReport(**told["report"])
            self.report = replace(report, malformed=tuple(report.malformed))
            self.kind, self.processors_available = told["kind"], told["processors_available"]
        except (KeyError, TypeError, ValueError):
            raise AccountingLogError(path, _NOT_OURS) from None

    def __len__(self) -> int:
        return self.report.kept

    def column(self, name: str) -> np.ndarray:
        """One column of numbers, shape [jobs]."""
        with _faults(self.path):
            return self._rows.select(name).collect().to_series().to_numpy()

    def first_and_last_submit(self) -> tuple[float, float]:
        """Submissions of the first and of the last job, seconds."""
        submit = pl.col("submit")
        with _faults(self.path):
            first, last = self._rows.select(submit.first(), last=submit.last()).collect().row(0)
        return float(first), float(last)

    def log(self, first: int = 0, last: int | None = None) -> JobLog:
        """Jobs from `first` until before `last`, in submit order; nothing else is read."""
        count = len(self) - first if last is None else last - first
        return self._table(self._rows.slice(first, count), count)

    def stretches(self, bounds: Sequence[tuple[float, float]]) -> JobLog:
        """Jobs submitted within any of these times, seconds from and until before."""
        submit = pl.col("submit")
        wanted = pl.any_horizontal([(submit >= begin) & (submit < end) for begin, end in bounds])
        return self._table(self._rows.filter(wanted), None)

    def _table(self, rows: pl.LazyFrame, count: int | None) -> JobLog:
        with _faults(self.path):
            jobs = rows.collect(engine="streaming")
        try:
            if (count is not None and jobs.height != count) or not _is_sound(jobs, self.kind):
                raise ValueError(jobs.height)
            return job_log(jobs, self.kind, self.processors_available)
        except ValueError:
            problem = "the file is damaged; convert the log again"
            raise AccountingLogError(self.path, problem) from None


def metadata(report: ReadReport, kind: str, processors_available: int | None) -> dict[str, str]:
    """What the file says of itself."""
    told = {
        "version": _VERSION,
        "kind": kind,
        "processors_available": processors_available,
        "report": asdict(report),
    }
    return {_KEY: json.dumps(told)}


def frame_of(log: JobLog, first: int = 0, last: int | None = None) -> pl.DataFrame:
    """Jobs from `first` until before `last` of a table, as they are stored."""
    chosen = slice(first, last)
    unknown = np.full(len(log), np.nan)
    columns: dict[str, Any] = {}
    for name in (*NUMBERS, *WHOLE_NUMBERS):
        column = getattr(log, name)
        columns[name] = (unknown if column is None else column)[chosen]
    for name in NAMES:
        texts = pl.Series(getattr(log, f"{name}s"), dtype=pl.String)
        columns[name] = texts.gather(getattr(log, name)[chosen])
    columns.update({name: list(getattr(log, name)[chosen]) for name in TEXTS})
    if log.requests is None:
        return pl.DataFrame(columns, schema=COLUMNS)
    requests = log.requests.select(np.arange(len(log))[chosen])
    columns["resources"] = resource_texts(requests.total, requests.names)
    for name in ("nodes", "cpus_per_task", "memory_per_cpu", "exclusive"):
        columns[name] = getattr(requests, name)
    columns["constraint"] = pl.Series(requests.constraints).gather(requests.constraint)
    return pl.DataFrame(columns, schema={**COLUMNS, **REQUESTS})


def job_log(jobs: pl.DataFrame, kind: str, processors_available: int | None) -> JobLog:
    """Stored jobs as a table."""
    columns: dict[str, Any] = {
        name: jobs[name].to_numpy().copy() for name in (*NUMBERS, *WHOLE_NUMBERS)
    }
    for name in NAMES:
        columns[name], columns[f"{name}s"] = _indexed(jobs[name], numbered=kind == "swf")
    columns.update({name: tuple(jobs[name].to_list()) for name in TEXTS})
    return JobLog(
        **columns,
        requests=requests_of(jobs),
        processors_available=processors_available,
        kind=kind,
    )


def _indexed(texts: pl.Series, *, numbered: bool) -> tuple[IntArray, tuple[str, ...]]:
    names = sorted(texts.unique().to_list(), key=int if numbered else None)
    if not names:
        return np.zeros(0, dtype=np.int64), ()
    places = texts.replace_strict(names, np.arange(len(names)), return_dtype=pl.Int64)
    return places.to_numpy().copy(), tuple(names)


def _is_sound(jobs: pl.DataFrame, kind: str) -> bool:
    """Whether the columns hold what a table of jobs may."""
    if any(jobs.null_count().row(0)):
        return False
    names = pl.concat([jobs[name].unique() for name in NAMES])
    if kind == "swf" and not names.str.contains(r"^-?[0-9]{1,19}$").all():  # as its reader has them
        return False
    submit: FloatArray = jobs["submit"].to_numpy()
    finite: BoolArray = np.isfinite(submit) & np.isfinite(jobs["eligible"].to_numpy())
    ran = (jobs["run_time"].to_numpy() > 0) & (jobs["processors"].to_numpy() > 0)
    ran &= ~(jobs["start"].to_numpy() < submit)
    if "nodes" in jobs.columns:
        ran &= (jobs["nodes"].to_numpy() >= 0) & (jobs["cpus_per_task"].to_numpy() > 0)
    return bool(np.all(finite & ran) and np.all(np.diff(submit) >= 0))


def with_requests(jobs: pl.DataFrame) -> pl.DataFrame:
    """Jobs, some without requests, as jobs that all have them."""
    return jobs.with_columns(
        (
            pl.col(name) if name in jobs.columns else pl.lit(None, REQUESTS[name]).alias(name)
        ).fill_null(each)
        for name, each in NOTHING_ASKED.items()
    )


def resource_texts(total: FloatArray, names: tuple[str, ...] = BASIC_RESOURCES) -> pl.Series:
    """The stored text of what each job asks for, from amounts of shape [n, resources]."""
    distinct, place = np.unique(total, axis=0, return_inverse=True)
    texts = [resources_text(dict(zip(names, row, strict=True))) for row in distinct]
    return pl.Series(texts, dtype=pl.String).gather(place.reshape(-1))


def requests_of(jobs: pl.DataFrame) -> ResourceRequests | None:
    """What stored jobs ask for; None for processors alone."""
    if "resources" not in jobs.columns:
        return None
    distinct = jobs["resources"].unique()
    places = np.arange(len(distinct))
    of_job = jobs["resources"].replace_strict(distinct, places, return_dtype=pl.Int64).to_numpy()
    names, total = totals_of(distinct.to_list(), of_job, jobs["processors"].to_numpy())
    constraints = tuple(sorted({"", *jobs["constraint"].unique().to_list()}))
    numbers = pl.Series(range(len(constraints)), dtype=pl.Int64)
    place = jobs["constraint"].replace_strict(pl.Series(constraints), numbers)
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


@contextmanager
def _faults(path: Path) -> Iterator[None]:
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        problem = f"the parquet file cannot be read ({str(error).splitlines()[0][:200]})"
        raise AccountingLogError(path, f"{problem}; convert the log again") from None
