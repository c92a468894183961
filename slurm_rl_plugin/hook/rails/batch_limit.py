"""The limit on batch jobs from cycle to cycle: changed seldom, lifted at once, taken back."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from slurm_rl_plugin.batch_systems.port import ApplyReport, BatchSystem
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.resources import CPUS
from slurm_rl_plugin.errors import BatchSystemUnavailable, ChangeRejected, SlurmRLError
from slurm_rl_plugin.hook.rails.reserve import (
    KEPT,
    NOBODY,
    STARVING,
    UNWANTED,
    ReserveRail,
    batch_limit,
)
from slurm_rl_plugin.whole_file import may_exist

logger = logging.getLogger(__name__)

OFF, FALLBACK = "off", "fallback"
#: Why the limit is what it is.
LIMIT_REASONS = (OFF, UNWANTED, KEPT, NOBODY, STARVING, FALLBACK)
#: Directions of changes: batch jobs get less of something, get more, or have no limit any more.
LIMIT_CHANGES = ("lowered", "raised", "lifted")
#: Why a limit could not be set or taken back.
LIMIT_FAILURES = ("refused", "unavailable")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReport:
    """The limit on batch jobs in one cycle.

    Attributes:
        amounts: that batch jobs may use together from this cycle on (in shadow mode: that they
            might), by resource; None for no limit.
        before: the same of the cycle before.
        reason: one of LIMIT_REASONS.
        change: one of LIMIT_CHANGES; None where it stays.
        failure: one of LIMIT_FAILURES; then the limit is what it was.
        failure_reason: one sentence.
        failing: the last try to set it failed; the next one comes later.
    """

    amounts: Mapping[str, int] | None = None
    before: Mapping[str, int] | None = None
    reason: str = OFF
    change: str | None = None
    failure: str | None = None
    failure_reason: str | None = None
    failing: bool = False

    @property
    def processors(self) -> int | None:
        """That batch jobs may use together; None for no limit of processors."""
        return processors_of(self.amounts)

    @property
    def others(self) -> dict[str, int]:
        """The limits of other resources."""
        return {name: each for name, each in (self.amounts or {}).items() if name != CPUS}


@dataclass(slots=True, kw_only=True)
class BatchLimit:
    """Turns the reserve of a decision into a limit on what batch jobs use, and sets it.

    Attributes:
        rail: that gives the reserve its bounds; None where the site keeps nothing free.
        file: exists while our limit may be in force; the batch-system adapter keeps it.
        monotonic: clock for the time between changes, seconds.
    """

    rail: ReserveRail | None = None
    file: Path | None = None
    monotonic: Callable[[], float] = field(default=lambda: 0.0)
    _limit: Mapping[str, int] | None = None
    _changed: float = -math.inf
    _complained: str = ""

    name = "batch_limit"
    words = "a limit of ours on batch jobs may be outstanding"

    @property
    def path(self) -> Path | None:
        """The file that keeps the site's own limit meanwhile."""
        return self.file

    def is_outstanding(self) -> bool:
        """Whether our limit may be in force; see `Outstanding`."""
        return self.file is not None and may_exist(self.file)

    def go_on_from(self, earlier: BatchLimit) -> None:
        """After a reload: which limit is set, when it was changed, when interactive jobs came."""
        self._limit, self._changed = earlier._limit, earlier._changed
        if self.rail is not None and earlier.rail is not None:
            self.rail.go_on_from(earlier.rail)

    def planned(self, snapshot: QueueSnapshot, reserve: int, *, fallback: bool) -> LimitReport:
        """Which limit this cycle is to set; nothing is remembered."""
        rail = self.rail
        wanted: Mapping[str, int] | None = None
        if rail is None:
            reason = OFF
        elif fallback:
            reason = FALLBACK
        else:
            reason = rail.reason
            wanted = batch_limit(snapshot, reserve, rail.settings)
        at_once = reason in (OFF, STARVING, FALLBACK)
        if wanted != self._limit and not at_once and self._too_soon():
            wanted = self._limit
        return LimitReport(
            amounts=wanted,
            before=self._limit,
            reason=reason,
            change=_direction(self._limit, wanted),
        )

    def carry_out(self, system: BatchSystem, planned: LimitReport) -> LimitReport:
        """Set the limit and remember it; a failure is reported, not raised."""
        if planned.amounts is None and not self.is_outstanding():
            # the site's own limit is in force; nothing has to be written
            if planned.reason != KEPT:
                self._complained = ""
            return replace(self._remembered(planned), failing=bool(self._complained))
        try:
            self._set(system, planned.amounts)
        except SlurmRLError as error:
            return self._failed(planned, error)
        self._complained = ""
        return self._remembered(planned)

    def only_shown(self, system: BatchSystem, planned: LimitReport) -> LimitReport:
        """Limit nothing, in shadow mode; one of an earlier time is taken back."""
        if self.is_outstanding():
            failed = self.carry_out(system, LimitReport(before=self._limit, reason=OFF))
            if failed.failure is not None:
                return failed
        return self._remembered(planned)

    def _remembered(self, planned: LimitReport) -> LimitReport:
        """The limit is now as planned, or would be in shadow mode."""
        if planned.amounts != self._limit:
            self._limit, self._changed = planned.amounts, self.monotonic()
        return planned

    def lift(self, system: BatchSystem) -> LimitReport:
        """Take the limit back where a cycle cannot follow the queue: as in fallback, at once."""
        change = _direction(self._limit, None)
        lifted = LimitReport(before=self._limit, reason=FALLBACK, change=change)
        try:
            return self.carry_out(system, lifted)
        except Exception as error:  # that cycle has failed already
            logger.exception("batch_limit=failed")
            return self._failed(lifted, ChangeRejected(str(error)))

    def restore(self, system: BatchSystem) -> ApplyReport:
        """Give the site its own limit back; see `BatchSystem.limit_batch` for what can fail."""
        if self.is_outstanding():
            self._set(system, None)
        self._limit = None
        return ApplyReport()

    def _set(self, system: BatchSystem, amounts: Mapping[str, int] | None) -> None:
        system.limit_batch(amounts)

    def _too_soon(self) -> bool:
        assert self.rail is not None
        return self.monotonic() - self._changed < self.rail.settings.change_interval

    def _failed(self, planned: LimitReport, error: SlurmRLError) -> LimitReport:
        """Report the failure; the next try waits as long as the next change would."""
        self._changed = self.monotonic()
        if str(error) != self._complained:  # the same line every minute would fill the log
            self._complained = str(error)
            logger.error("batch_limit=failed reason=%s", error)
        failure = "unavailable" if isinstance(error, BatchSystemUnavailable) else "refused"
        return replace(
            planned,
            amounts=planned.before,
            change=None,
            failure=failure,
            failure_reason=str(error),
            failing=True,
        )


def processors_of(amounts: Mapping[str, int] | None) -> int | None:
    """The processors among some limits; None for no limit of them."""
    return None if amounts is None else amounts.get(CPUS)


def _direction(before: Mapping[str, int] | None, after: Mapping[str, int] | None) -> str | None:
    if before == after:
        return None
    if after is None:
        return "lifted"
    less = (each < (before or {}).get(name, math.inf) for name, each in after.items())
    return "lowered" if any(less) else "raised"
