"""Past runs from PBS's accounting files: what a daemon without memory begins with."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.pbs.reader import PbsReader, daily_files
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.batch_systems.numbered_names import Names
from slurm_rl_plugin.domain import EndedJobs, JobTable
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import BoolArray

logger = logging.getLogger(__name__)

#: Bytes of accounting that are read, the newest files; the first cycle waits for them.
BYTES_AT_MOST = 200_000_000


def read_history(home: str, days: float, now: float) -> JobLog | None:
    """Runs that ended in the last days; None where accounting is no help, never a reason to fail.

    Args:
        home: PBS_HOME, on the server's host.
        days: how far back; 0 asks for nothing.
        now: seconds since the epoch.
    """
    if days <= 0:
        return None
    folder = Path(home, "server_priv", "accounting")
    try:
        log, report = PbsReader().read_files(_newest(folder, days, now), folder)
    except (AccountingLogError, OSError) as error:
        logger.warning("past_runs=unknown reason=%s", error)
        return None
    logger.info("past_runs=%d days=%g dropped=%s", len(log), days, report.dropped)
    return log


def _newest(folder: Path, days: float, now: float) -> list[Path]:
    """Daily files from that day on, the oldest first, as far back as their size allows."""
    since = datetime.fromtimestamp(now) - timedelta(days=math.ceil(days))
    chosen: list[Path] = []
    left = BYTES_AT_MOST
    for path in reversed(daily_files(folder)):
        left -= path.stat().st_size
        if path.name[:8] < since.strftime("%Y%m%d") or left < 0:
            break
        chosen.insert(0, path)
    return chosen


def ended_before(log: JobLog, here: set[int], users: Names) -> EndedJobs:
    """The runs as ended jobs; account, partition and class are not told.

    Args:
        log: the runs.
        here: numbers of jobs that are in the queue still, whose ends are told later.
        users: of the snapshot.
    """
    kept: BoolArray = ~np.isin(log.job_id, np.array(sorted(here), dtype=np.int64))
    ended = log.select(kept)
    nowhere = np.full(len(ended), -1, dtype=np.int64)
    number = np.array([users.number(name) if name else -1 for name in log.users], dtype=np.int64)
    classed = JobTable.classed(ended, interactive=np.zeros(len(ended), np.bool_), account=nowhere)
    return EndedJobs(
        jobs=replace(classed, user=number[ended.user], partition=nowhere),
        start=ended.start,
        end=ended.start + ended.run_time,
        from_accounting=True,
    )
