"""Columns of `sacct` values: plain numbers and times all at once, others by `sacct.fields`.

What `sacct.fields` says of one value holds here of each: the odd ones go through its own functions,
each distinct text once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slurm_rl_plugin.accounting.sacct.fields import parse_count, parse_time
from slurm_rl_plugin.accounting.sacct.layout import Layout
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

_TIMES = ("submit", "eligible", "start", "end")
_COUNTS = ("elapsedraw", "timelimitraw", "ncpus", "alloccpus", "reqcpus")
_LOCAL_TIME = "%Y-%m-%dT%H:%M:%S"
_DIGITS_OF_LOCAL_TIME = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
#: Values of a field that surely look as they should; most of them do.
_PLAIN = {
    **dict.fromkeys(_TIMES, f"^{_DIGITS_OF_LOCAL_TIME}$"),
    "state": "^[A-Z_]+$",
    "elapsed": "^[0-9]{1,2}:[0-9]{2}:[0-9]{2}$",
}
#: The most digits of a number that is sound in a field.
_DIGITS = {**dict.fromkeys(_TIMES, 11), **dict.fromkeys(_COUNTS, 9), "jobid": 18, "jobidraw": 18}
_NEVER = np.iinfo(np.int64).max
#: By the length of a text the least number that is written so: 7, not 07 or +7.
_LEAST = np.array([_NEVER, 0, *(10**digits for digits in range(1, 18)), _NEVER])
#: Stands for what is no number.
_NONE = -1


def with_numbers(fields: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    """Fields, and beside those that are numbers mostly a column of what `_numbers` says of them."""
    numeric = [i for i, name in enumerate(layout.names) if name in _DIGITS]
    found = [pl.Series(f"#{i}", _numbers(fields[str(i)])) for i in numeric]
    return fields.with_columns(found)


def _numbers(texts: pl.Series) -> IntArray:
    """The number of each text that is one as we would write it, at most 18 digits; else -1."""
    numbers = texts.cast(pl.Int64, strict=False).fill_null(_NONE).to_numpy()
    least = _LEAST[np.minimum(texts.str.len_bytes().to_numpy(), len(_LEAST) - 1)]
    return np.where(numbers >= least, numbers, _NONE)


def sound_values(fields: pl.DataFrame, layout: Layout, rows: BoolArray) -> BoolArray:
    """Which of these rows hold in every strict field what its pattern wants.

    Args:
        fields: with numbers.
        rows: those that are asked about; shape [fields.height].
    """
    sound = rows.copy()
    for place, pattern in layout.strict:
        name, texts = layout.names[place], fields[str(place)]
        if name in _DIGITS:
            numbers = fields[f"#{place}"].to_numpy()
            odd = sound & ((numbers < 0) | (numbers >= 10 ** _DIGITS[name]))
        else:
            odd = sound.copy()
        if odd.any():
            sound[odd] = _fitting(texts if odd.all() else texts.filter(odd), name, pattern)
    return sound


def _fitting(texts: pl.Series, name: str, pattern: re.Pattern[str]) -> BoolArray:
    if name not in _PLAIN:
        return of_each(texts, lambda text: bool(pattern.fullmatch(text)), np.bool_)
    fits = texts.str.contains(_PLAIN[name]).to_numpy().copy()
    odd = ~fits
    if odd.any():
        fits[odd] = of_each(texts.filter(odd), lambda text: bool(pattern.fullmatch(text)), np.bool_)
    return fits


def of_each(texts: pl.Series, meaning: Callable[[str], object], kind: type) -> np.ndarray:
    """What a function says of each text; asked once for each distinct one."""
    distinct = texts.unique()
    told: NDArray[Any] = np.array([meaning(text) for text in distinct.to_list()], dtype=kind)
    return told[texts.replace_strict(distinct, np.arange(len(distinct)), return_dtype=pl.UInt32)]


def numbers(fields: pl.DataFrame, texts: pl.Series) -> IntArray:
    """Plain numbers of one of the fields, or of texts put together of several; -1 for others."""
    known = f"#{texts.name}"
    return fields[known].to_numpy() if known in fields.columns else _numbers(texts)


def counts(fields: pl.DataFrame, texts: pl.Series) -> FloatArray:
    """Whole numbers as `fields.parse_count` tells them; shape [n]."""
    found = numbers(fields, texts).astype(np.float64)
    odd = found < 0
    if odd.any():
        found[odd] = of_each(texts.filter(odd), parse_count, np.float64)
    return found


def times(fields: pl.DataFrame, texts: pl.Series) -> FloatArray:
    """Seconds since the epoch as `fields.parse_time` tells them; shape [n]."""
    found = numbers(fields, texts).astype(np.float64)
    odd = found < 0
    found[found == 0.0] = np.nan  # of the number 0 alone: 1970-01-01T00:00:00 is a time
    if odd.any():
        found[odd] = _odd_times(texts if odd.all() else texts.filter(odd))
    return found


def _odd_times(texts: pl.Series) -> FloatArray:
    local = texts.str.contains(f"^{_DIGITS_OF_LOCAL_TIME}$").to_numpy()
    if local.all():
        return _local_times(texts)
    found = np.empty(len(texts))
    found[local] = _local_times(texts.filter(local))
    found[~local] = of_each(texts.filter(~local), parse_time, np.float64)
    return found


def _local_times(texts: pl.Series) -> FloatArray:
    told = texts.str.to_datetime(_LOCAL_TIME, strict=False, time_unit="ms").dt.epoch("s")
    seconds = told.cast(pl.Float64).fill_null(np.nan).to_numpy().copy()
    # leap seconds and the year 0, which polars knows and parse_time does not
    odd = (texts.str.ends_with("60") | texts.str.starts_with("0000")).to_numpy()
    if odd.any():
        seconds[odd] = of_each(texts.filter(odd), parse_time, np.float64)
    return seconds


def value_of(fields: pl.DataFrame, layout: Layout, *names: str) -> pl.Series:
    """The first of these fields that tells something, else ""."""
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
