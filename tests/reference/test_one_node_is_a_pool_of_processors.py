"""A machine of one node is what the kernel of processors simulates: the same starts, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.machine_now import NodeMachine, no_limits
from slurm_rl_plugin.simulator.nodes.node_state import node_requests
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.run import simulate_on_nodes
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_order
from tests.reference.loads import random_workload

CAPACITY = 12


def one_node(workload: Workload) -> NodeMachine:
    """All processors on one node, which all jobs share."""
    jobs = len(workload.submit)
    requests = node_requests(
        nodes=np.zeros(jobs, dtype=np.int64),
        total=workload.processors[:, None].astype(np.float64),
        cpus_per_task=np.ones(jobs, dtype=np.int64),
        memory_per_cpu=np.zeros(jobs, dtype=np.bool_),
        memory=-1,
        whole=np.zeros(jobs, dtype=np.bool_),
        pool=np.zeros(jobs, dtype=np.int64),
        pools=[np.array([0])],
        node_has=np.array([[float(CAPACITY)]]),
    )
    return NodeMachine(
        whole=np.array([[float(CAPACITY)]]),
        weight=np.ones(1, dtype=np.int64),
        requests=requests,
        limits=no_limits(jobs, 3),
        kinds=("cpus", "nodes", "jobs"),
        together={"cpus": float(CAPACITY)},
        partition=np.zeros(jobs, dtype=np.int64),
        tier=np.ones(jobs, dtype=np.int64),
        user=np.zeros(jobs, dtype=np.int64),
        serves=np.ones((1, 1), dtype=np.bool_),
    )


@pytest.mark.parametrize("backfilling", ["none", "easy"])
@pytest.mark.parametrize("seed", range(20))
def test_one_node_starts_jobs_when_a_pool_of_processors_does(seed: int, backfilling: str) -> None:
    workload = random_workload(seed, 150, CAPACITY, parallel=True)
    settings = SimulationSettings(capacity=CAPACITY, backfilling=backfilling)
    scores = np.random.default_rng(seed).integers(0, 5, len(workload.submit)).astype(np.float64)
    for order in (QueueOrder(scores=scores), QueueOrder(rule="wfp3")):
        by_processors = simulate_order(workload, order, settings)
        on_node = simulate_on_nodes(workload, one_node(workload), order, settings)
        np.testing.assert_array_equal(on_node.start, by_processors.start)
