"""Partitions with processors of their own: queues apart, usage together."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.run import simulate_in_partitions
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_scores,
)
from tests.reference.loads import random_workload, workload_of

CAPACITY = 12
HOW = [
    SimulationSettings(capacity=CAPACITY, backfilling=backfilling, reserve=reserve, cycle=cycle)
    for backfilling in ("none", "easy")
    for reserve, cycle in ((0, 0.0), (2, 30.0))
]


@pytest.mark.parametrize("how", HOW, ids=str)
def test_orders_that_do_not_look_at_usage_schedule_each_partition_by_itself(
    how: SimulationSettings,
) -> None:
    workload = random_workload(6, parallel=True)
    partition = np.arange(len(workload.submit)) % 3
    capacities = [CAPACITY, CAPACITY + 3, CAPACITY + 1]
    scores = -workload.estimate
    both = simulate_in_partitions(workload, partition, capacities, QueueOrder(scores=scores), how)
    for number, capacity in enumerate(capacities):
        mine = partition == number
        alone = SimulationSettings(
            capacity=capacity, backfilling=how.backfilling, reserve=how.reserve, cycle=how.cycle
        )
        expected = simulate_scores(workload.select(mine), scores[mine], alone)
        assert both.start[mine].tolist() == expected.start.tolist()


def test_usage_in_one_partition_counts_in_the_other() -> None:
    """Account 0 fills partition 0; in partition 1 it is then behind account 1."""
    workload = workload_of(
        [0.0, 10.0, 20.0, 30.0],
        [1000.0, 100.0, 100.0, 100.0],
        processors=[4, 1, 1, 1],
        account=[0, 1, 0, 1],
        shares=[0.5, 0.5],
    )
    settings = SimulationSettings(capacity=5)
    together = simulate_in_partitions(
        workload, np.array([0, 1, 1, 1]), [4, 1], QueueOrder(rule="multifactor"), settings
    )
    assert together.start.tolist() == [0.0, 10.0, 210.0, 110.0]
    alone = simulate_in_partitions(
        workload.select(np.array([1, 2, 3])),
        np.zeros(3, dtype=np.int64),
        [1],
        QueueOrder(rule="multifactor"),
        settings,
    )
    assert alone.start.tolist() == [10.0, 110.0, 210.0]
