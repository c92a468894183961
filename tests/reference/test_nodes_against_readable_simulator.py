"""The compiled simulator of nodes gives the starts, ends and nodes that the readable one gives."""

from __future__ import annotations

import pytest

from slurm_rl_plugin.simulator.schedules.run import AS_SLURM, NODE_BACKFILLING
from tests.reference.node_loads import random_load
from tests.reference.nodes_both_ways import ORDERS, How, run_compiled, run_readable

LOADS = 420


def how_of(seed: int, backfilling: str) -> How:
    """Settings by turns, so that each meets each."""
    cycle = 0.0 if backfilling == AS_SLURM else (0.0, 0.0, 30.0)[seed // 3 % 3]
    return How(backfilling, ORDERS[seed % 3], cycle, kill_at_limit=seed % 4 == 0)


@pytest.mark.parametrize("backfilling", NODE_BACKFILLING)
@pytest.mark.parametrize("first", range(0, LOADS, 20))
def test_jobs_start_end_and_lie_where_the_readable_simulator_has_them(
    first: int, backfilling: str
) -> None:
    for seed in range(first, first + 20):
        load, how = random_load(seed), how_of(seed, backfilling)
        assert run_compiled(load, how) == run_readable(load, how), f"load {seed}, {how}"
