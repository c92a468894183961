"""The brokers of `slurm-rl route` by name; each is imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slurm_rl_plugin.brokers.port import Broker
from slurm_rl_plugin.domain.job_description import JobDescription
from slurm_rl_plugin.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerParts:
    """What brokers may be made of.

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


def _nothing(parts: BrokerParts) -> dict[str, Any]:
    del parts
    return {}


def _draws(parts: BrokerParts) -> dict[str, Any]:
    return {"clock": parts.clock, "seed": parts.seed}


def _valued(parts: BrokerParts) -> dict[str, Any]:
    return {
        "formula": parts.formula,
        "is_interactive": parts.is_interactive,
        "clock": parts.clock,
    }


#: Name -> module below `brokers`, class, and the arguments that it is made with.
MAKERS: Mapping[str, tuple[str, str, Callable[[BrokerParts], dict[str, Any]]]] = {
    "earliest": ("earliest_start", "EarliestStartBroker", _nothing),
    "learning": ("learning_agent", "LearningAgentBroker", _draws),
    "market": ("offered_value", "OfferedValueBroker", _valued),
    "utility": ("site_utility", "SiteUtilityBroker", _nothing),
}
#: Those that learn from what became of routed jobs; accounting is not asked for the others.
LEARNERS = frozenset({"learning"})


def broker_of(name: str, parts: BrokerParts) -> Broker:
    """A broker that has learned nothing yet.

    Raises:
        ConfigurationError: this release has none of that name, or a formula is refused.
    """
    module, maker, arguments = MAKERS[name]
    try:
        found = importlib.import_module(f"slurm_rl_plugin.brokers.{module}")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"broker {name!r} cannot be used here ({error}): take another with --broker."
        ) from None
    broker: Broker = getattr(found, maker)(**arguments(parts))
    return broker
