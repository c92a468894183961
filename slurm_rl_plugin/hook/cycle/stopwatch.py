"""How long each phase of a cycle took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stopwatch:
    """Seconds spent in each phase of one cycle.

    Attributes:
        clock: seconds.
        phases: phase -> seconds.
    """

    clock: Callable[[], float]
    phases: dict[str, float] = field(default_factory=dict)

    def lap(self, phase: str, since: float) -> float:
        """End a phase that began at a time of the clock; that of now."""
        now = self.clock()
        self.phases[phase] = max(now - since, 0.0)  # clocks may be set back
        return now
