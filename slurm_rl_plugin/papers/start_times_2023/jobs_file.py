"""A parquet file of jobs pending at a daily poll, in the form of Mila's slurm-queue-time-pred.

Inputs that become known only later are not read: the run times of the jobs ahead (`q_*_run_hours`,
sums of `run_time_sec`), the allocated nodes, the time spent running, the final priority, and an
eligible time after the poll.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.forecasts.past_waits.wait_forest import SeenJobs
from slurm_rl_plugin.units import FloatArray, IntArray

#: Required columns.
_TIMES = ("poll_time", "submit_time", "start_time")
#: Alternative names of a column; the first one present is read.
_ACCOUNT, _PARTITION = ("account_id",), ("partition_id_y", "partition_id_x")
_SHARES = (
    *("raw_share_poll", "norm_share_poll", "raw_use_poll", "effect_use_poll"),
    *("level_fs_poll", "norm_use_poll"),
)
#: Normalised shares and uses are of the order of 1e-3; scaled for a logarithm.
_SCALE = 1e6


def read_jobs_file(path: Path) -> SeenJobs:
    """The jobs of a file in the order of their polls; nan for a job that has not started."""
    table = _read(path)
    wanted = [(name,) for name in _TIMES] + [_ACCOUNT, _PARTITION]
    missing = [" or ".join(names) for names in wanted if not set(names) & set(table.columns)]
    if missing:
        raise AccountingLogError(
            path,
            f"has no column {', '.join(missing)}: give a file with the columns of "
            "slurm-queue-time-pred.",
        )
    times = {name: _seconds(path, table, name) for name in _TIMES}
    usable = np.isfinite(times["poll_time"]) & np.isfinite(times["submit_time"])
    usable &= ~(times["start_time"] < times["poll_time"])
    jobs = _jobs(path, table, times).select(usable)
    if not np.isfinite(jobs.start).any():
        raise AccountingLogError(
            path, "no job was pending at its poll and started later: copy the file again."
        )
    return jobs.select(np.lexsort((jobs.submit, jobs.moment)))


def _read(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise AccountingLogError(path, f"is no parquet file that can be read: {reason}") from None


def _jobs(path: Path, table: pl.DataFrame, times: dict[str, FloatArray]) -> SeenJobs:
    eligible = _seconds(path, table, "eligible_time")
    poll = times["poll_time"]
    asked = {kind: _asked(table, kind) for kind in ("gres/gpu", "node")}
    return SeenJobs(
        moment=poll,
        submit=times["submit_time"],
        # the end of a dependency is recorded only afterwards
        eligible=np.where(eligible <= poll, eligible, np.nan),
        limit=_numbers(path, table, "time_limit_sec"),
        cpus=_numbers(path, table, "req_cpus", 1.0),
        memory=_numbers(path, table, "req_mem_total", 0.0),
        gpus=np.nan_to_num(asked["gres/gpu"]),
        nodes=np.nan_to_num(asked["node"], nan=1.0),
        priority=_numbers(path, table, "priority_y"),
        account=_codes(table, _ACCOUNT),
        partition=_codes(table, _PARTITION),
        start=times["start_time"],
        end=_seconds(path, table, "end_time"),
        look=_look(path, table),
    )


def _look(path: Path, table: pl.DataFrame) -> dict[str, FloatArray]:
    """Queue, machine and shares at the poll."""
    found = {
        name: _numbers(path, table, name)
        for name in table.columns
        if name.startswith(("q_", "r_")) and not name.endswith("run_hours")
    }
    for name in _SHARES:
        if name in table.columns:
            found[name] = _SCALE * _numbers(path, table, name)
    return found


def _seconds(path: Path, table: pl.DataFrame, name: str) -> FloatArray:
    """A column of times as seconds since the epoch; nan without a time."""
    if name not in table.columns:
        return np.full(len(table), np.nan)
    column = table[name]
    if column.dtype == pl.String:
        column = column.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False)
    if not column.dtype.is_temporal() or column.is_null().all():
        raise AccountingLogError(
            path, "is no column of times: write them as 2021-05-01 12:00:00.", field=name
        )
    return column.cast(pl.Datetime("us")).dt.epoch("us").cast(pl.Float64).to_numpy() / 1e6


def _numbers(path: Path, table: pl.DataFrame, name: str, missing: float = np.nan) -> FloatArray:
    """A column of numbers; `missing` for a column or cell without one."""
    if name not in table.columns:
        return np.full(len(table), missing)
    if not (table[name].dtype.is_numeric() or table[name].dtype == pl.Null):
        raise AccountingLogError(path, "is no column of numbers.", field=name)
    values = table[name].cast(pl.Float64).fill_null(np.nan).to_numpy().astype(np.float64)
    return np.where(np.isnan(values), missing, values)


def _asked(table: pl.DataFrame, kind: str) -> FloatArray:
    """Amount of a TRES of any type in `req_tres`; nan for a job that names none."""
    if "req_tres" not in table.columns:
        return np.full(len(table), np.nan)
    pattern = rf"(?:^|,){kind}(?::[^=,]+)?=(\d+)(?:,|$)"
    found = table["req_tres"].cast(pl.String).str.extract(pattern)
    return found.cast(pl.Float64).to_numpy().astype(np.float64)


def _codes(table: pl.DataFrame, names: tuple[str, ...]) -> IntArray:
    """A number for each distinct value of the first column present."""
    name = next(each for each in names if each in table.columns)
    return table[name].rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
