"""`slurm-rl audit`: what was decided and written, from the audit log and its rotated files."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from slurm_rl_plugin.cli.argument_types import add_time_options, at_least_one, job_numbers
from slurm_rl_plugin.cli.site_options import add_configuration_options, configuration_of
from slurm_rl_plugin.cli.tables import finite, print_parsable, slurm_time
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.audit.log import EVENTS, AuditFilter, AuditLine, AuditReader, audit_files
from slurm_rl_plugin.readable import printable

#: Columns and their widths; fixed, as the log may be longer than memory.
COLUMNS = {
    "TIME": 19,
    "EVENT": 11,
    "MODE": 8,
    "POLICY": 16,
    "MODEL": 8,
    "JOB": 10,
    "OLD": 11,
    "NEW": 11,
    "RANK": 6,
    "SCORE": 12,
    "REASON": 0,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which lines of the audit log are shown, by job, time and event, and in what form."""
    add_configuration_options(parser)
    parser.add_argument(
        *("-j", "--jobs"),
        type=job_numbers,
        default=frozenset(),
        metavar="LIST",
        help="only writes to these jobs and arrays",
    )
    add_time_options(parser, "now-2hours")
    parser.add_argument("--event", action="append", choices=EVENTS, help="only these events")
    parser.add_argument(
        "-n", "--last", type=at_least_one, metavar="N", help="only the last N lines"
    )
    parser.add_argument("--noheader", action="store_true", help="print no header")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--parsable2", action="store_true", help="separate fields by |")
    form.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Filter and print, a line at a time."""
    path = configuration_of(options).sections.hook.audit_file
    if not path:
        raise ConfigurationError("no audit log is kept: give its path in [hook] audit_file.")
    reader = AuditReader(audit_files(Path(path)))
    wanted = AuditFilter(
        jobs=options.jobs,
        events=frozenset(options.event or ()),
        since=-math.inf if options.since is None else options.since,
        until=math.inf if options.until is None else options.until,
    )
    lines: Iterable[AuditLine] = reader.lines(wanted)
    if options.last is not None:
        lines = deque(lines, maxlen=options.last)
    if options.json:
        _print_json(lines, reader)
    else:
        _print_rows(lines, options)
    bad = [f"{reader.bad} lines are no lines of an audit log: left out."] if reader.bad else []
    for sentence in (*bad, *reader.unread):
        sys.stderr.write(f"slurm-rl audit: {sentence}\n")
    return 1 if reader.unread else 0


def _print_rows(lines: Iterable[AuditLine], options: argparse.Namespace) -> None:
    header = None if options.noheader else list(COLUMNS)
    if options.parsable2:
        print_parsable(header, map(_cells, lines))
        return
    if header is not None:
        _print_padded(header)
    for line in lines:
        _print_padded(["-" if cell is None else str(cell) for cell in _cells(line)])


def _print_padded(cells: list[str]) -> None:
    padded = (
        printable(cell).ljust(width) for cell, width in zip(cells, COLUMNS.values(), strict=True)
    )
    sys.stdout.write(" ".join(padded).rstrip() + "\n")


def _cells(line: AuditLine) -> list[Any]:
    """A cycle shows its jobs instead of one; ranks count from 1, as in `slurm-rl queue`."""
    rank, score = line.get("rank"), line.get("score")
    cycle = line["event"] == "cycle"
    return [
        slurm_time(float(line["time"])),
        line["event"],
        line.get("mode"),
        line.get("policy"),
        str(line.get("model") or "")[:8] or None,
        f"({line.get('jobs')} jobs)" if cycle else line.get("job"),
        line.get("old"),
        line.get("new"),
        rank + 1 if isinstance(rank, int) else None,
        f"{score:.6g}" if isinstance(score, float) else score,
        line.get("reason"),
    ]


def _print_json(lines: Iterable[AuditLine], reader: AuditReader) -> None:
    """One document, written as it is read; the faults are known at its end."""
    sys.stdout.write('{"lines": [')
    for number, line in enumerate(lines):
        sys.stdout.write((",\n  " if number else "\n  ") + json.dumps(finite(line)))
    rest = {"bad_lines": reader.bad, "unread": reader.unread}
    sys.stdout.write("\n], " + json.dumps(rest)[1:] + "\n")
