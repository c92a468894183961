"""Schedules as files: SWF for other simulators, and a table with every measure of every job."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.summary import JobMeasures, ScheduledJobs
from slurm_rl_plugin.whole_file import write_whole

#: Columns of the table, in this order; docs/researchers.md names them.
COLUMNS = (
    *("job_id", "submit", "eligible", "start", "end", "wait", "run_time", "processors"),
    *("account", "user", "class"),
    *("bounded_slowdown", "responsiveness", "time_utility", "fairness"),
)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 80


def export_schedule(
    folder: Path,
    name: str,
    prepared: PreparedLog,
    schedule: ScheduledJobs,
    comments: Sequence[str],
) -> list[Path]:
    """Write NAME.swf, whose waits are those of the schedule, and NAME.csv.

    Args:
        folder: an existing one; files of these names are replaced whole.
        name: of both files, without an ending; see `file_names`.
        prepared: the log.
        schedule: its jobs with the starts that a policy gave them.
        comments: header of the SWF file: where the schedule comes from.

    Raises:
        AccountingLogError: the SWF file cannot be written.
        ConfigurationError: the CSV file cannot be written.
    """
    log = replace(prepared.log, start=schedule.start, processors_available=prepared.capacity)
    paths = [folder / f"{name}.swf", folder / f"{name}.csv"]
    write_swf(paths[0], log, comments=comments)
    try:
        write_whole(paths[1], _table(prepared, schedule))
    except OSError as error:
        raise ConfigurationError(
            f"{paths[1]} cannot be written ({error.strerror}): name another folder."
        ) from None
    return paths


def file_names(policies: Sequence[str]) -> list[str]:
    """A file name without ending for each policy: its last part, safe on every file system.

    Two policies never share a name, not even where letter case does not count.
    """
    names: list[str] = []
    taken: set[str] = set()
    for policy in policies:
        plain = _UNSAFE.sub("_", Path(policy).name.removesuffix(".onnx"))[:_LONGEST_NAME]
        first = name = plain.strip("._-") or "policy"
        number = 2
        while name.lower() in taken:
            name, number = f"{first}-{number}", number + 1
        taken.add(name.lower())
        names.append(name)
    return names


def _table(prepared: PreparedLog, schedule: ScheduledJobs) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(zip(*_columns(prepared, schedule), strict=True))
    return text.getvalue().encode(errors="replace").decode()  # names may hold half characters


def _columns(prepared: PreparedLog, schedule: ScheduledJobs) -> Iterator[Sequence[object]]:
    log = prepared.log
    measures = JobMeasures.of(schedule)
    later = prepared.eligible_after
    yield log.job_id.tolist()
    yield _numbers(log.submit if later is None else log.submit - later)
    yield _numbers(log.eligible)
    yield _numbers(schedule.start)
    yield _numbers(schedule.start + log.run_time)
    yield _numbers(measures.wait)
    yield _numbers(log.run_time)
    yield log.processors.tolist()
    yield [log.accounts[account] for account in log.account.tolist()]
    yield [log.users[user] for user in log.user.tolist()]
    yield np.where(prepared.interactive, "interactive", "batch").tolist()
    yield _numbers(measures.bounded_slowdown)
    yield _numbers(measures.responsiveness)
    yield _numbers(measures.time_utility)
    yield _numbers(measures.fairness)


def _numbers(values: FloatArray) -> list[float | int]:
    """Whole numbers without a point, others with every digit."""
    return [int(value) if value.is_integer() else value for value in values.tolist()]
