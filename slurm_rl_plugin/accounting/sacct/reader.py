"""Dumps of Slurm's `sacct -P`: with a header line, or in the form that XDMoD asks sites for."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slurm_rl_plugin.accounting.log_file import LogFile, read_ahead
from slurm_rl_plugin.accounting.log_reader import AccountingReader
from slurm_rl_plugin.accounting.sacct.batches import (
    MOST_LINES,
    Batch,
    MarkedCutter,
    RecordCutter,
    counts,
    mark_of,
    of_each,
    times,
    value_of,
)
from slurm_rl_plugin.accounting.sacct.fields import (
    REQUIRED,
    SACCT_COMMAND,
    SEPARATOR,
    STRICT,
    UNFINISHED,
    XDMOD_FIELDS,
    Layout,
    parse_duration,
)
from slurm_rl_plugin.accounting.sacct.requests import request_columns, unread_requests
from slurm_rl_plugin.domain.job_class import words_for_us
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import BoolArray, FloatArray

_TWICE = "duplicate record"
#: Of a dump without marks: a line break in the text of a job may begin what looks like another's.
_FORGEABLE = "the text of another job could have forged it"
_QUOTED = "row within the text of a job"
_NAMES = {
    "account": "account",
    "user": "user",
    "partition": "partition",
    "qos": "qos",
    "job_name": "jobname",
    "submit_line": "submitline",
}
_FIELD_NAME = re.compile(r"[a-z_]+(%-?\d+)?", re.ASCII)


class SeenRecords:
    """Digests of all records so far, in sorted stretches of growing length.

    64 bits stand for a record, by a key that is drawn anew each time, so that no text can be made
    to pass for another: two of 100 million records share theirs with a chance of 1 in 3,700.
    """

    def __init__(self) -> None:
        self.key = secrets.randbits(64)
        self._stretches: list[NDArray[np.uint64]] = []

    def seen_before(self, digests: NDArray[np.uint64]) -> BoolArray:
        """Whether each record was there before, in this batch or an earlier one; remembers them."""
        order = np.argsort(digests, kind="stable")
        ordered = digests[order]
        same = np.append(False, ordered[1:] == ordered[:-1])[: len(ordered)]
        for stretch in self._stretches:
            at = np.searchsorted(stretch, ordered)
            same |= stretch[np.minimum(at, len(stretch) - 1)] == ordered
        before = np.empty(len(order), dtype=np.bool_)
        before[order] = same
        while self._stretches and len(self._stretches[-1]) <= len(ordered):
            ordered = np.sort(np.append(self._stretches.pop(), ordered), kind="stable")
        if len(ordered):
            self._stretches.append(ordered)
        return before


class _Columns:
    """Records as columns of numbers."""

    def __init__(self, fields: pl.DataFrame, layout: Layout) -> None:
        def given(*names: str) -> pl.Series:
            return value_of(fields, layout, *names)

        self._fields, self._given = fields, given
        self.submit, self.start, self.end, self.eligible = (
            times(given(name)) for name in ("submit", "start", "end", "eligible")
        )
        run_time = _filled_by(counts(given("elapsedraw")), given("elapsed"))
        self.run_time = np.where(np.isnan(run_time), self.end - self.start, run_time)
        self.processors = counts(given("ncpus", "alloccpus", "reqcpus"))

    def reasons(self) -> list[tuple[str, BoolArray]]:
        """Why there is no job; of several reasons the first counts."""
        state = self._given("state").str.extract("^([A-Z_]+)")
        runs = state.is_in(UNFINISHED).fill_null(False).to_numpy()
        return [
            ("not finished", runs),
            ("no submit time", np.isnan(self.submit)),
            ("never ran", np.isnan(self.start)),
            ("end before start", self.end < self.start),
            ("negative run time", self.run_time < 0),
            ("not finished", np.isnan(self.run_time)),
            ("never ran", self.run_time == 0),
            ("start before submit", self.start < self.submit),
            ("no processors", ~(self.processors > 0)),
        ]

    def oddities(self) -> list[tuple[str, BoolArray]]:
        """What is odd of records that are kept all the same."""
        outside = (self.eligible < self.submit) | (self.eligible > self.start)
        unlike = np.abs(self.end - self.start - self.run_time) > 1
        return [
            ("eligible outside submit to start", outside),
            ("elapsed is not end minus start", unlike),
        ]

    def frame(self, layout: Layout, kept: BoolArray) -> pl.DataFrame:
        """The jobs as they are stored."""
        fields, given = self._fields, self._given
        submit, eligible, start = self.submit, self.eligible, self.start
        within = (submit <= eligible) & (eligible <= start)
        limit = _filled_by(60.0 * counts(given("timelimitraw")), given("timelimit"))
        columns = {
            "job_id": given("jobidraw", "jobid").str.extract(r"^([0-9]+)").cast(pl.Int64),
            "submit": submit,
            "eligible": np.where(within, eligible, submit),
            "start": start,
            "run_time": self.run_time,
            "processors": self.processors,
            "time_limit": np.where(limit > 0, limit, np.nan),
        }
        names = {name: given(field) for name, field in _NAMES.items()}
        names["submit_line"] = _with_words(names["submit_line"], given("comment"))
        asked = request_columns(fields, layout, self.processors)
        jobs = pl.DataFrame({**columns, **names, **asked}).filter(kept)
        return jobs.with_columns(pl.col("processors").cast(pl.Int64))


def _with_words(lines: pl.Series, comments: pl.Series) -> pl.Series:
    """Submit lines, with what users wrote for us in comments that scripts or updates gave jobs."""
    words = [words_for_us(text) if "slurm-rl:" in text else "" for text in comments.to_list()]
    pairs = zip(lines.to_list(), words, strict=True)
    given = [f"{line} --comment={word}" if word else line for line, word in pairs]
    return pl.Series(given, dtype=pl.String)


def _filled_by(values: FloatArray, durations: pl.Series) -> FloatArray:
    """Values, and where there is none what a duration says."""
    absent = np.isnan(values)
    if absent.any():
        values = values.copy()
        values[absent] = of_each(durations.filter(absent), parse_duration, np.float64)
    return values


class SacctReader(AccountingReader):
    """Reads what `sacct -P` prints; local times are taken as UTC.

    Job steps are skipped: their job's row has all we need. The checksum of a dump with a mark is
    that of its text without the mark: a second query for the same jobs draws another mark.
    """

    kind = "sacct"

    def __init__(self) -> None:
        super().__init__()
        self._records = 0  # whole ones so far
        self._seen = SeenRecords()

    def jobs(self, log: LogFile) -> Iterator[pl.DataFrame]:
        """The jobs of a dump; a fault says which `sacct` line prints all fields."""
        lines = plain_lines(log.head())
        layout = recognise(log, lines)
        before = self._records
        for batch in read_ahead(_cut(log, layout)):
            yield self._jobs(batch, layout)
        if self._records == before:
            raise _no_record(log, lines, layout)

    def _jobs(self, batch: Batch, layout: Layout) -> pl.DataFrame:
        """The jobs among records, in the order of the dump; columns as in `stored.log`."""
        fields, tally = batch.fields, self.tally
        if (np.diff(batch.places) < 0).any():
            fields = fields[np.argsort(batch.places)]
        steps = value_of(fields, layout, "jobid", "jobidraw").str.contains(".", literal=True)
        if steps.any():
            fields = fields.filter(~steps)
        rows = _Columns(fields, layout)
        known = self._seen.seen_before(fields.hash_rows(self._seen.key).to_numpy())
        kept = tally.sift([(_TWICE, known), *rows.reasons()], fields.height)
        tally.dropped.update(batch.lost.values())
        tally.read += len(batch.lost)
        self._records += fields.height
        tally.keep(rows.submit[kept])
        for oddity, shown in (*rows.oddities(), *unread_requests(fields, layout)):
            tally.noticed[oddity] += int(np.count_nonzero(shown & kept))
        if layout.free and not layout.mark:
            tally.noticed[_FORGEABLE] += int(np.count_nonzero(kept))
        tally.noticed[_QUOTED] += batch.quoted
        return rows.frame(layout, kept)


def _cut(log: LogFile, layout: Layout) -> Iterator[Batch]:
    cutter = MarkedCutter(layout) if layout.mark else RecordCutter(layout)
    mark, unmarked = layout.mark.encode(), hashlib.sha256()
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
        there = layout.column.keys()
        if missing := [name for name, any_of in REQUIRED.items() if not there & {*any_of}]:
            problem = f"is not in the header; export the log again with `{SACCT_COMMAND}`"
            raise log.fault(problem, line=position + 1, field=", ".join(missing))
        return layout
    for candidate in (Layout(XDMOD_FIELDS, trailing=True), Layout(XDMOD_FIELDS, trailing=False)):
        head = [line for line in lines[position:] if line.strip()][:MOST_LINES]
        if any(candidate.cut(line) for line in head):
            return candidate
    raise log.fault(
        "this is no dump of `sacct -P` with a header line, nor one of XDMoD's 26 fields without; "
        f"export it again with `{SACCT_COMMAND}`"
    )


def _no_record(log: LogFile, lines: list[str], layout: Layout) -> AccountingLogError:
    for number, line in enumerate(() if layout.mark else lines, start=1):
        if not line.strip() or line == layout.header:
            continue
        odd = layout.odd_field(line)
        if odd is not None and line.count(SEPARATOR) + 1 >= len(layout.names):
            problem = f"{odd[1]!r} is not what sacct prints; export the log with `{SACCT_COMMAND}`"
            return log.fault(problem, line=number, field=odd[0])
    return log.fault(f"the dump holds no whole job record; export it with `{SACCT_COMMAND}`")
