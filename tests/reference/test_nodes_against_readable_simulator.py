"""The compiled simulator of nodes gives the starts, ends and nodes that the readable one gives."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.domain.machine import Machine, MachinePartition, NodeKind
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.run import (
    AS_SLURM,
    NODE_BACKFILLING,
    simulate_on_nodes,
)
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_order
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from tests.reference.loads import log_of, random_workload
from tests.reference.node_loads import random_load
from tests.reference.nodes_both_ways import ORDERS, How, run_compiled, run_readable

LOADS, LOADS_WITH_RESERVE = 420, 120
CAPACITY = 12


def rule_of(rng: np.random.Generator) -> ClassLimit:
    """A rule that meets a few of its bounds in an hour."""
    resources = {"gpus": 2.0} if rng.random() < 0.6 else {}
    if rng.random() < 0.4:
        resources["memory"] = float(rng.choice([5.0, 16.0]))
    return ClassLimit(
        widest_batch_job=int(rng.integers(1, 4)),
        change_interval=float(rng.choice([0.0, 40.0, 300.0])),
        lift_after=float(rng.choice([200.0, 1500.0])),
        idle_after=float(rng.choice([300.0, 5000.0])),
        narrow_first=bool(rng.random() < 0.3),
        most=float(rng.choice([2.0, 5.0])),
        most_resources=resources,
        widest_batch_resources={"memory": 4.0} if "memory" in resources else {},
    )


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
@pytest.mark.parametrize("first", range(0, LOADS, 20))
def test_jobs_start_end_and_lie_where_the_readable_simulator_has_them(
    first: int, backfilling: str
) -> None:
    for seed in range(first, first + 20):  # settings by turns, so that each meets each
        cycle = 0.0 if backfilling == AS_SLURM else (0.0, 0.0, 30.0)[seed // 3 % 3]
        load = random_load(seed)
        how = How(backfilling, ORDERS[seed % 3], cycle, kill_at_limit=seed % 4 == 0)
        assert run_compiled(load, how) == run_readable(load, how), f"load {seed}, {how}"


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
@pytest.mark.parametrize("first", range(0, LOADS_WITH_RESERVE, 20))
def test_a_reserve_limits_batch_jobs_of_each_resource_as_in_the_readable_simulator(
    first: int, backfilling: str
) -> None:
    changed = 0
    for seed in range(first, first + 20):
        rng = np.random.default_rng(seed)
        cycle = 0.0 if backfilling == AS_SLURM else (0.0, 0.0, 30.0)[seed % 3]
        order, wanted = ("fifo", "fixed")[seed % 2], int(rng.integers(1, 7))
        load = random_load(seed)
        how = How(backfilling, order, cycle, seed % 4 == 0, wanted, rule_of(rng))
        found = run_compiled(load, how)
        assert found == run_readable(load, how), f"load {seed}, {how}"
        changed += found.start != run_compiled(load, how._replace(wanted=0, rule=None)).start
    assert changed >= 10


@pytest.mark.parametrize("backfilling", ["none", "easy"])
@pytest.mark.parametrize("seed", range(20))
def test_one_node_starts_jobs_when_a_pool_of_processors_does(seed: int, backfilling: str) -> None:
    machine = Machine(
        resources=("cpus",),
        kinds=(NodeKind(name="n", count=1, resources=(float(CAPACITY),)),),
        partitions=(MachinePartition(name="p", kinds=(0,), is_default=True),),
    )
    workload = random_workload(seed, 150, CAPACITY, parallel=True)
    settings = SimulationSettings(capacity=CAPACITY, backfilling=backfilling)
    scores = np.random.default_rng(seed).integers(0, 5, len(workload.submit)).astype(np.float64)
    for order in (QueueOrder(scores=scores), QueueOrder(rule="wfp3")):
        by_processors = simulate_order(workload, order, settings)
        one_node = node_machine(log_of(workload), machine)
        on_node = simulate_on_nodes(workload, one_node, order, settings)
        np.testing.assert_array_equal(on_node.start, by_processors.start)
