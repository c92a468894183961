"""openb: tasks of a cluster of Alibaba with 6,212 GPUs of seven types, csv.

Weng and others, "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023. Columns of openb_pod_list_*.csv as in
cluster-trace-gpu-v2023/README.md of github.com/alibaba/clusterdata: CPUs and parts of a GPU in
thousandths, memory in MiB, times in seconds of the trace.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.published.judgement import PublishedJobs, whole_numbers
from slurm_rl_plugin.accounting.published.rows import PublishedRows
from slurm_rl_plugin.units import FloatArray

_MILLI = 1000.0
PART_OF_CPU = "a part of a CPU counted as a whole one"
PART_OF_GPU = "a part of a GPU counted as a whole one"


def jobs_of_openb(rows: PublishedRows) -> PublishedJobs:
    """Pods as jobs of one node each; who owns them is not told.

    Nodes give out whole CPUs and whole GPUs, so parts are rounded up, and reported as odd. Types of
    GPUs that a pod asks for (`V100M16|V100M32`) are its constraint.

    Raises:
        AccountingLogError: a value is not understood.
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
        constraint=_types(rows, gpus),
        odd={
            PART_OF_CPU: whole > cpus,
            PART_OF_GPU: (gpus == 1.0) & (rows.numbers("gpu_milli") < _MILLI),
        },
    )


def _types(rows: PublishedRows, gpus: FloatArray) -> pl.Series:
    """Types of GPUs that pods with GPUs ask for."""
    return rows.texts("gpu_spec").set(pl.Series(~(gpus > 0)), "")
