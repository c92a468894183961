"""Names and spans of time for people."""

from __future__ import annotations

import math
from datetime import datetime

from slurm_rl_plugin.units import DAY, HOUR, MINUTE


def printable(text: str) -> str:
    """A text without control characters, because users choose names."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def time_text(seconds: float) -> str:
    """`YYYY-MM-DDTHH:MM:SS` in local time."""
    try:
        return datetime.fromtimestamp(seconds).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return "a time out of range"


def span_text(seconds: float) -> str:
    """A span of time: `95 s`, `45 min`, `9.7 h`, `3.1 d`; `-` if not finite."""
    if not math.isfinite(seconds):
        return "-"
    for unit, sign, most in ((1.0, "s", 2 * MINUTE), (MINUTE, "min", 2 * HOUR)):
        if abs(seconds) < most:
            return f"{seconds / unit:.0f} {sign}"
    unit, sign = (HOUR, "h") if abs(seconds) < 2 * DAY else (DAY, "d")
    return f"{seconds / unit:.1f} {sign}"
