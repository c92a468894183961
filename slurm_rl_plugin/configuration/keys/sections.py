"""What a configuration holds, section by section, each value with its type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from slurm_rl_plugin.configuration.keys.hook import (
    BatchSystemSection,
    GoalsSection,
    GuardRailsSection,
    GuardSection,
    HookSection,
    PolicySection,
    ReserveSection,
    RewardSection,
)
from slurm_rl_plugin.configuration.keys.key import Key, keys_of
from slurm_rl_plugin.configuration.keys.served import (
    ForecastSection,
    MetricsSection,
    OfferSection,
    RouteSection,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """Every section with its keys; docs/configuration.md tells of each."""

    hook: HookSection = field(default_factory=HookSection)
    batch_system: BatchSystemSection = field(default_factory=BatchSystemSection)
    policy: PolicySection = field(default_factory=PolicySection)
    goals: GoalsSection = field(default_factory=GoalsSection)
    reward: RewardSection = field(default_factory=RewardSection)
    guard_rails: GuardRailsSection = field(default_factory=GuardRailsSection)
    guard: GuardSection = field(default_factory=GuardSection)
    reserve: ReserveSection = field(default_factory=ReserveSection)
    metrics: MetricsSection = field(default_factory=MetricsSection)
    forecast: ForecastSection = field(default_factory=ForecastSection)
    offer: OfferSection = field(default_factory=OfferSection)
    route: RouteSection = field(default_factory=RouteSection)

    @classmethod
    def of(cls, values: Mapping[str, Mapping[str, Any]]) -> Sections:
        """The sections that are given, and the defaults of the others."""
        made = get_type_hints(cls)
        return cls(**{name: made[name](**found) for name, found in values.items()})


#: Section -> key -> its definition: the one table that everything else is made of.
KEYS: dict[str, dict[str, Key]] = {
    name: keys_of(section) for name, section in get_type_hints(Sections).items()
}
