"""The reserve on nodes limits batch jobs of each resource as the readable simulator has it."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.schedules.run import AS_SLURM, NODE_BACKFILLING
from tests.reference.node_loads import random_load
from tests.reference.nodes_both_ways import How, run_compiled, run_readable

LOADS = 120


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


def how_of(seed: int, backfilling: str) -> How:
    rng = np.random.default_rng(seed)
    cycle = 0.0 if backfilling == AS_SLURM else (0.0, 0.0, 30.0)[seed % 3]
    order = ("fifo", "fixed")[seed % 2]
    return How(backfilling, order, cycle, seed % 4 == 0, int(rng.integers(1, 7)), rule_of(rng))


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
@pytest.mark.parametrize("first", range(0, LOADS, 20))
def test_jobs_start_and_lie_where_the_readable_simulator_has_them(
    first: int, backfilling: str
) -> None:
    changed = 0
    for seed in range(first, first + 20):
        load, how = random_load(seed), how_of(seed, backfilling)
        found = run_compiled(load, how)
        assert found == run_readable(load, how), f"load {seed}, {how}"
        changed += found.start != run_compiled(load, how._replace(wanted=0, rule=None)).start
    assert changed >= 10
