"""F-DATA: three years of Fugaku's jobs, a parquet file a month.

Antici and others, "F-DATA: A Fugaku Workload Dataset for Job-centric Predictive Modelling in HPC
Systems", doi:10.5281/zenodo.11467483. Columns as in docs/feature_list.md of
github.com/francescoantici/F-DATA; duration is in seconds there. The list names no unit for elpl and
mszl: elpl is read as seconds, as duration is, and mszl as bytes of each node.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.accounting.published.judgement import PublishedJobs, first_positive
from slurm_rl_plugin.accounting.published.rows import PublishedRows
from slurm_rl_plugin.units import FloatArray

_MIB = 2.0**20
#: No limit is written as the largest number of 64 bits, and a node has far less than 2^60 bytes.
_NO_MEMORY_LIMIT = 2.0**60
#: Seconds that no job may run, so that a larger limit is none: over a century.
_NO_TIME_LIMIT = 2.0**32


def jobs_of_f_data(rows: PublishedRows) -> PublishedJobs:
    """Records of F-DATA as jobs; an account is the user, as the data names no other.

    Raises:
        AccountingLogError: a value is not understood.
    """
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
        time_limit=np.where((limit > 0) & (limit < _NO_TIME_LIMIT), limit, np.nan),
        processors=got,
        texts={"account": user, "user": user, "job_name": rows.texts("jnam")},
        total=np.column_stack(
            [
                first_positive(cores, got),
                _memory(rows.numbers("mszl")) * np.fmax(nodes, 1.0),
                np.zeros(count),
            ]
        ),
        nodes=nodes,
        cpus_per_task=np.ones(count, dtype=np.int64),
        exclusive=np.zeros(count, dtype=np.bool_),
    )


def _memory(limit: FloatArray) -> FloatArray:
    """MiB of each node, 0 where the job set no limit."""
    return np.where((limit > 0) & (limit < _NO_MEMORY_LIMIT), limit / _MIB, 0.0)
