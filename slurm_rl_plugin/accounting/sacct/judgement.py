"""What `sacct.SacctReader` says of one record, said of a batch of them at once."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.sacct.fields import is_unfinished, parse_duration
from slurm_rl_plugin.accounting.sacct.layout import Layout
from slurm_rl_plugin.accounting.sacct.values import counts, numbers, of_each, times
from slurm_rl_plugin.accounting.seen_records import SeenRecords
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

_SEEDS = (1, 2)
_NAMES = {
    "account": "account",
    "user": "user",
    "partition": "partition",
    "qos": "qos",
    "job_name": "jobname",
    "submit_line": "submitline",
}


class RecordJudge:
    """Sorts records into jobs and reasons, as `sacct` does; remembers what it has seen.

    Attributes:
        dropped: reason -> records.
        noticed: oddity -> jobs.
        kept: jobs.
    """

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        self.noticed: Counter[str] = Counter()
        self.kept = 0
        self._seen = SeenRecords()
        self._last_submit = -np.inf

    def jobs(self, fields: pl.DataFrame, places: IntArray, layout: Layout) -> pl.DataFrame:
        """The jobs among records; columns as in `stored.log.COLUMNS`, and `place`."""
        whose = _value(fields, layout, "jobid", "jobidraw")
        steps = whose.str.contains(".", literal=True).to_numpy()
        if steps.any():
            fields, places = fields.filter(~steps), places[~steps]
        rows = _Columns(fields, layout)
        reasons = {"duplicate record": self._told_before(fields, places, layout), **rows.reasons()}
        kept = np.ones(fields.height, dtype=np.bool_)
        for reason, at_fault in reasons.items():
            if count := int(np.count_nonzero(kept & at_fault)):
                self.dropped[reason.strip()] += count
            kept &= ~at_fault
        self._notice(rows, kept, places[kept])
        self.kept += int(np.count_nonzero(kept))
        return rows.frame(kept).with_columns(pl.Series("place", places[kept]))

    def _told_before(self, fields: pl.DataFrame, places: IntArray, layout: Layout) -> BoolArray:
        # Records that differ, but in nothing that must be sound, are of one job: too few for the
        # first digest to take two of them for the same.
        texts = [str(place) for place in range(len(layout.names))]
        strict = [str(place) for place, _ in layout.strict]
        first = fields.select(texts).hash_rows(_SEEDS[0])
        second = fields.select(strict).hash_rows(_SEEDS[1])
        return self._seen.told_before(first.to_numpy(), second.to_numpy(), places)

    def _notice(self, rows: _Columns, kept: BoolArray, places: IntArray) -> None:
        submit, start = rows.submit[kept], rows.start[kept]
        eligible, run_time = rows.eligible[kept], rows.run_time[kept]
        in_order = submit[np.argsort(places)]
        found = {
            "eligible outside submit to start": (eligible < submit) | (eligible > start),
            "elapsed is not end minus start": np.abs(rows.end[kept] - start - run_time) > 1,
            "submit going backwards": np.diff(in_order, prepend=self._last_submit) < 0,
        }
        self.noticed.update({name: int(each.sum()) for name, each in found.items() if each.any()})
        if len(submit):
            self._last_submit = float(in_order[-1])


class _Columns:
    """Records as columns of numbers."""

    def __init__(self, fields: pl.DataFrame, layout: Layout) -> None:
        self._fields, self._layout = fields, layout
        told = (_value(fields, layout, name) for name in ("submit", "start", "end", "eligible"))
        self.submit, self.start, self.end, self.eligible = (times(fields, each) for each in told)
        self.run_time = self._run_times()
        self.processors = counts(fields, _value(fields, layout, "ncpus", "alloccpus", "reqcpus"))

    def reasons(self) -> dict[str, BoolArray]:
        """Why there is no job, the first that holds counts; a blank tells equal reasons apart."""
        state = _value(self._fields, self._layout, "state")
        return {
            "not finished": of_each(state, _waits_or_runs, np.bool_),
            "no submit time": np.isnan(self.submit),
            "never ran": np.isnan(self.start),
            "end before start": self.end < self.start,
            "negative run time": self.run_time < 0,
            "not finished ": np.isnan(self.run_time),
            "never ran ": self.run_time == 0,
            "start before submit": self.start < self.submit,
            "no processors": ~(self.processors > 0),
        }

    def frame(self, kept: BoolArray) -> pl.DataFrame:
        """The jobs as they are stored."""
        fields, layout = self._fields, self._layout
        submit, eligible, start = self.submit, self.eligible, self.start
        within = (submit <= eligible) & (eligible <= start)
        columns = {
            "job_id": _job_numbers(fields, _value(fields, layout, "jobidraw", "jobid"), kept),
            "submit": submit,
            "eligible": np.where(within, eligible, submit),
            "start": start,
            "run_time": self.run_time,
            "processors": self.processors,
            "time_limit": _time_limits(fields, layout),
        }
        names = {name: _value(fields, layout, field) for name, field in _NAMES.items()}
        jobs = pl.DataFrame({**columns, **names}).filter(kept)
        return jobs.with_columns(pl.col("processors").cast(pl.Int64))

    def _run_times(self) -> FloatArray:
        told = counts(self._fields, _value(self._fields, self._layout, "elapsedraw"))
        return _filled(
            _filled_by(told, _value(self._fields, self._layout, "elapsed")), self.end - self.start
        )


def _waits_or_runs(state: str) -> bool:
    return is_unfinished(state.partition(" ")[0].rstrip("+"))


def _filled(values: FloatArray, others: FloatArray) -> FloatArray:
    return np.where(np.isnan(values), others, values)


def _filled_by(values: FloatArray, durations: pl.Series) -> FloatArray:
    """Values, and where there is none what a duration says."""
    absent = np.isnan(values)
    if absent.any():
        values = values.copy()
        values[absent] = of_each(durations.filter(absent), parse_duration, np.float64)
    return values


def _time_limits(fields: pl.DataFrame, layout: Layout) -> FloatArray:
    minutes = counts(fields, _value(fields, layout, "timelimitraw"))
    limit = _filled_by(60.0 * minutes, _value(fields, layout, "timelimit"))
    return np.where(limit > 0, limit, np.nan)


def _job_numbers(fields: pl.DataFrame, texts: pl.Series, wanted: BoolArray) -> IntArray:
    found = numbers(fields, texts).copy()
    odd = wanted & (found < 0)
    if odd.any():
        found[odd] = of_each(texts.filter(odd), _first_number, np.int64)
    return found


def _first_number(text: str) -> int:
    return int(re.split(r"\D", text, maxsplit=1)[0])


def _value(fields: pl.DataFrame, layout: Layout, *names: str) -> pl.Series:
    """As `Layout.value`: the first of these fields that tells something, else ""."""
    places = [str(layout.column[name]) for name in names if name in layout.column]
    if not places:
        return pl.Series("", [""], dtype=pl.String).new_from_index(0, fields.height)
    found = fields[places[-1]]
    for place in reversed(places[:-1]):
        told = fields[place]
        empty = told == ""
        if empty.any():
            # of no one field any more, so of no name
            found = fields.select(pl.when(empty).then(found).otherwise(told).alias("")).to_series()
        else:
            found = told
    return found
