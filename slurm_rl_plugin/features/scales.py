"""The logarithmic scales that features share, elementwise: the simulator compiles these very lines.

A feature of time or work spans many powers of ten; on such a scale it lies near [0, 1]. Powers of
ten are counted as `np.log(x) / TEN`: that takes a third of the time of `np.log10`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

#: Natural logarithm of ten.
TEN = math.log(10.0)
#: Powers of ten of seconds that a scale of seconds spans: 1 is 11 days.
SECONDS_SPAN = 6.0


def log_seconds(seconds: Any) -> Any:
    """Seconds, >= 0, on a logarithmic scale: 0 at none, 1 at 11 days."""
    return np.log(1.0 + seconds) / (SECONDS_SPAN * TEN)


def log_work_hours(work: Any, capacity: Any) -> Any:
    """Processor-seconds as hours of the whole machine on a logarithmic scale: 1 at 10,000."""
    return np.log(1.0 + work / (3600.0 * capacity)) / (4.0 * TEN)
