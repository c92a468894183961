"""Files of jobs that were pending at a poll, with the columns of Graham's and a wait that is known.

The wait of a job is a function of its account, of its limit and of the load of the day, times a
random factor whose spread is given: no forecast can be better, and a good one comes near.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

ACCOUNTS, PARTITIONS = 12, 3
FIRST = datetime(2021, 5, 1, 12)


def polled_jobs(
    days: int,
    a_day: int = 60,
    *,
    spread: float = 0.2,
    seed: int = 0,
    first_account: int = 500,
) -> pl.DataFrame:
    """Jobs of some days.

    Args:
        days: with a poll at noon each.
        a_day: jobs that are pending at each.
        spread: standard deviation of log10(wait) about what can be known.
        seed: of all chance.
        first_account: number of the first account; partitions are numbered from it, too.
    """
    rng = np.random.default_rng(seed)
    n = days * a_day
    day = np.repeat(np.arange(days), a_day)
    account = rng.integers(0, ACCOUNTS, n)
    partition = rng.integers(0, PARTITIONS, n)
    limit = rng.choice([3600, 10800, 86400], n)
    load = rng.normal(0.0, 0.2, days)[day]
    known = 3.3 + 0.1 * (account - ACCOUNTS / 2) + 0.4 * np.log10(limit / 10800) + load
    wait = np.maximum(10.0 ** (known + spread * rng.standard_normal(n)), 1.0).astype(int)
    run = np.maximum(limit * rng.uniform(0.1, 1.0, n), 1.0).astype(int)
    poll = [FIRST + timedelta(days=int(each)) for each in day]
    age = rng.integers(60, 40000, n)
    cpus = rng.choice([1, 4, 32], n)
    gpus = rng.choice([0, 0, 0, 1], n)

    def text(seconds: np.ndarray) -> list[str]:
        moments = [a + timedelta(seconds=int(b)) for a, b in zip(poll, seconds, strict=True)]
        return [f"{each:%Y-%m-%d %H:%M:%S}" for each in moments]

    return pl.DataFrame(
        {
            "job_unique_id": np.arange(n) + 10**7,
            "submit_time": text(-age),
            "partition_id_y": partition + first_account,
            "account_id": account + first_account,
            "req_cpus": cpus,
            "req_mem_total": cpus * 4000,
            "req_tres": [f"billing=1,gres/gpu={each},node=1" for each in gpus],
            "eligible_time": text(-age),
            "start_time": text(wait),
            "end_time": text(wait + run),
            "time_limit_sec": limit,
            "poll_time": text(np.zeros(n)),
            "poll_wait_sec": wait,
            "run_time_sec": run,
            "priority_y": rng.uniform(1e-4, 5e-4, n),
            "q_jobs_above": np.maximum(1000 * load + rng.normal(500, 20, n), 0).astype(int),
            "q_p_core_hours_above": rng.uniform(0, 1e4, n),
            "r_p_cores_above": rng.integers(0, 1000, n),
            "q_core_run_hours": wait / 3600.0,  # known only later, so no code may read it
            "level_fs_poll": np.where(account == 0, np.inf, rng.uniform(0.1, 2.0, n)),
        }
    )  # fmt: skip


def write_polled_jobs(path: Path, table: pl.DataFrame) -> Path:
    """Write such a file."""
    table.write_parquet(path)
    return path
