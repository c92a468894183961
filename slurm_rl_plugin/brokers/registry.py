"""Every broker by name: a new one is its module and a function and a line here.

Each is imported when it is made, so that who only asks for the names needs no library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_rl_plugin.brokers.port import Broker
    from slurm_rl_plugin.domain.job_class import JobDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerParts:
    """What a broker can need.

    Attributes:
        clock: seconds since the epoch.
        seed: of draws.
        formula: of the user, that values offers.
        is_interactive: rules for job classes.
    """

    clock: Callable[[], float]
    seed: int
    formula: str
    is_interactive: Callable[[JobDescription], bool]


def _earliest(_: BrokerParts) -> Broker:
    from slurm_rl_plugin.brokers.earliest_start import EarliestStartBroker  # noqa: PLC0415

    return EarliestStartBroker()


def _learning(parts: BrokerParts) -> Broker:
    from slurm_rl_plugin.brokers.learning_agent import LearningAgentBroker  # noqa: PLC0415

    return LearningAgentBroker(clock=parts.clock, seed=parts.seed)


def _market(parts: BrokerParts) -> Broker:
    from slurm_rl_plugin.brokers.offered_value import OfferedValueBroker  # noqa: PLC0415

    return OfferedValueBroker(
        formula=parts.formula, is_interactive=parts.is_interactive, clock=parts.clock
    )


def _utility(_: BrokerParts) -> Broker:
    from slurm_rl_plugin.brokers.site_utility import SiteUtilityBroker  # noqa: PLC0415

    return SiteUtilityBroker()


#: Name -> makes a broker that has learned nothing yet; ConfigurationError if it refuses a part.
BROKERS: Mapping[str, Callable[[BrokerParts], Broker]] = {
    "earliest": _earliest,
    "learning": _learning,
    "market": _market,
    "utility": _utility,
}
#: Those that learn from what became of the user's jobs: they ask accounting, and no site.
LEARNERS = frozenset({"learning"})
