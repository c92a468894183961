"""What a new job gets for its class as it is submitted, through a table of the batch system's.

Without it an interactive job has no factor of ours until the next cycle. Jobs that got their factor
from the table are known to nobody until the next cycle has seen them. While it may have given any,
be it that no job is to heed it any more, a release therefore looks at every waiting job.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.batch_systems.port import (
    LARGEST_FACTOR,
    ApplyReport,
    BatchSystem,
    ClassDefault,
    ClassDefaultsTable,
    SchedulerFacts,
)
from slurm_rl_plugin.hook.order.order_changes import SPACING
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan
from slurm_rl_plugin.units import IntArray

logger = logging.getLogger(__name__)

_NOTHING = ApplyReport(applied=0, rejected={})


@dataclass(slots=True, kw_only=True)
class ClassDefaults:
    """Decides what the table says, and when it is void.

    Attributes:
        table: gives jobs their factors; None gives none.
    """

    table: ClassDefaultsTable | None = None
    _quick_first: bool = False
    _complained: str = ""

    @property
    def stands(self) -> bool:
        """Whether a table stands or stood whose factors were not all taken back."""
        return self.table is not None and self.table.may_have_given()

    def follow(
        self, plan: QueuePlan, facts: SchedulerFacts, influence: float, system: BatchSystem
    ) -> None:
        """Write what a job submitted now is to get, or take all back where we give no order.

        Args:
            plan: of the cycle that has just been applied.
            facts: the table gives factors of one lever, and nothing where another is heeded.
            influence: priority points that the best place is worth; inf where our order wins.
            system: where all is taken back.

        Raises:
            BatchSystemUnavailable: no answer in time.
        """
        if self.table is None:
            return
        if plan.releases or facts.lever != self.table.lever:
            self.take_back(system)
            return
        self._quick_first = _puts_quick_first(plan, self._quick_first)
        factor = interactive_factor(plan) if self._quick_first else 0
        snapshot = plan.snapshot
        default = ClassDefault(
            now=snapshot.now,
            factor=min(factor, influence),
            partitions=snapshot.partitions,
            qos=snapshot.qos,
        )
        try:
            self.table.write(default)
        except OSError as error:  # what is in place is soon too old to be heeded, if it is at all
            self._complain(self.table, str(error.strerror))
        else:
            self._complained = ""

    def withdraw(self) -> None:
        """Void the table, but remember that jobs may have factors of it.

        Where that cannot be, the table is soon too old; no factor of ours stays for it.
        """
        if self.table is None:
            return
        try:
            self.table.void()
        except FileNotFoundError:
            return
        except OSError as error:
            logger.error("class_defaults=left path=%s reason=%s", self.table.path, error.strerror)

    def forget(self) -> None:
        """Every waiting job was looked at."""
        if self.table is None:
            return
        try:
            self.table.empty()
        except FileNotFoundError:
            return
        except OSError as error:  # they are looked at once more
            logger.error("class_defaults=marked path=%s reason=%s", self.table.path, error.strerror)

    def take_back(self, system: BatchSystem, before: ApplyReport = _NOTHING) -> ApplyReport:
        """Void the table and take back every factor that it may have given.

        Args:
            system: whose waiting jobs are looked at.
            before: of the factors that were known; joined with what was found on top.

        Raises:
            BatchSystemUnavailable: no answer in time; call again.
        """
        if not self.stands:
            return before
        self.withdraw()
        report = system.release(None)
        if not report.later:
            self.forget()
        return ApplyReport(
            applied=before.applied + report.applied,
            rejected=before.rejected | report.rejected,
            later=before.later | report.later,
        )

    def _complain(self, table: ClassDefaultsTable, why: str) -> None:
        if why != self._complained:  # the same every cycle would fill the log
            self._complained = why
            logger.error("class_defaults=unwritable path=%s reason=%s", table.path, why)


def _classes(plan: QueuePlan) -> tuple[IntArray, IntArray]:
    """Places in the order of its interactive and of its other jobs."""
    quick = plan.snapshot.pending.jobs.interactive[plan.order]
    return np.flatnonzero(quick), np.flatnonzero(~quick)


def _puts_quick_first(plan: QueuePlan, before: bool) -> bool:
    """Whether every interactive job goes before every other; as before where it cannot be seen."""
    if plan.fallback_reason is not None:
        return False
    quick, slow = _classes(plan)
    if plan.limit.amounts is not None:
        return True  # the rail of the reserve sees to it
    if len(quick) == 0 or len(slow) == 0:
        return before
    return bool(quick.max() < slow.min())


def interactive_factor(plan: QueuePlan) -> int:
    """What puts a new interactive job before all batch jobs, behind the interactive ones.

    A new job's own priority is not known; that of the lowest waiting job is taken for it, since a
    new one has waited least. 0 where no batch job has to be outranked.
    """
    pending, order = plan.snapshot.pending, np.asarray(plan.order, dtype=np.int64)
    quick, slow = _classes(plan)
    if len(slow) == 0:
        return 0
    priority = plan.priority_after
    above = int(priority[order[slow]].max())
    target = above + SPACING
    if len(quick):
        target = max(min(target, int(priority[order[quick]].min()) - 1), above + 1)
    own = int(pending.native_priority[order].min())
    return int(np.clip(target - own, 0, LARGEST_FACTOR))
