"""A candidate beside the model in service: one of both acts, and the other looks along."""

from __future__ import annotations

from dataclasses import dataclass, field

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.hook.rails.policy_guard import PolicyGuard
from slurm_rl_plugin.policies.port import Policy


@dataclass(slots=True, kw_only=True)
class Contender:
    """A model that may act.

    Attributes:
        policy: who scores.
        model_sha256: of its file; "" for a rule.
        guard: keeps what it remembers.
    """

    policy: Policy
    model_sha256: str
    guard: PolicyGuard | None = None

    def look_along(self, snapshot: QueueSnapshot) -> None:
        """Remember what happens while the other acts, as it would in service."""
        if self.guard is not None:
            self.guard.look_along(self.policy, snapshot)


@dataclass(slots=True, kw_only=True)
class Rival:
    """A candidate on trial.

    Attributes:
        model: as [policy] model would name it.
        sha256: of its file; "" for a rule.
        other: whichever of both looks along: the candidate, or while it acts the model in
            service.
        history_days: of past runs that it learns from; 0 for none.
        labels: of the metric that describes the model in force.
        acts: whether its order is in force.
    """

    model: str
    sha256: str
    other: Contender
    history_days: float = 0.0
    labels: dict[str, str] = field(default_factory=dict)
    acts: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from another one."""
        return self.model, self.sha256
