"""What a site allows a cycle to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.hook.memory.policy_memory import MemoryFile
from slurm_rl_plugin.hook.rails.guard_rails import GuardRail
from slurm_rl_plugin.hook.rails.policy_guard import PolicyGuard


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleSettings:
    """What the site allows a cycle to do.

    Attributes:
        shadow: decide, report and audit, but write nothing.
        max_writes: most factors written in one cycle.
        influence: hours of age that the best place in our order is worth; inf where our order
            wins.
        site_points: where our order wins, the points of QOS, partition and association keep
            counting.
        inference_deadline: seconds that a decision may take.
        fallback: "fifo" orders by submission, "site" takes our factors back.
        breaker_failures: policy failures in a row after which the policy rests.
        beside_controllers: act only where the controller in charge is on this host.
        breaker_rest: cycles that it rests; and those in which nothing is written after the batch
            system has denied us the right to write.
        goals: what the site wants; accounts are lifted where shares count.
        wait_targets: group of jobs -> mean wait that it should have, seconds.
    """

    shadow: bool = True
    max_writes: int = 2000
    influence: float = math.inf
    site_points: bool = True
    inference_deadline: float = 2.0
    fallback: str = "fifo"
    breaker_failures: int = 5
    breaker_rest: int = 10
    beside_controllers: bool = False
    goals: Goals = AS_TRAINED
    wait_targets: Mapping[str, float] = field(default_factory=dict)

    def guard(
        self,
        guard_rails: Sequence[GuardRail],
        monotonic: Callable[[], float],
        memory_file: MemoryFile,
    ) -> PolicyGuard:
        """Whatever stands between a policy and the queue.

        Args:
            guard_rails: checks on each decision.
            monotonic: clock, seconds.
            memory_file: of what the policy remembers.
        """
        return PolicyGuard(
            guard_rails=guard_rails,
            deadline=self.inference_deadline,
            breaker_failures=self.breaker_failures,
            breaker_rest=self.breaker_rest,
            monotonic=monotonic,
            memory_file=memory_file,
        )
