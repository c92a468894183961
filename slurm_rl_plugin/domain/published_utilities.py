"""What a site publishes of itself: the long-term utility it expects of one more job of each kind.

The site-level utility function of 2008, section II.C: matchmakers rank sites by these indices and
need not know how a site orders its queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Raised whenever the meaning of the document changes.
VERSION = 1
JOB_CLASSES = ("interactive", "batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedUtilities:
    """What one more job of each class and account is worth to a site, as it publishes it.

    Attributes:
        site: its name.
        time: of the queue that it speaks of, seconds since the epoch.
        valid_for: seconds after `time` from which on nobody should use it.
        model: sha256 of the model, hexadecimal.
        utilities: job class -> account -> utility in [0, 1]; at 0.5 the site's objective neither
            gains nor loses by such a job.
    """

    site: str
    time: float
    valid_for: float
    model: str
    utilities: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def fresh_at(self, now: float) -> bool:
        """Whether it may still be used; a time to come is no fresher than one long past."""
        return abs(now - self.time) <= self.valid_for

    def of(self, job_class: str, account: str) -> float | None:
        """The utility of one more such job; None where the site says nothing of it."""
        return self.utilities.get(job_class, {}).get(account)

    def document(self) -> dict[str, Any]:
        """The publication as a JSON object."""
        return {
            "version": VERSION,
            "site": self.site,
            "time": self.time,
            "valid_for": self.valid_for,
            "model": self.model,
            "utilities": {kind: dict(each) for kind, each in self.utilities.items()},
        }
