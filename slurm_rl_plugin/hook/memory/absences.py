"""Since when jobs that are remembered neither wait nor run: only late are they gone for good."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

#: Seconds for which a job that is neither pending nor running is remembered: while it completes
#: or is suspended it can still be requeued, and comes back with what it had.
REMEMBERED_AFTER_END = 600.0


@dataclass(slots=True)
class Absences:
    """Watches jobs that have left the queue."""

    _since: dict[int, float] = field(default_factory=dict)

    def not_yet_gone(
        self, jobs: Set[int], alive: Set[int], now: float, seen: float | None = None
    ) -> set[int]:
        """The jobs but those away for so long that they will not be requeued any more.

        Args:
            jobs: that are remembered.
            alive: those that wait or run, arrays by their own numbers too.
            now: seconds since the epoch.
            seen: when whoever remembered them looked last; now by default.
        """
        last = now if seen is None else min(seen, now)
        self._since = {job: self._since.get(job, last) for job in jobs - alive}
        return {job for job in jobs if now - self._since.get(job, now) <= REMEMBERED_AFTER_END}
