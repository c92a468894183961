"""Schedules as files: SWF for other simulators, and a table with every measure of every job."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.evaluation.named_log import NamedLog
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.summary import JobMeasures, ScheduledJobs
from slurm_rl_plugin.whole_file import write_whole

#: Columns of the table, in this order; docs/research/researchers.md names them.
COLUMNS = (
    *("job_id", "submit", "eligible", "start", "end", "wait", "run_time", "processors"),
    *("account", "user", "class"),
    *("bounded_slowdown", "responsiveness", "time_utility", "fairness"),
)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 80


def export_schedules(
    folder: Path, log: NamedLog, schedules: Mapping[str, ScheduledJobs], system: str
) -> list[str]:
    """Two files for each policy; the header of the SWF file says where it comes from."""
    source = f"log {log.name}, sha256 {log.report.checksum or 'none: generated'}"
    note = "Waits are simulated; the log's own notices apply to its jobs"
    if log.prepared.eligible_after is not None:
        note += "; a submit is the time at which the job was eligible"
    paths: list[Path] = []
    for name, (policy, schedule) in zip(
        file_names(list(schedules)), schedules.items(), strict=True
    ):
        comments = [f"slurm-rl evaluate --policy {policy} {system}", source, note]
        paths += export_schedule(folder, name, log.prepared, schedule, comments)
    return [str(path) for path in paths]


def export_schedule(
    folder: Path, name: str, prepared: PreparedLog, schedule: ScheduledJobs, comments: Sequence[str]
) -> list[Path]:
    """Write NAME.swf, whose waits are those of the schedule, and NAME.csv, each whole."""
    log = replace(prepared.log, start=schedule.start, processors_available=prepared.capacity)
    paths = [folder / f"{name}.swf", folder / f"{name}.csv"]
    write_swf(paths[0], log, comments=comments)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(zip(*_columns(prepared, schedule), strict=True))
    try:  # names may hold half characters
        write_whole(paths[1], text.getvalue().encode(errors="replace").decode())
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
