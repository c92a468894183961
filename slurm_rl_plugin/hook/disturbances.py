"""What happened from outside and was got over: each told once in the log and in a metric."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from slurm_rl_plugin.domain import PendingJobs, QueueSnapshot
from slurm_rl_plugin.units import BoolArray

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
    """Counts them until the next report takes them."""

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
    """Tells when messages to accounting pile up, once until they are gone: nobody takes them."""

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
    """Tells when the clock of the day was set, by a clock that nobody sets."""

    _ahead: float | None = None

    def look(self, now: float, monotonic: float, disturbances: Disturbances) -> None:
        """Take in both clocks, seconds."""
        ahead = now - monotonic
        step = 0.0 if self._ahead is None else ahead - self._ahead
        self._ahead = ahead
        if abs(step) > LEAST_STEP:
            disturbances.tell(CLOCK, f"seconds={step:+.0f}: the clock was set, or the host slept")


@dataclass(slots=True)
class WrittenFactors:
    """Tells when factors are not what we last wrote or saw: a write was lost, or another writes."""

    _known: dict[int, int] = field(default_factory=dict)

    def look(self, snapshot: QueueSnapshot, disturbances: Disturbances) -> None:
        """Take in the factors of a snapshot."""
        pending = snapshot.pending
        visible = np.flatnonzero(_shows_factor(pending, snapshot.now))
        jobs, factors = pending.jobs.job_id[visible].tolist(), pending.factor[visible].tolist()
        seen = dict(zip(jobs, factors, strict=True))
        changed = [job for job, factor in seen.items() if self._known.get(job, factor) != factor]
        if changed:
            first = changed[0]
            disturbances.tell(
                FACTOR,
                f"jobs={len(changed)} first={first} was={self._known[first]} is={seen[first]}: "
                "writes were lost, or another program writes",
            )
        self._known = seen

    def about_to_write(self, factors: Mapping[int, int]) -> None:
        """Forget what these jobs have, until it is told which writes were accepted."""
        for job in factors:
            self._known.pop(job, None)

    def written(self, factors: Mapping[int, int]) -> None:
        """Remember these factors, by job id, as ours and accepted by the batch system."""
        self._known.update(factors)

    def forget(self) -> None:
        """Forget all factors, as they were taken back: none of them is missed any more."""
        self._known.clear()


def _shows_factor(pending: PendingJobs, now: float) -> BoolArray:
    """Of which jobs the batch system tells the factor, and not the adapter what it takes it for.

    A priority set by hand hides ours. Slurm tells nothing of held jobs and of those that are not
    eligible yet, as requeued ones: they come back with the factor that they had. Where components
    of a job stand apart, which one speaks for it may change.
    """
    shows = ~pending.admin_set & ~pending.held & (pending.jobs.eligible <= now)
    return shows if pending.spread is None else shows & (pending.spread == 0)
