"""Dumps of Slurm's `sacct -P`: with a header line, or in the form that XDMoD asks sites for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import polars as pl

from slurm_rl_plugin.accounting.log_file import LogFile, read_ahead
from slurm_rl_plugin.accounting.log_reader import AccountingReader
from slurm_rl_plugin.accounting.sacct.batches import MOST_LINES, Batch, cutter_of, mark_of
from slurm_rl_plugin.accounting.sacct.fields import (
    REQUIRED,
    SACCT_COMMAND,
    SEPARATOR,
    STRICT,
    XDMOD_FIELDS,
)
from slurm_rl_plugin.accounting.sacct.judgement import RecordJudge
from slurm_rl_plugin.accounting.sacct.layout import Layout
from slurm_rl_plugin.errors import AccountingLogError

_FIELD_NAME = re.compile(r"[a-z_]+(%-?\d+)?", re.ASCII)


class SacctReader(AccountingReader):
    """Reads what `sacct -P` prints; local times are taken as UTC.

    Job steps are skipped: their job's row has all we need. The checksum of a dump with a mark is
    that of its text without the mark: a second query for the same jobs draws another mark.
    """

    kind = "sacct"

    def __init__(self) -> None:
        super().__init__()
        self._judge = RecordJudge(self.tally)

    def jobs(self, log: LogFile) -> Iterator[pl.DataFrame]:
        """The jobs of a dump; a fault says which `sacct` line prints all fields."""
        lines = plain_lines(log.head())
        layout = recognise(log, lines)
        judge, before = self._judge, self._judge.records
        for batch in read_ahead(_cut(log, layout)):
            yield judge.jobs(batch, layout)
        if judge.records == before:
            raise _no_record(log, lines, layout)


def _cut(log: LogFile, layout: Layout) -> Iterator[Batch]:
    cutter, mark, unmarked = cutter_of(layout), layout.mark.encode(), hashlib.sha256()
    for data in read_ahead(log.batches()):
        if mark:
            unmarked.update(data.replace(mark, b""))
        yield cutter.cut(data)
    yield cutter.cut(b"", last=True)
    if mark:
        log.checksum = unmarked.hexdigest()


def plain_lines(content: bytes) -> list[str]:
    """The lines of a dump, broken letters marked, Windows' line ends made plain."""
    return content.decode("utf-8", errors="replace").replace("\r\n", "\n").split("\n")


def recognise(log: LogFile, lines: list[str]) -> Layout:
    """Which fields a dump holds."""
    # a line of separators of ASCII's own (FS to US) is blank to str, but not to the file's check
    position, first = next(((i, line) for i, line in enumerate(lines) if line.strip()), (0, ""))
    names = [name.strip().lower() for name in first.split(SEPARATOR)]
    trailing = names[-1] == ""
    named = names[:-1] if trailing else names
    if all(_FIELD_NAME.fullmatch(name) for name in named) and set(named) & set(STRICT):
        plain = tuple(name.partition("%")[0] for name in named)
        record = next((line for line in lines[position + 1 :] if line.strip()), "")
        layout = Layout(plain, trailing, first, "" if trailing else mark_of(plain, record))
        _check_required(log, layout, position + 1)
        return layout
    for candidate in (Layout(XDMOD_FIELDS, trailing=True), Layout(XDMOD_FIELDS, trailing=False)):
        head = [line for line in lines[position:] if line.strip()][:MOST_LINES]
        if any(candidate.cut(line) for line in head):
            return candidate
    raise log.fault(
        "this is no dump of `sacct -P` with a header line, nor one of XDMoD's 26 fields without; "
        f"export it again with `{SACCT_COMMAND}`"
    )


def _check_required(log: LogFile, layout: Layout, line: int) -> None:
    missing = [name for name, any_of in REQUIRED.items() if not layout.column.keys() & {*any_of}]
    if missing:
        problem = f"is not in the header; export the log again with `{SACCT_COMMAND}`"
        raise log.fault(problem, line=line, field=", ".join(missing))


def _no_record(log: LogFile, lines: list[str], layout: Layout) -> AccountingLogError:
    """The error of a dump in which no line is a record."""
    for number, line in enumerate(() if layout.mark else lines, start=1):
        if not line.strip() or line == layout.header:
            continue
        odd = layout.odd_field(line)
        if odd is not None and line.count(SEPARATOR) + 1 >= len(layout.names):
            problem = f"{odd[1]!r} is not what sacct prints; export the log with `{SACCT_COMMAND}`"
            return log.fault(problem, line=number, field=odd[0])
    return log.fault(f"the dump holds no whole job record; export it with `{SACCT_COMMAND}`")
