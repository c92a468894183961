"""What an audit log tells of the limit on batch jobs: how often it changed, how long it stood."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_rl_plugin.hook.rails.reserve import STARVING


@dataclass(slots=True)
class LimitsSeen:
    """Fed with the limit lines of an audit log, oldest first, and with the time of each cycle."""

    _changes: Counter[str] = field(default_factory=Counter)
    _lifted_for_wide_jobs: int = 0
    _lowest: float = math.inf
    _limited: float = 0.0
    _stands: bool = False
    _since: float = math.nan

    def add(self, line: Mapping[str, Any]) -> None:
        """Take one line of a limit that changed, or would have."""
        self._changes[str(line.get("change"))] += 1
        self._lifted_for_wide_jobs += line.get("reason") == STARVING
        new = line.get("new")
        self._stands = isinstance(new, int)
        if isinstance(new, int):
            self._lowest = min(self._lowest, new)

    def pass_time(self, now: float, longest: float) -> None:
        """A cycle was run; a gap of more than `longest` seconds, a stop perhaps, is not counted."""
        gap = now - self._since
        if self._stands and 0.0 < gap <= longest:
            self._limited += gap
        self._since = now

    def document(self) -> dict[str, Any]:
        """Numbers of changes, seconds below a limit, processors of the lowest."""
        return {
            "changes": dict(self._changes),
            "lifted_for_wide_jobs": self._lifted_for_wide_jobs,
            "limited_seconds": self._limited,
            "lowest_limit": None if math.isinf(self._lowest) else int(self._lowest),
        }
