"""When the next cycle is due: soon after something happened, seldom otherwise, never too often."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.port import ACCOUNTING_CALLS
from slurm_rl_plugin.hook.cycle_report import CycleReport

#: No pause for what calls cost is longer, seconds: new jobs have no factor meanwhile.
LONGEST_DEBT = 300.0
#: Seconds between cheap looks at the batch system while a cycle is not due, at least and at most.
_POLL = (1.0, 5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long the daemon waits between two cycles, at least and at most.

    Attributes:
        longest: seconds after which a cycle follows another, whatever happens.
        soonest: seconds after which one may follow when the queue has changed; 0 takes half of
            the scheduler's own pass, so that each of its passes finds a fresh order.
        busy_share: most of the time that the batch system may be busy with our calls.
    """

    longest: float
    soonest: float = 0.0
    busy_share: float = 0.1

    def earliest(self, report: CycleReport) -> float:
        """Seconds from the beginning of this cycle in which no other may begin."""
        wanted = self.soonest or report.pass_interval / 2.0
        return max(min(wanted, self.longest), self._owed(report))

    def latest(self, report: CycleReport) -> float:
        """Seconds from the beginning of this cycle after which the next one is due."""
        return max(self.longest, self._owed(report))

    def poll(self, report: CycleReport) -> float:
        """Seconds between looks whether the queue has changed."""
        least, most = _POLL
        return min(max(self.earliest(report) / 4.0, least), most)

    def _owed(self, report: CycleReport) -> float:
        """Calls that took a second earn the batch system a pause of 1 / busy_share seconds.

        Accounting does not count: it is asked once, and is not the scheduler.
        """
        busy = sum(seconds for call, seconds in report.calls if call not in ACCOUNTING_CALLS)
        return min(busy / self.busy_share, LONGEST_DEBT)
