"""External faults that the daemon survived: each is one line of the log and counts in a metric."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

logger = logging.getLogger(__name__)

ACCOUNTING, CLOCK, FACTOR, FOUND, STATE = DISTURBANCES = (
    "accounting_behind",
    "clock",
    "factor_changed",
    "found_factors",
    "state_file",
)
#: Seconds by which the clock of the day may leave the other clock between two cycles.
LEAST_STEP = 5.0
#: Looks in a row at a backlog of accounting that does not shrink, after which it counts.
BACKLOG_LOOKS = 3


@dataclass(slots=True)
class Disturbances:
    """Counts external faults until the next report takes them."""

    _counts: Counter[str] = field(default_factory=Counter)

    def tell(self, reason: str, words: str) -> None:
        """Log one and count it.

        Args:
            reason: one of DISTURBANCES.
            words: what more there is to say, `key=value` first.
        """
        logger.warning("disturbance=%s %s", reason, words)
        self._counts[reason] += 1

    def taken(self) -> Mapping[str, int]:
        """Reason -> how many since the last call."""
        taken, self._counts = dict(self._counts), Counter()
        return taken


@dataclass(slots=True)
class AccountingWatch:
    """Reports once that messages to the accounting daemon pile up, until they are gone."""

    _before: int = 0
    _looks: int = 0

    def look(self, waiting: int, disturbances: Disturbances) -> None:
        """Take in how many wait now."""
        shrinks = waiting == 0 or waiting < self._before
        told = self._looks >= BACKLOG_LOOKS
        if waiting == 0 and told:
            logger.info("accounting=caught_up")
        if waiting == 0 or (shrinks and not told):
            self._looks = 0
        else:
            self._looks += not shrinks
        self._before = waiting
        if not told and self._looks >= BACKLOG_LOOKS:
            words = f"messages={waiting}: the accounting daemon takes none; look whether it runs"
            disturbances.tell(ACCOUNTING, words)


@dataclass(slots=True)
class ClockWatch:
    """Compares the clock of the day with a clock that is never set, and reports a step."""

    _ahead: float | None = None

    def look(self, now: float, monotonic: float, disturbances: Disturbances) -> None:
        """Take in both clocks, seconds."""
        ahead = now - monotonic
        step = 0.0 if self._ahead is None else ahead - self._ahead
        self._ahead = ahead
        if abs(step) > LEAST_STEP:
            disturbances.tell(CLOCK, f"seconds={step:+.0f}: the clock was set, or the host slept")
