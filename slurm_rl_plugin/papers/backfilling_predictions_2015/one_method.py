"""One online method for all logs: the shipped order and plan estimates, as they are shipped.

A few other settings are shown beside it, so that nobody needs to guess how far they carry.
"""

from __future__ import annotations

from typing import NamedTuple

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.papers.backfilling_predictions_2015.estimates import by_prediction
from slurm_rl_plugin.papers.backfilling_predictions_2015.schedules import (
    BenchmarkLog,
    Flows,
    flows_of,
)
from slurm_rl_plugin.papers.backfilling_predictions_2015.single_events import starts_under
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings


class Setting(NamedTuple):
    """The slack of a promise, a part of the longest wait that the site has known lately."""

    slack: float

    @property
    def name(self) -> str:
        """In words."""
        return f"slack {self.slack:g}"


#: The one that is looked at first.
SETTINGS = (Setting(0.1), Setting(0.05), Setting(0.2))


def refuse_without_prediction(network: object) -> QNetwork:
    """The network, where it predicts run times.

    Raises:
        ConfigurationError: it does not, or it keeps processors free, which the study does not.
    """
    if not isinstance(network, QNetwork) or not network.looks_at_past:
        raise ConfigurationError(
            "the model of --policy looks at no past runs: give one of train --protocol heldout."
        )
    if network.reserve_weights is not None:
        raise ConfigurationError(
            "the model of --policy keeps processors free, which this study does not simulate: give "
            "another model."
        )
    return network


def flows_under(setting: Setting, network: QNetwork, log: BenchmarkLog) -> Flows:
    """The figures of the network's order with pending jobs planned by its own prediction."""
    workload, capacity = log.workload, log.prepared.capacity
    queue = SimulationSettings(capacity=capacity).ordered_queue(
        workload, QueueOrder(network=network)
    )
    estimates = by_prediction(workload, network, setting.slack)
    return flows_of(log, starts_under(workload, capacity, queue, estimates))
