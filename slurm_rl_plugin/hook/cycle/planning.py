"""What a decision means under the site's settings: the plan that a cycle carries out or shows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.port import SchedulerFacts
from slurm_rl_plugin.domain import Decision, QueueSnapshot
from slurm_rl_plugin.hook.cycle.settings import CycleSettings
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan, planned_order
from slurm_rl_plugin.hook.order.request_watch import ChangedRequests
from slurm_rl_plugin.hook.rails.batch_limit import BatchLimit
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlanner:
    """Makes plans.

    Attributes:
        settings: what the site allows.
        untouched: jobs that never get a factor.
        limit: on batch jobs, so that processors stay free for interactive ones.
    """

    settings: CycleSettings
    untouched: UntouchedJobs
    limit: BatchLimit

    def plan(
        self,
        snapshot: QueueSnapshot,
        facts: SchedulerFacts,
        decision: Decision,
        fallback_reason: str | None,
        requests: ChangedRequests,
    ) -> QueuePlan:
        """The order, its writes and the limit that a decision asks for.

        Args:
            snapshot: the queue.
            facts: of the scheduler.
            decision: as the guard rails left it.
            fallback_reason: why the policy is not used; None when it is.
            requests: what ranked jobs ask for otherwise since the last cycle.
        """
        order, changes = planned_order(
            snapshot,
            decision.scores,
            self.untouched,
            self.influence(facts),
            facts.highest_priority,
            self.settings.max_writes,
            requests.lost,
        )
        releases = fallback_reason is not None and self.settings.fallback == "site"
        return QueuePlan(
            snapshot=snapshot,
            decision=decision,
            fallback_reason=fallback_reason,
            order=order,
            changes=[] if releases else changes,
            releases=releases,
            limit=self.limit.planned(
                snapshot, decision.reserve, fallback=fallback_reason is not None
            ),
        )

    def influence(self, facts: SchedulerFacts) -> float:
        """Priority points that the best place is worth; inf where our order wins."""
        if math.isinf(self.settings.influence):
            return math.inf
        return self.settings.influence * facts.points_an_hour
