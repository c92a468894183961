"""Generated samples of published data sets: their documented columns, values drawn at random."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

#: When the samples begin.
EPOCH = datetime(2021, 4, 1, 1, 28, 1, tzinfo=UTC)


def f_data(jobs: int, seed: int = 0) -> pl.DataFrame:
    """Jobs of F-DATA: dates as texts with the offset of Japan."""
    draw = np.random.default_rng(seed)
    nodes = draw.integers(1, 400, jobs)
    submit = np.sort(draw.integers(0, 10**6, jobs))
    wait, run = draw.integers(1, 10**4, jobs), draw.integers(1, 10**5, jobs)
    limited = draw.random(jobs) < 0.5
    return pl.DataFrame(
        {
            "jid": [f"jid_{number}" for number in range(jobs)],
            "usr": [f"usr_{number}" for number in draw.integers(0, 9, jobs)],
            "jnam": [f"jnam_{number}" for number in draw.integers(0, 99, jobs)],
            "cnumr": nodes * 48,
            "cnumat": nodes * 48,
            "cnumut": nodes * 48,
            "nnumr": nodes,
            "nnuma": nodes,
            "adt": japan(submit),
            "qdt": japan(submit + 1),
            "sdt": japan(submit + wait),
            "edt": japan(submit + wait + run),
            "duration": run.astype(float),
            "elpl": (run * 2).astype(float),
            "mszl": np.where(limited, 28.0 * 2**30, float(2**64 - 1)),
            "econ": draw.random(jobs),
            "freq_req": np.full(jobs, 2000),
            "exit state": ["completed"] * jobs,
            "embedding": [[0.5, 0.25]] * jobs,
        }
    )


def japan(seconds: np.ndarray) -> list[str]:
    """Dates as F-DATA writes them."""
    times = (EPOCH + timedelta(seconds=int(each), hours=9) for each in seconds)
    return [f"{each:%Y-%m-%d %H:%M:%S}+09" for each in times]


def pm100(jobs: int, seed: int = 0) -> pl.DataFrame:
    """Jobs of PM100: timestamps, minutes of limits, GiB of memory."""
    draw = np.random.default_rng(seed)
    nodes, gpus = draw.integers(1, 9, jobs), draw.integers(0, 5, jobs)
    submit = np.sort(draw.integers(0, 10**6, jobs))
    wait, run = draw.integers(1, 10**4, jobs), draw.integers(1, 10**5, jobs)
    return pl.DataFrame(
        {
            "job_id": np.arange(1000, 1000 + jobs),
            "user_id": draw.integers(0, 9, jobs),
            "group_id": draw.integers(25200, 25204, jobs),
            "partition": [str(each) for each in draw.integers(0, 2, jobs)],
            "qos": ["normal"] * jobs,
            "submit_time": stamps(submit),
            "eligible_time": stamps(submit),
            "start_time": stamps(submit + wait),
            "end_time": stamps(submit + wait + run),
            "run_time": run,
            "time_limit": -(-run // 60),
            "num_cores_req": nodes * 32,
            "num_cores_alloc": nodes * 128,
            "num_nodes_req": nodes,
            "num_nodes_alloc": nodes,
            "num_gpus_req": nodes * gpus,
            "num_gpus_alloc": nodes * gpus,
            "mem_req": nodes * 230,
            "mem_alloc": nodes * 240,
            "num_tasks": nodes * 4,
            "cores_per_task": np.full(jobs, 8),
            "shared": ["0"] * jobs,
            "job_state": ["COMPLETED"] * jobs,
            "power_consumption": [[500, 510]] * jobs,
        }
    )


def stamps(seconds: np.ndarray) -> pl.Series:
    """Timestamps in UTC, as pandas stores them."""
    times = [EPOCH + timedelta(seconds=int(each)) for each in seconds]
    return pl.Series(times, dtype=pl.Datetime("ns", "UTC"))


def pods(jobs: int, seed: int = 0) -> pl.DataFrame:
    """Pods of openb; one in ten was never scheduled."""
    draw = np.random.default_rng(seed)
    gpus = draw.choice([0, 1, 1, 1, 2, 8], jobs)
    created = np.sort(draw.integers(0, 10**6, jobs))
    wait, run = draw.integers(0, 100, jobs), draw.integers(1, 10**5, jobs)
    pending = draw.random(jobs) < 0.1
    types = draw.choice(["", "", "T4", "V100M16|V100M32"], jobs)
    return pl.DataFrame(
        {
            "name": [f"openb-pod-{number:04}" for number in range(jobs)],
            "cpu_milli": draw.integers(1, 16, jobs) * 500,
            "memory_mib": draw.integers(1, 64, jobs) * 512,
            "num_gpu": gpus,
            "gpu_milli": np.where(gpus == 1, draw.choice([460, 1000], jobs), (gpus > 0) * 1000),
            "gpu_spec": types,
            "qos": draw.choice(["LS", "BE"], jobs),
            "pod_phase": np.where(pending, "Pending", "Succeeded"),
            "creation_time": created,
            "deletion_time": created + wait + run,
            "scheduled_time": pl.Series(created + wait).set(pl.Series(pending), None),
        }
    )


NODES = """\
sn,cpu_milli,memory_mib,gpu,model
openb-node-0000,32000,262144,0,
openb-node-0001,96000,393216,8,T4
openb-node-0002,32000,262144,0,nan
openb-node-0003,64500,262144,2,V100M16
"""


def as_csv(frame: pl.DataFrame, path: Path) -> Path:
    """The sample as pandas exports it: an index before, arrays over several lines in quotes."""
    lists = [name for name, kind in frame.schema.items() if kind.is_nested()]
    flat = frame.with_columns(pl.lit("[0.5\n 0.25]").alias(name) for name in lists)
    flat.with_row_index("").write_csv(path)
    return path


def as_parquet(frame: pl.DataFrame, path: Path) -> Path:
    """The sample as it is published."""
    frame.write_parquet(path)
    return path
