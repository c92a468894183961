"""Spans of time as Slurm prints them, and as its commands take them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from slurm_rl_plugin.units import DAY

_SPAN = re.compile(
    r"(?:(?P<days>\d{1,6})-)?(?P<clock>\d{1,9}(?::\d{1,5}){0,2})(?P<fraction>\.\d+)?", re.ASCII
)

_NO_LIMIT = frozenset({"", "0", "-1", "infinite", "unlimited"})


def printed_seconds(text: str) -> float:
    """Seconds of what Slurm prints: `[days-][[hours:]minutes:]seconds[.fraction]`.

    Raises:
        ValueError: another form.
    """
    days, clock, fraction = _parts(text)
    return _seconds(days or "0", [*clock[:-1], clock[-1] + fraction])


def asked_seconds(text: str) -> float:
    """Seconds of what `--time` takes.

    Args:
        text: `minutes[:seconds]`, `hours:minutes:seconds` or `days-hours[:minutes[:seconds]]`.

    Raises:
        ValueError: another form.
    """
    days, clock, fraction = _parts(text)
    if fraction:
        raise ValueError(text)
    missing = (3 if days else 2) - len(clock)
    return _seconds(days or "0", clock + ["0"] * missing)


def limit_seconds(text: str) -> float:
    """Seconds of a limit as `--time` takes it; NaN for none.

    Raises:
        ValueError: another form than that of `asked_seconds` and the words for no limit.
    """
    words = text.strip()
    return math.nan if words.lower() in _NO_LIMIT else asked_seconds(words)


def _parts(text: str) -> tuple[str, list[str], str]:
    """Days, what colons part, and a fraction with its point; "" for what is not there."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return found["days"] or "", found["clock"].split(":"), found["fraction"] or ""


def _seconds(days: str, clock: Iterable[str]) -> float:
    seconds = 0.0
    for part in clock:
        seconds = 60.0 * seconds + float(part)
    return seconds + DAY * float(days)
