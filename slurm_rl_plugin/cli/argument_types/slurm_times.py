"""Points in time as Slurm's commands take them."""

from __future__ import annotations

import argparse
import re
from datetime import datetime

from slurm_rl_plugin.accounting.slurm.durations import asked_seconds

_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_RELATIVE = re.compile(r"now(?:(?P<sign>[+-])(?P<count>\d{1,9})(?P<unit>[a-z]*))?")
_FORMS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")
_CLOCK_FORMS = ("%H:%M", "%H:%M:%S")
_SHORT_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_COUNTED = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)
_UNITED = re.compile(r"(?:\d{1,9}[smhdw])+", re.ASCII)
#: Ten years: beyond, somebody means `disable`.
_LONGEST_SPAN = 3650 * 86400.0


def time_argument(text: str) -> float:
    """The type of an argument that `parse_slurm_time` understands at the present time."""
    return parse_slurm_time(text, datetime.now())


def parse_slurm_time(text: str, now: datetime) -> float:
    """Seconds since the epoch; times without a zone are local.

    Args:
        text: `YYYY-MM-DD[THH:MM[:SS]]`, `HH:MM[:SS]` of today, `today`, `midnight`, `now`, or
            `now-COUNT[UNIT]` with seconds, minutes, hours, days or weeks.
        now: the present time.

    Raises:
        argparse.ArgumentTypeError: another form.
    """
    words = text.strip()
    relative = _RELATIVE.fullmatch(words)
    if relative is not None:
        return _shifted(words, relative, now)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if words in ("today", "midnight"):
        return midnight.timestamp()
    for form in _FORMS:
        if (found := _parsed(words, form)) is not None:
            return found.timestamp()
    for form in _CLOCK_FORMS:
        if (found := _parsed(words, form)) is not None:
            clock = found.replace(year=now.year, month=now.month, day=now.day)
            return clock.timestamp()
    raise _not_a_time(text)


def _shifted(text: str, relative: re.Match[str], now: datetime) -> float:
    if relative["sign"] is None:
        return now.timestamp()
    unit = relative["unit"].removesuffix("s") or "second"
    if unit not in _UNITS:
        raise _not_a_time(text)
    seconds = int(relative["count"]) * _UNITS[unit]
    return now.timestamp() + (seconds if relative["sign"] == "+" else -seconds)


def _parsed(text: str, form: str) -> datetime | None:
    try:
        found = datetime.strptime(text, form)
        found.timestamp()  # not of a year that no clock knows
    except (ValueError, OverflowError, OSError):
        return None
    return found


def parse_slurm_duration(text: str) -> float:
    """Seconds of a span, as `--time` of Slurm's commands takes it, or with units.

    Args:
        text: `MINUTES[:SECONDS]`, `HOURS:MINUTES:SECONDS`, `DAYS-HOURS[:MINUTES[:SECONDS]]`, or
            counts with units such as `30m`, `2h`, `1d12h`.

    Raises:
        argparse.ArgumentTypeError: another form, no time at all, or more than ten years.
    """
    words = text.strip()
    try:
        seconds = _in_units(words) if _UNITED.fullmatch(words) else asked_seconds(words)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_SPAN:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no span of time: give such as 30m, 2h, 1-00:00:00 or minutes"
        )
    return seconds


def _in_units(words: str) -> float:
    return float(sum(int(n) * _SHORT_UNITS[unit] for n, unit in _COUNTED.findall(words)))


def _not_a_time(text: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(
        f"{text!r} is no time: give YYYY-MM-DD[THH:MM[:SS]] or now-COUNT[hours]"
    )
