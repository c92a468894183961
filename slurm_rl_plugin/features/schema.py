"""Names and order of a model's inputs, with a digest, and the logarithmic scales that they share.

A feature of time or work spans many powers of ten; on such a scale it lies near [0, 1]. Powers of
ten are counted as `np.log(x) / TEN`: that takes a third of the time of `np.log10`. The simulator
compiles these very lines.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSchema:
    """An ordered list of features."""

    name: str  #: "site" or "reactive-grid"
    version: int  #: raised by hand whenever the meaning of a feature changes
    queue: tuple[str, ...]  #: names of the queue features, in column order
    static_jobs: tuple[str, ...]  #: names of job features that do not change while the job waits
    dynamic_jobs: tuple[str, ...]  #: names of job features that change with time; next
    history_jobs: tuple[str, ...] = ()  #: of those made of past runs and of similar jobs; last

    @property
    def jobs(self) -> tuple[str, ...]:
        """Names of all job features, in column order."""
        return self.static_jobs + self.dynamic_jobs + self.history_jobs

    @property
    def digest(self) -> str:
        """sha256 over name, version and feature names, hexadecimal."""
        text = "\n".join([self.name, str(self.version), *self.queue, "--", *self.jobs])
        return hashlib.sha256(text.encode()).hexdigest()
