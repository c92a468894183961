"""Columns of `sacct` values: plain numbers and times all at once, others by `sacct_fields`.

What `sacct_fields` says of one value holds here of each: the odd ones go through its own functions,
each distinct text once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slurm_rl_plugin.accounting.sacct_fields import parse_time
from slurm_rl_plugin.accounting.sacct_layout import Layout
from slurm_rl_plugin.units import BoolArray, FloatArray

_TIMES = ("submit", "eligible", "start", "end")
_COUNTS = ("elapsedraw", "timelimitraw", "ncpus", "alloccpus", "reqcpus")
_NUMBERS = ("jobid", "jobidraw")
_LOCAL_TIME = "%Y-%m-%dT%H:%M:%S"
_DIGITS_OF_LOCAL_TIME = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
#: Values of a field that surely look as they should; most of them do.
_PLAIN = {
    **dict.fromkeys(_TIMES, f"^(?:[0-9]{{1,11}}|{_DIGITS_OF_LOCAL_TIME})$"),
    **dict.fromkeys(_COUNTS, "^[0-9]{1,9}$"),
    **dict.fromkeys(_NUMBERS, "^[0-9]{1,18}$"),
    "state": "^[A-Z_]+$",
    "elapsed": "^[0-9]{1,2}:[0-9]{2}:[0-9]{2}$",
}


def sound_values(fields: pl.DataFrame, layout: Layout) -> BoolArray:
    """Which rows hold in every strict field what its pattern wants; shape [rows]."""
    sound = np.ones(fields.height, dtype=np.bool_)
    for place, pattern in layout.strict:
        sound &= _fitting(fields[str(place)], layout.names[place], pattern)
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


def counts(texts: pl.Series, parse: Callable[[str], float]) -> FloatArray:
    """Whole numbers as float64; what is none goes through `parse`."""
    return _with_plain(texts, _PLAIN["ncpus"], parse)


def times(texts: pl.Series) -> FloatArray:
    """Seconds since the epoch as `sacct_fields.parse_time` tells them; shape [n]."""
    found = _with_plain(texts, "^[0-9]{1,11}$")
    found[found == 0.0] = np.nan
    local = texts.str.contains(f"^{_DIGITS_OF_LOCAL_TIME}$").to_numpy()
    if local.any():
        found[local] = _local_times(texts.filter(local))
    return found


def _local_times(texts: pl.Series) -> FloatArray:
    told = texts.str.to_datetime(_LOCAL_TIME, strict=False, time_unit="ms").dt.epoch("s")
    seconds = told.cast(pl.Float64).fill_null(np.nan).to_numpy().copy()
    # leap seconds and the year 0, which polars knows and parse_time does not
    odd = (texts.str.ends_with("60") | texts.str.starts_with("0000")).to_numpy()
    if odd.any():
        seconds[odd] = of_each(texts.filter(odd), parse_time, np.float64)
    return seconds


def _whole_numbers(texts: pl.Series) -> FloatArray:
    return texts.cast(pl.Int64).cast(pl.Float64).to_numpy()


def _with_plain(
    texts: pl.Series, plain: str, parse: Callable[[str], float] | None = None
) -> FloatArray:
    """Whole numbers where the text is plain, elsewhere what `parse` says, or NaN."""
    is_plain = texts.str.contains(plain).to_numpy()
    if is_plain.all():
        return _whole_numbers(texts).copy()
    values = np.full(len(texts), np.nan)
    values[is_plain] = _whole_numbers(texts.filter(is_plain))
    if parse is not None:
        values[~is_plain] = of_each(texts.filter(~is_plain), parse, np.float64)
    return values
