"""Picks the reader of an accounting log by what the file holds, not by its name."""

from __future__ import annotations

import re
from pathlib import Path

from slurm_rl_plugin.accounting.log_file import LogFile, read_log_file
from slurm_rl_plugin.accounting.port import JobLog, ReadReport

_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?", re.ASCII)


def read_log(path: Path) -> tuple[JobLog, ReadReport]:
    """Read an accounting log of any format that we know, gzipped or plain.

    Raises:
        AccountingLogError: the file cannot be opened, its format is unknown, or its reader
            refuses it.
    """
    log = read_log_file(path)
    first = _first_line(log)
    if first.startswith(";") or _is_swf_row(first):
        from slurm_rl_plugin.accounting.swf import SwfReader  # noqa: PLC0415

        return SwfReader().parse(log)
    if "|" in first:
        from slurm_rl_plugin.accounting.sacct import SacctReader  # noqa: PLC0415

        return SacctReader().parse(log)
    raise log.fault(
        "this is neither a workload log in SWF nor a dump of `sacct -P`; give one of these"
    )


def _first_line(log: LogFile) -> str:
    start = log.content.lstrip()
    return start.partition(b"\n")[0].decode(errors="replace").strip()


def _is_swf_row(line: str) -> bool:
    words = line.split()
    numbers = [word for word in words if _NUMBER.fullmatch(word)]
    # A row with a faulty word or a missing column is still SWF: its reader can name the fault.
    return words[:1] == numbers[:1] and (len(words) == 18 or len(words) == len(numbers))
