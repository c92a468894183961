"""Backfill on nodes is told run times, and plans with them, as the readable simulator has it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.simulator.schedules.on_nodes import AS_SLURM
from slurm_rl_plugin.units import DAY
from tests.reference.node_loads import NodeLoad, random_load
from tests.reference.nodes_both_ways import ORDERS, How, node_run, run_compiled, run_readable
from tests.reference.test_reserve_on_nodes import how_of as reserve_how_of

LOADS = 420
#: Run times and gaps are so many times longer: Slurm is told whole minutes.
LONGER = 16.0


def how_of(seed: int) -> How:
    """Settings by turns, so that each meets each."""
    slack, delay = (0.1, 10.0)[seed // 3 % 2], (60.0, 90.0, 400.0)[seed // 6 % 3]
    return How(AS_SLURM, ORDERS[seed % 3], 0.0, seed % 4 == 0, slack=slack, delay=delay)


def long_load(seed: int) -> NodeLoad:
    """A random load in hours in place of minutes; two of three ask for CPUs alone.

    Heads are promised what CPUs allow, so where they wait for other things few are told of.
    """
    load = random_load(seed)
    log = load.log if seed % 3 == 0 else replace(load.log, requests=cpus_alone(load.log.requests))
    days = replace(load.machine.backfill, window=10 * DAY, backfills=True)
    load = load._replace(machine=replace(load.machine, backfill=days))
    longer = {name: LONGER * getattr(log, name) for name in ("submit", "run_time", "time_limit")}
    return load._replace(log=replace(log, eligible=longer["submit"], **longer))


def cpus_alone(requests: ResourceRequests | None) -> ResourceRequests:
    """The same requests but for all that is no CPU."""
    assert requests is not None
    nothing = np.zeros_like(requests.nodes)
    return replace(
        requests,
        total=requests.total * (np.arange(requests.total.shape[1]) == 0),
        nodes=nothing,
        exclusive=nothing.astype(np.bool_),
        constraint=nothing,
    )


@pytest.mark.parametrize("first", range(0, LOADS, 60))
def test_jobs_start_and_lie_where_the_readable_simulator_has_them(first: int) -> None:
    changed = 0
    for seed in range(first, first + 60):
        load, how = long_load(seed), how_of(seed)
        found = run_compiled(load, how)
        assert found == run_readable(load, how), f"load {seed}, {how}"
        changed += found.start != run_compiled(load, how._replace(slack=None)).start
    assert changed >= 3


@pytest.mark.parametrize("first", range(0, 120, 60))
def test_a_reserve_is_kept_beside_it_as_the_readable_simulator_has_it(first: int) -> None:
    for seed in range(first, first + 60):
        kept = reserve_how_of(seed, AS_SLURM)
        how = how_of(seed)._replace(order=kept.order, wanted=kept.wanted, rule=kept.rule)
        load = long_load(seed)
        assert run_compiled(load, how) == run_readable(load, how), f"load {seed}, {how}"


@pytest.mark.parametrize("backfilling", ["none", "easy", "conservative"])
def test_nobody_is_told_but_backfill_as_slurm_does_it(backfilling: str) -> None:
    with pytest.raises(SimulationError, match="as Slurm does it"):
        node_run(random_load(1), How(backfilling, "fifo", slack=0.1))
