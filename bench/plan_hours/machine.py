"""What a replay asks of a batch system, whichever it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.plan_hours.load import StretchJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What became of a job; times in seconds since the epoch, limit and estimate in seconds.

    Attributes:
        state: COMPLETED, or what the batch system says instead.
        limit: that it had at its end.
        estimate: with which it started; 0 for none.
    """

    submit: float
    start: float
    end: float
    state: str
    limit: float
    estimate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """When nothing may run, seconds since the epoch."""

    begin: float
    end: float


class Machine(Protocol):
    """A batch system of our own; its daemon's configuration needs `lines` in [hook] and after."""

    lines: str

    @property
    def env(self) -> Mapping[str, str]:
        """In which its commands reach it."""

    def submit(self, job: StretchJob) -> int:
        """Its number."""

    def reserve(self, ahead: float) -> Closed:
        """Keep all processors free for a minute, so many seconds from now."""

    def is_empty(self) -> bool:
        """Whether nothing waits or runs."""

    def standing(self) -> int:
        """Waiting jobs that carry an estimate."""

    def ended(self, numbers: Sequence[int]) -> dict[int, Ended]:
        """What became of each."""

    def end_all(self) -> None:
        """Delete every job."""
