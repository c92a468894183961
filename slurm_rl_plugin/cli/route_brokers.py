"""The brokers of `slurm-rl route` by name; each is imported when it is asked for."""

from __future__ import annotations

import importlib

from slurm_rl_plugin.brokers.port import Broker
from slurm_rl_plugin.errors import ConfigurationError

#: Name -> module and what makes the broker there, without arguments.
MAKERS = {
    "earliest": ("slurm_rl_plugin.brokers.earliest_start", "EarliestStartBroker"),
    "utility": ("slurm_rl_plugin.brokers.offered_utility", "OfferedUtilityBroker"),
}


def broker_of(name: str) -> Broker:
    """A broker that has learned nothing yet.

    Raises:
        ConfigurationError: this release has none of that name.
    """
    if name not in MAKERS:
        raise ConfigurationError(
            f"broker {name!r} does not route here: give one of {', '.join(MAKERS)}."
        )
    module, maker = MAKERS[name]
    broker: Broker = getattr(importlib.import_module(module), maker)()
    return broker
