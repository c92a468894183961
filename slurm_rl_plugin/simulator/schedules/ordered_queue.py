"""One site's way of ordering its queue, bundled, and the loop that runs a site up to a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import NOW, Cluster, Workload, advance, next_event
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.dispatch import BACKFILLING
from slurm_rl_plugin.simulator.schedules.partitions import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, decide_scored
from slurm_rl_plugin.simulator.scoring.hook_effects import HookEffects
from slurm_rl_plugin.simulator.scoring.network import CompiledNetwork, compile_network, no_network
from slurm_rl_plugin.simulator.scoring.rules import rule_code
from slurm_rl_plugin.units import FloatArray, IntArray


class OrderedQueue(NamedTuple):
    """How decisions are made, and the space that they need.

    Attributes:
        network: scores the queue where rule < 0.
        rule: code of one of WAITING_RULES.
        backfilling: code of BACKFILLING.
        reserve: processors kept free of batch work.
        effects: of the hook.
        scores: space for a score of every job.
        jobs: space for their numbers.
    """

    network: CompiledNetwork
    rule: int
    backfilling: int
    reserve: int
    effects: HookEffects
    scores: FloatArray
    jobs: IntArray

    def copy(self) -> OrderedQueue:
        """The same with a memory of its own of what arrived."""
        return self._replace(network=self.network._replace(arrived=self.network.arrived.copy()))


def ordered_queue(
    order: QueueOrder, settings: SimulationSettings, workload: Workload, places: int
) -> OrderedQueue:
    """The order of a queue, compiled for these jobs.

    Args:
        order: a network or a rule.
        settings: the batch system.
        workload: the jobs.
        places: how many jobs there may ever be.
    """
    network = no_network() if order.network is None else compile_network(order.network, workload)
    return OrderedQueue(
        network=network,
        rule=rule_code(order.rule),
        backfilling=BACKFILLING[settings.backfilling],
        reserve=settings.reserve,
        effects=settings.effects(places),
        scores=np.empty(places + 1),
        jobs=np.empty(places + 1, dtype=np.int64),
    )


@compiled
def decide(workload: Workload, cluster: Cluster, queue: OrderedQueue) -> None:
    """Order the waiting jobs and start those that may start now."""
    decide_scored(
        workload,
        cluster,
        queue.network,
        queue.rule,
        queue.backfilling,
        queue.reserve,
        queue.effects,
        queue.scores,
        queue.jobs,
    )


@compiled
def run_until(workload: Workload, cluster: Cluster, queue: OrderedQueue, until: float) -> None:
    """Let everything up to `until` happen, a decision at each event; the clock stops there.

    Args:
        workload: the jobs.
        cluster: changed in place.
        queue: how decisions are made; what its network remembers is changed in place.
        until: seconds; inf runs until nothing more happens by itself.
    """
    no_rank = np.empty(0, dtype=np.int64)
    while True:
        event = next_event(workload, cluster)
        if np.isinf(event) or event > until:
            break
        advance(workload, cluster, event, no_rank)
        decide(workload, cluster, queue)
    if not np.isinf(until) and until > cluster.clock[NOW]:
        advance(workload, cluster, until, no_rank)
