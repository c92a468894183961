"""The writes of a cycle: remembered before they are sent, counted once they are answered."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.port import BatchSystem, FactorChange
from slurm_rl_plugin.errors import BatchSystemUnavailable
from slurm_rl_plugin.hook.disturbances import WrittenFactors
from slurm_rl_plugin.hook.memory.carried_factors import CarriedFactors
from slurm_rl_plugin.hook.order.order_changes import in_safe_order
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorWrites:
    """Carries a plan out.

    Attributes:
        batch_system: who is written to.
        carried: who may carry a factor of ours.
        written: what each job was given last.
    """

    batch_system: BatchSystem
    carried: CarriedFactors
    written: WrittenFactors

    def carry_out(
        self, plan: QueuePlan, changes: Sequence[FactorChange]
    ) -> tuple[Counter[str], int | None]:
        """Send the writes of a plan, or take every factor back where the plan says so.

        Args:
            plan: what was decided.
            changes: those of its changes that may be sent in this cycle.

        Returns:
            Direction -> writes accepted; and how many were refused, None where none was sent.

        Raises:
            BatchSystemUnavailable: no answer in time.
            ConfigurationError: the state file cannot be written; nothing was sent.
        """
        if plan.releases:
            self.carried.before_writing(plan.snapshot, ())  # whoever wrote them
            self.written.forget()  # before: a release may be cut short
            return Counter(reset=self.carried.release(self.batch_system).applied), None
        self.carried.before_writing(plan.snapshot, (change.job_id for change in changes))
        if not changes:
            return Counter(), None
        return self._sent(changes)

    def _sent(self, changes: Sequence[FactorChange]) -> tuple[Counter[str], int]:
        wanted = {change.job_id: change.new for change in changes}
        self.written.about_to_write(wanted)
        try:
            result = self.batch_system.apply(in_safe_order(changes))
        except BatchSystemUnavailable:
            self.carried.without_answer()
            raise
        self.carried.answered()
        accepted = [change for change in changes if change.job_id not in result.rejected]
        self.written.written({change.job_id: change.new for change in accepted})
        for job, words in list(result.rejected.items())[:1]:
            logger.info("rejected=%d first=%d reason=%s", len(result.rejected), job, words)
        directions = Counter("up" if change.new > change.old else "down" for change in accepted)
        return directions, len(result.rejected)
