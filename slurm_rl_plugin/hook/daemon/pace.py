"""When the next cycle is due: soon after something happened, seldom otherwise, never too often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from slurm_rl_plugin.batch_systems.port import ACCOUNTING_CALLS, SchedulerLoad
from slurm_rl_plugin.hook.cycle_report import CycleReport

#: Seconds between cheap looks at the batch system while a cycle is not due, at least and at most.
SOONEST_POLL, LATEST_POLL = 0.5, 5.0
#: Seconds between polls of the pending jobs while some are held or not eligible: no counter says
#: when one of them may start.
_LOOK_AT_HELD = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long the daemon waits between two cycles, at least and at most.

    Attributes:
        longest: seconds after which a cycle follows another, whatever happens and whatever calls
            cost: new jobs have no place meanwhile.
        soonest: seconds after which one may follow when the queue has changed; 0 takes half of
            the scheduler's own pass, so that each of its passes finds a fresh order.
        busy_share: most of the time that the batch system may be busy with our calls, and as much
            again to give new jobs their places.
    """

    longest: float
    soonest: float = 0.0
    busy_share: float = 0.1

    def earliest(self, report: CycleReport) -> float:
        """Seconds from the beginning of this cycle in which no other may begin."""
        wanted = self.soonest or report.pass_interval / 2.0
        return min(max(wanted, self.owed(report)), self.longest)

    def air(self, taken: float) -> float:
        """Seconds of pause after a cycle that took so long: a slow batch system is left alone."""
        return taken if taken > self.longest else 0.0

    def poll(self, report: CycleReport) -> float:
        """Seconds between looks whether the queue has changed."""
        return min(max(self.earliest(report) / 4.0, SOONEST_POLL), LATEST_POLL)

    def owed(self, report: CycleReport) -> float:
        """Seconds of pause that a report's calls earn the batch system.

        Calls that took a second earn the batch system 1 / busy_share seconds.
        Accounting does not count: it is asked once, and is not the scheduler.
        """
        busy = sum(seconds for call, seconds in report.calls if call not in ACCOUNTING_CALLS)
        return busy / self.busy_share


@dataclass(slots=True)
class NewJobsDue:
    """When to poll for new jobs between two cycles; all times count from the start of a cycle.

    Attributes:
        pace: of the daemon.
        next_look: seconds after which the daemon may poll for new jobs.
        submitted: jobs submitted until the last poll of the pending jobs.
        next_held: seconds after which the pending jobs are polled in any case.
        held: whether jobs are held or not eligible yet.
    """

    pace: Pace
    next_look: float
    submitted: int
    next_held: float
    held: bool

    @classmethod
    def after(cls, report: CycleReport, pace: Pace, waited: float) -> Self:
        """After a cycle, from `waited` on."""
        next_look, next_held = waited + SOONEST_POLL, waited + _LOOK_AT_HELD
        return cls(pace, next_look, report.submitted, next_held, _has_held(report))

    def may_have_come(self, load: SchedulerLoad, waited: float) -> bool:
        """Whether a job has come, or may have become eligible."""
        if waited < self.next_look:
            return False
        return load.submitted != self.submitted or (self.held and waited >= self.next_held)

    def looked(self, report: CycleReport, waited: float) -> None:
        """Take the cost of a poll of the pending jobs."""
        self.submitted, self.held = report.submitted, _has_held(report)
        self.next_look = waited + max(SOONEST_POLL, self.pace.owed(report))
        self.next_held = waited + max(_LOOK_AT_HELD, self.pace.owed(report))


def _has_held(report: CycleReport) -> bool:
    return any(report.suppressed.get(reason) for reason in ("held", "not_eligible"))
