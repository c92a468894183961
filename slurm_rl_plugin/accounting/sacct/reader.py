"""Dumps of Slurm's `sacct -P`: with a header line, or in the form that XDMoD asks sites for."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.log_file import LogFile, read_ahead
from slurm_rl_plugin.accounting.log_reader import AccountingReader
from slurm_rl_plugin.accounting.sacct.batches import (
    MOST_LINES,
    Batch,
    MarkedCutter,
    RecordCutter,
    counts,
    mark_of,
    numbers,
    of_each,
    times,
    value_of,
)
from slurm_rl_plugin.accounting.sacct.fields import (
    REQUIRED,
    SACCT_COMMAND,
    SEPARATOR,
    STRICT,
    XDMOD_FIELDS,
    Layout,
    is_unfinished,
    parse_duration,
)
from slurm_rl_plugin.accounting.sacct.requests import request_columns, unread_requests
from slurm_rl_plugin.domain.job_class import words_for_us
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

_SEEDS = (1, 2)
_TWICE = "duplicate record"
#: Of a dump without marks: a line break in the text of a job may begin what looks like another's.
_FORGEABLE = "the text of another job could have forged it"
_QUOTED = "row within the text of a job"
#: Places of the first table, and how many there are at least for each record.
_PLACES = 1 << 16
_PLACES_A_RECORD = 4
#: The longest stretch: records, and a divisor of all; joining two takes three times their room.
_STRETCH, _STRETCHES = 1 << 20, 8
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

    Two numbers of 64 bits stand for a record: among 100 million, two different ones share both with
    a chance of 1 in 10^22. A table of the digests' first bits shows for most records that none like
    it was there, without a look into the stretches.
    """

    def __init__(self, stretch: int = _STRETCH) -> None:
        self._stretch = stretch
        self._stretches: list[tuple[np.ndarray, np.ndarray]] = []
        self._records = 0
        self._taken = np.zeros(_PLACES, dtype=np.bool_)

    def told_before(self, first: np.ndarray, second: np.ndarray, places: IntArray) -> BoolArray:
        """Whether each record was there before, in this batch or an earlier one; remembers them.

        A record has two digests, uint64[n] each; places give the order in the batch.
        """
        order = _order(first, second, places)
        one, other = first[order], second[order]
        same = np.zeros(len(order), dtype=np.bool_)
        same[1:] = (one[1:] == one[:-1]) & (other[1:] == other[:-1])
        perhaps = np.flatnonzero(self._taken[self._places_of(one)])
        same[perhaps] |= self._known(one[perhaps], other[perhaps])
        before = np.zeros(len(order), dtype=np.bool_)
        before[order] = same
        self._remember(one, other)
        return before

    def _known(self, first: np.ndarray, second: np.ndarray) -> BoolArray:
        known = np.zeros(len(first), dtype=np.bool_)
        for one, other in self._stretches:
            place = np.searchsorted(one, first)
            open_ones = np.flatnonzero(~known)
            while len(open_ones):
                at = place[open_ones]
                within = at < len(one)
                open_ones, at = open_ones[within], at[within]
                alike = one[at] == first[open_ones]
                open_ones, at = open_ones[alike], at[alike]
                known[open_ones] |= other[at] == second[open_ones]
                place[open_ones] += 1
        return known

    def _remember(self, first: np.ndarray, second: np.ndarray) -> None:
        """Keep digests, the first ones in order."""
        if not len(first):
            return
        self._stretches.append((first, second))
        self._merge()
        self._records += len(first)
        if self._records * _PLACES_A_RECORD > len(self._taken):
            places = len(self._taken)
            while places < self._records * _PLACES_A_RECORD:
                places *= 2
            self._taken = np.zeros(places, dtype=np.bool_)
            for each, _ in self._stretches:
                self._taken[self._places_of(each)] = True
        else:
            self._taken[self._places_of(first)] = True

    def _places_of(self, first: np.ndarray) -> np.ndarray:
        """Where in the table digests have their place: in their own order."""
        bits = len(self._taken).bit_length() - 1
        return first >> np.uint64(64 - bits)

    def _merge(self) -> None:
        """Join stretches so that each is longer than the next: few to look into, few to sort.

        Those of the longest length stay as they are.
        """
        longest = max(self._stretch, self._records // _STRETCHES)
        while len(self._stretches) > 1:
            (one, other), (more, others) = self._stretches[-2:]
            if not len(one) <= len(more) <= longest // 2:
                break
            first, second = np.concatenate([one, more]), np.concatenate([other, others])
            order = np.argsort(first, kind="stable")
            self._stretches[-2:] = [(first[order], second[order])]


def _order(first: np.ndarray, second: np.ndarray, places: IntArray) -> IntArray:
    """By all three; few share the first, and numpy's order of three keys takes far longer."""
    order = np.argsort(first)
    same = np.diff(first[order]) == 0
    shared = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if len(shared):
        rows = order[shared]
        order[shared] = rows[np.lexsort((places[rows], second[rows], first[rows]))]
    return order


def _count(counts: Counter[str], found: Iterable[tuple[str, IntArray]]) -> None:
    """Add to counts what was found at places, first what the log shows first."""
    shown = [(name, places) for name, places in found if len(places)]
    for name, places in sorted(shown, key=lambda each: int(each[1].min())):
        counts[name] += len(places)


class _Columns:
    """Records as columns of numbers."""

    def __init__(self, fields: pl.DataFrame, layout: Layout) -> None:
        def told(*names: str) -> pl.Series:
            return value_of(fields, layout, *names)

        self._fields, self._told = fields, told
        self.submit, self.start, self.end, self.eligible = (
            times(fields, told(name)) for name in ("submit", "start", "end", "eligible")
        )
        run_time = _filled_by(counts(fields, told("elapsedraw")), told("elapsed"))
        self.run_time = np.where(np.isnan(run_time), self.end - self.start, run_time)
        self.processors = counts(fields, told("ncpus", "alloccpus", "reqcpus"))

    def reasons(self) -> list[tuple[str, BoolArray]]:
        """Why there is no job; of several reasons the first counts."""
        runs = of_each(
            self._told("state"),
            lambda state: is_unfinished(state.partition(" ")[0].rstrip("+")),
            np.bool_,
        )
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

    def frame(self, layout: Layout, kept: BoolArray) -> pl.DataFrame:
        """The jobs as they are stored."""
        fields, told = self._fields, self._told
        submit, eligible, start = self.submit, self.eligible, self.start
        within = (submit <= eligible) & (eligible <= start)
        job_ids = told("jobidraw", "jobid")
        job_id = numbers(fields, job_ids).copy()
        odd = kept & (job_id < 0)
        if odd.any():
            first = job_ids.filter(odd).str.extract(r"^([0-9]+)").cast(pl.Int64)
            job_id[odd] = first.to_numpy()
        limit = _filled_by(60.0 * counts(fields, told("timelimitraw")), told("timelimit"))
        columns = {
            "job_id": job_id,
            "submit": submit,
            "eligible": np.where(within, eligible, submit),
            "start": start,
            "run_time": self.run_time,
            "processors": self.processors,
            "time_limit": np.where(limit > 0, limit, np.nan),
        }
        names = {name: told(field) for name, field in _NAMES.items()}
        names["submit_line"] = _with_words(names["submit_line"], told("comment"))
        asked = request_columns(fields, layout, self.processors)
        jobs = pl.DataFrame({**columns, **names, **asked}).filter(kept)
        return jobs.with_columns(pl.col("processors").cast(pl.Int64))


def _with_words(lines: pl.Series, comments: pl.Series) -> pl.Series:
    """Submit lines, with what users wrote for us in comments that scripts or updates gave jobs."""
    words = [words_for_us(text) if "slurm-rl:" in text else "" for text in comments.to_list()]
    pairs = zip(lines.to_list(), words, strict=True)
    told = [f"{line} --comment={word}" if word else line for line, word in pairs]
    return pl.Series(told, dtype=pl.String)


def _filled_by(values: FloatArray, durations: pl.Series) -> FloatArray:
    """Values, and where there is none what a duration says."""
    absent = np.isnan(values)
    if absent.any():
        values = values.copy()
        values[absent] = of_each(durations.filter(absent), parse_duration, np.float64)
    return values


class SacctReader(AccountingReader):
    """Reads what `sacct -P` prints; local times are taken as UTC.

    Job steps are skipped: their job's row has all we need. Reasons and oddities are counted in the
    order in which the log shows the first of each. The checksum of a dump with a mark is that of
    its text without the mark: a second query for the same jobs draws another mark.
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
        fields, places = batch.fields, batch.places
        steps = value_of(fields, layout, "jobid", "jobidraw").str.contains(".", literal=True)
        if steps.any():
            fields, places = fields.filter(~steps), places[~steps.to_numpy()]
        rows = _Columns(fields, layout)
        reasons = [(_TWICE, self._told_before(fields, places, layout)), *rows.reasons()]
        lost: dict[str, list[int]] = {}
        for place, reason in batch.lost.items():
            lost.setdefault(reason, []).append(place)
        dropped = [(reason, np.array(found, dtype=np.int64)) for reason, found in lost.items()]
        self._records += fields.height
        self.tally.read += fields.height + len(batch.lost)
        kept = np.ones(fields.height, dtype=np.bool_)
        for reason, at_fault in reasons:
            dropped.append((reason, places[kept & at_fault]))
            kept &= ~at_fault
        _count(self.tally.dropped, dropped)
        self._notice(rows, kept, places[kept], unread_requests(fields, layout))
        count, noticed = int(np.count_nonzero(kept)), self.tally.noticed
        if layout.free and not layout.mark and count:
            noticed[_FORGEABLE] += count
        if batch.quoted:
            noticed[_QUOTED] += batch.quoted
        self.tally.kept += count
        found, order = rows.frame(layout, kept), np.argsort(places[kept])
        return found if (np.diff(order) > 0).all() else found[order]

    def _told_before(self, fields: pl.DataFrame, places: IntArray, layout: Layout) -> BoolArray:
        # Records that differ, but in nothing that must be sound, are of one job: too few for the
        # first digest to take two of them for the same.
        texts = [str(place) for place in range(len(layout.names))]
        strict = [str(place) for place, _ in layout.strict]
        first = fields.select(texts).hash_rows(_SEEDS[0])
        second = fields.select(strict).hash_rows(_SEEDS[1])
        return self._seen.told_before(first.to_numpy(), second.to_numpy(), places)

    def _notice(
        self,
        rows: _Columns,
        kept: BoolArray,
        places: IntArray,
        unread: Iterable[tuple[str, BoolArray]],
    ) -> None:
        submit, start = rows.submit[kept], rows.start[kept]
        eligible, run_time = rows.eligible[kept], rows.run_time[kept]
        order = np.argsort(places)
        in_order = submit[order]
        outside = (eligible < submit) | (eligible > start)
        unlike = np.abs(rows.end[kept] - start - run_time) > 1
        backwards = np.diff(in_order, prepend=self.tally.last_submit) < 0
        found = (
            ("eligible outside submit to start", places[outside]),
            ("elapsed is not end minus start", places[unlike]),
            ("submit going backwards", places[order[backwards]]),
            *((oddity, places[there[kept]]) for oddity, there in unread),
        )
        _count(self.tally.noticed, found)
        if len(submit):
            self.tally.last_submit = float(in_order[-1])


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
    """The error of a dump in which no line is a record."""
    for number, line in enumerate(() if layout.mark else lines, start=1):
        if not line.strip() or line == layout.header:
            continue
        odd = layout.odd_field(line)
        if odd is not None and line.count(SEPARATOR) + 1 >= len(layout.names):
            problem = f"{odd[1]!r} is not what sacct prints; export the log with `{SACCT_COMMAND}`"
            return log.fault(problem, line=number, field=odd[0])
    return log.fault(f"the dump holds no whole job record; export it with `{SACCT_COMMAND}`")
