"""Units and array types: seconds are float64 (since the epoch, or durations), processors int64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0

#: An interactive job that starts within this many seconds counts as answered at once.
INTERACTIVE_WAIT_GOAL = 120.0
#: Where a log names no class, a job that ran less than this is interactive (2008, section V.B).
SHORT_JOB_RUN_TIME = 900.0
