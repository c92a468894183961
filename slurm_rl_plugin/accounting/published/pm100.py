"""PM100: jobs of Marconi100 of 2020 that had their nodes for themselves, in one parquet file.

Antici and others, "PM100: A Job Power Consumption Dataset of a Large-scale Production HPC System",
SC-W 2023, doi:10.5281/zenodo.8129257. Columns as in documentation/job_features.md of
github.com/francescoantici/PM100-data: run_time in seconds, time_limit in minutes. Memory is in
gigabytes as its inspect_data.py says, taken as GiB, as Slurm counts. Earlier revisions name the
columns of cores num_cpus_req, num_cpus_alloc and cpus_per_task.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.accounting.port import NOT_READ
from slurm_rl_plugin.accounting.published.judgement import (
    PublishedJobs,
    first_positive,
    whole_numbers,
)
from slurm_rl_plugin.accounting.published.rows import PublishedRows
from slurm_rl_plugin.units import MINUTE, FloatArray

_MIB_OF_GIB = 1024.0
#: Slurm's numbers of 32 bits for INFINITE and for none.
_NO_LIMIT = 2.0**32 - 2
_WORDS = ("infinite", "unlimited")


def jobs_of_pm100(rows: PublishedRows) -> PublishedJobs:
    """Records of PM100 as jobs; the account is the group that a job was submitted as, if told.

    Raises:
        AccountingLogError: a value is not understood.
    """
    asked, got = rows.numbers("num_cores_req"), rows.numbers("num_cores_alloc")
    user, group = rows.texts("user_id"), rows.texts("group_id")
    return PublishedJobs(
        job_id=rows.numbers_in("job_id"),
        submit=rows.times("submit_time"),
        eligible=rows.times("eligible_time"),
        start=rows.times("start_time"),
        run_time=rows.numbers("run_time"),
        time_limit=_limit(rows.numbers("time_limit", nothing=_WORDS)),
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
    """What a job asked for, else what it got; 0 where neither is told."""
    return np.nan_to_num(first_positive(rows.numbers(asked), rows.numbers(got)))


def _limit(minutes: FloatArray) -> FloatArray:
    return np.where((minutes > 0) & (minutes < _NO_LIMIT), minutes * MINUTE, np.nan)
