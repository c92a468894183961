"""The logs of parallel machines with user estimates, which several studies go through."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.papers.study.archived_logs import log_in
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log

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
    """Those of LOGS that a folder holds, under their names.

    Args:
        folder: of traces.
        fewest: that the study can do with.

    Raises:
        ConfigurationError: fewer are there.
        AccountingLogError: one cannot be read.
    """
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
