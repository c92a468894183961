"""The published logs that several studies read: LPC-EGEE by segments, and parallel machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.accounting.swf.reader import SwfReader
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.workloads.log_shares import OTHER_ACCOUNT
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log


def log_in(folder: Path, name: str) -> Path | None:
    """The file of a log of that name; None where the folder holds none."""
    for path in (folder / f"{name}.swf.gz", folder / f"{name}.swf"):
        if path.is_file():
            return path
    return None


def archived_log(
    folder: Path, name: str, where: str = "which is at the Parallel Workloads Archive"
) -> Path:
    """The file of a log that a study cannot do without."""
    path = log_in(folder, name)
    if path is None:
        raise ConfigurationError(
            f"{folder} holds no {name}.swf.gz: give the directory of the traces, {where}."
        )
    return path


LPC_EGEE = "LPC-EGEE-2004-1.2-cln"
SEGMENT_JOBS = 9500
#: Processors of the 2011 experiments, and those of the machine that wrote the log.
PROCESSORS_OF_2011, PROCESSORS_OF_LPC = 81, 140
#: First and last jobs of a segment that are not counted.
SEGMENT_DROP = (500, 500)
#: Groups with a share of their own; the rest of the segment's work is that of `_other`.
_GROUPS = ("2", "6", "1")


def read_lpc(folder: Path) -> JobLog:
    """The jobs of LPC-EGEE that ran."""
    return SwfReader().read(archived_log(folder, LPC_EGEE))[0]


def segment_of(log: JobLog, number: int) -> JobLog:
    """Segment k of a log, which holds the jobs that ran: jobs 9500 k to 9500 (k + 1) - 1."""
    return log.select(np.arange(SEGMENT_JOBS * number, SEGMENT_JOBS * (number + 1)))


def prepared_segments(
    log: JobLog, numbers: Iterable[int], capacity: int, jobs: int = 0
) -> dict[int, PreparedLog]:
    """Segments with the groups' part of their own work as shares: groups 2, 6, 1 and the rest."""
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


#: Name -> file of the Parallel Workloads Archive; logs of parallel machines with user estimates.
LOGS: Mapping[str, str] = {
    "SDSC-SP2": "SDSC-SP2-1998-4.2-cln",
    "HPC2N": "HPC2N-2002-2.2-cln",
    "CTC-SP2": "CTC-SP2-1996-3.1-cln",
}


class StudyLog(NamedTuple):
    """A log of the study and the checksum of its file."""

    prepared: PreparedLog
    checksum: str


def read_study_logs(folder: Path, fewest: int) -> dict[str, StudyLog]:
    """Those of LOGS that a folder holds, under their names."""
    found = {}
    for name, file in LOGS.items():
        path = log_in(folder, file)
        if path is not None:
            log, report = read_log(path)
            found[name] = StudyLog(prepare_log(log), report.checksum)
    if len(found) < fewest:
        files = ", ".join(f"{file}.swf.gz" for file in LOGS.values())
        raise ConfigurationError(
            f"{folder} holds {len(found)} of {files}: give the directory of {fewest} of them "
            "at least, which are at the Parallel Workloads Archive."
        )
    return found
