"""The logs of the held-out study, and what is to be reached on each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.papers.study.archived_logs import log_in
from slurm_rl_plugin.papers.study.verdicts import Goal
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log

#: Name -> file of the Parallel Workloads Archive; logs of parallel machines with user estimates.
LOGS: Mapping[str, str] = {
    "SDSC-SP2": "SDSC-SP2-1998-4.2-cln",
    "HPC2N": "HPC2N-2002-2.2-cln",
    "CTC-SP2": "CTC-SP2-1996-3.1-cln",
}
#: Fewer logs than this leave nothing to train on where one is left out.
FEWEST_LOGS = 2

WITHOUT, TUNED, HOLDING = "trained without the log", "fine-tuned", "fine-tuned, holding"
FITTED = "fitted Q, without the log"
UNSEARCHED, TAIL_SAFE = "live WSPT, nothing searched", "fine-tuned, tail-safe"
TO_BEST, TO_MULTIFACTOR = "slowdown / best rule's", "slowdown / multifactor's"
SHORT_GAIN = "short jobs within 120 s less multifactor's (points)"
LONGEST = "longest wait / multifactor's"
FAIRNESS_GAIN = "F less multifactor's"


def _goals(without: str, tuned: str, to_multifactor: str) -> Sequence[Goal]:
    return (
        Goal(WITHOUT, TO_BEST, without, least=False),
        Goal(TUNED, TO_BEST, tuned, least=False),
        Goal(HOLDING, TO_BEST, tuned, least=False),
        Goal(TUNED, TO_MULTIFACTOR, to_multifactor, least=False),
        Goal(TAIL_SAFE, LONGEST, "1.1", least=False),
        Goal(TUNED, FAIRNESS_GAIN, "0"),
    )


#: Log -> goals; a log that is not named here has none.
GOALS: Mapping[str, Sequence[Goal]] = {
    "SDSC-SP2": (*_goals("1.00", ".90", ".70"), Goal(HOLDING, SHORT_GAIN, "10")),
    "HPC2N": _goals(".90", ".75", ".70"),
    "CTC-SP2": (
        *_goals(".90", ".85", ".55"),
        Goal(TUNED, SHORT_GAIN, "10"),
        Goal(HOLDING, SHORT_GAIN, "10"),
    ),
}
COLUMNS = (TO_BEST, TO_MULTIFACTOR, SHORT_GAIN, LONGEST, FAIRNESS_GAIN)


class StudyLog(NamedTuple):
    """A log of the study and the checksum of its file."""

    prepared: PreparedLog
    checksum: str


def read_study_logs(folder: Path) -> dict[str, StudyLog]:
    """Those of LOGS that a folder holds, under their names.

    Raises:
        ConfigurationError: fewer than FEWEST_LOGS are there.
        AccountingLogError: one cannot be read.
    """
    found = {}
    for name, file in LOGS.items():
        path = log_in(folder, file)
        if path is not None:
            log, report = read_log(path)
            found[name] = StudyLog(prepare_log(log), report.checksum)
    if len(found) < FEWEST_LOGS:
        files = ", ".join(f"{file}.swf.gz" for file in LOGS.values())
        raise ConfigurationError(
            f"{folder} holds {len(found)} of {files}: give the directory of {FEWEST_LOGS} of them "
            "at least, which are at the Parallel Workloads Archive."
        )
    return found
