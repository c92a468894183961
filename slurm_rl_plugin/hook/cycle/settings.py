"""What a site allows a cycle to do, and which host's daemon must act."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_rl_plugin.batch_systems.port import SchedulerFacts
from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.errors import BatchSystemUnavailable

NO_CONTROLLER_HERE = (
    "beside_controllers is set, but slurm.conf names no controller as this host is named: give "
    "SlurmctldHost the name that `hostname -s` says, or run one daemon without beside_controllers."
)
NOBODY_IN_CHARGE = (
    "no controller answered the ping of its own cluster, so which one is in charge cannot be told; "
    "look with `scontrol ping`"
)


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
        breaker_rest: cycles that it rests; and those in which nothing is written after the batch
            system has denied us the right to write.
        beside_controllers: the cluster has several controllers with a daemon each: act only where
            the controller in charge is on this host.
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

    def leaves_to_another(self, facts: SchedulerFacts) -> bool:
        """Whether another host's daemon must act; a lone daemon must always act itself.

        Raises:
            BatchSystemUnavailable: the controller in charge is unknown.
        """
        if self.beside_controllers and facts.in_charge is None:
            raise BatchSystemUnavailable(NOBODY_IN_CHARGE)
        return self.beside_controllers and not facts.in_charge

    def controller_fault(self, facts: SchedulerFacts) -> str | None:
        """Why no daemon can run next to a controller here, one sentence; None where it can."""
        if not self.beside_controllers:
            return None
        if facts.alone is not None:
            return f"{facts.alone}."
        return None if facts.controller_here else NO_CONTROLLER_HERE

    def influence_points(self, facts: SchedulerFacts) -> float:
        """Priority points that the first place is worth; inf if our order wins."""
        if facts.no_influence is not None or math.isinf(self.influence):
            return math.inf
        return self.influence * facts.points_an_hour
