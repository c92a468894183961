"""Segments of LPC-EGEE in place of the LAL log of the papers, which is not public."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.accounting.swf.reader import SwfReader
from slurm_rl_plugin.papers.study.archived_logs import archived_log
from slurm_rl_plugin.simulator.workloads.log_shares import OTHER_ACCOUNT
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log

LPC_EGEE = "LPC-EGEE-2004-1.2-cln"
SEGMENT_JOBS = 9500
#: Processors of the 2011 experiments, and those of the machine that wrote the log.
PROCESSORS_OF_2011, PROCESSORS_OF_LPC = 81, 140
#: First and last jobs of a segment that are not counted.
SEGMENT_DROP = (500, 500)
#: Groups with a share of their own; the rest of the segment's work is that of `_other`.
_GROUPS = ("2", "6", "1")


def read_lpc(folder: Path) -> JobLog:
    """The jobs of LPC-EGEE that ran.

    Raises:
        ConfigurationError: the folder does not hold it.
        AccountingLogError: it cannot be read.
    """
    return SwfReader().read(archived_log(folder, LPC_EGEE))[0]


def segment_of(log: JobLog, number: int) -> JobLog:
    """Segment k of a log, which holds the jobs that ran: jobs 9500 k to 9500 (k + 1) - 1."""
    return log.select(np.arange(SEGMENT_JOBS * number, SEGMENT_JOBS * (number + 1)))


def prepared_segments(
    log: JobLog, numbers: Iterable[int], capacity: int, jobs: int = 0
) -> dict[int, PreparedLog]:
    """Segments with the groups' part of their own work as shares: groups 2, 6, 1 and the rest.

    Args:
        log: LPC-EGEE.
        numbers: of the segments.
        capacity: processors to run them on.
        jobs: only the first so many of each; 0 for all.
    """
    found = {}
    for number in numbers:
        segment = segment_of(log, number)
        if jobs:
            segment = segment.select(np.arange(jobs))
        found[number] = prepare_log(segment, capacity=capacity, shares=_shares_of(segment))
    return found


def _shares_of(segment: JobLog) -> dict[str, float]:
    work = segment.run_time * segment.processors
    shares = {
        name: float(work[segment.account == segment.accounts.index(name)].sum() / work.sum())
        for name in _GROUPS
        if name in segment.accounts
    }
    return {**shares, OTHER_ACCOUNT: max(1.0 - sum(shares.values()), 0.0)}
