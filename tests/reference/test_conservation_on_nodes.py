"""Laws of any schedule on nodes, of each resource, checked on starts, ends and places."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from slurm_rl_plugin.simulator.schedules.run import NODE_BACKFILLING
from tests.reference.node_loads import NodeLoad, random_load
from tests.reference.nodes_both_ways import ORDERS, How, Ran, run_compiled
from tests.reference.readable_machine import QueuedJob, jobs_on, nodes_of
from tests.reference.readable_nodes import World
from tests.reference.readable_placement import TINY, taken

hows = st.builds(
    How,
    st.sampled_from(NODE_BACKFILLING),
    st.sampled_from(ORDERS),
    st.just(0.0),
    st.booleans(),
    wanted=st.just(0),
    rule=st.none(),
)
loads = st.builds(random_load, st.integers(1000, 100_000), st.integers(5, 30))


def ran_jobs(load: NodeLoad, how: How) -> tuple[list[QueuedJob], Ran]:
    found = jobs_on(load.log, load.machine, kill_at_limit=how.kill_at_limit)
    if not found:
        reject()  # such a log is refused
    ran = run_compiled(load, how)
    assert ran.job == list(found), "every job that can ever run does, once, and no other"
    return list(found.values()), ran


def running_at(ran: Ran, time: float) -> list[int]:
    spans = enumerate(zip(ran.start, ran.end, strict=True))
    return [j for j, (start, end) in spans if start <= time < end]


@settings(max_examples=60, deadline=None)
@given(loads, hows)
def test_nowhere_is_more_given_than_a_node_has_of_any_resource(load: NodeLoad, how: How) -> None:
    jobs, ran = ran_jobs(load, how)
    nodes = nodes_of(load.machine)
    for time in set(ran.start):
        given_out = [Counter[str]() for _ in nodes]
        holders = Counter[int]()
        running = running_at(ran, time)
        for j in running:
            for node, cpus in ran.place[j].items():
                given_out[node].update(taken(jobs[j].asks, cpus))
                holders[node] += 1
        for node, out in zip(nodes, given_out, strict=True):
            assert all(amount <= node.has[name] + TINY for name, amount in out.items())
        for j in running:
            if jobs[j].asks.alone:
                assert all(holders[node] == 1 for node in ran.place[j])


@pytest.mark.parametrize("backfilling", ["none", "easy"])
@pytest.mark.parametrize("seed", range(12))
def test_the_first_in_the_queue_never_waits_beside_room(seed: int, backfilling: str) -> None:
    """Without limits: those who start behind it may use up its own. Of one node: Slurm's sets of
    nodes may fit a wider one once a smaller job has started."""
    drawn, how = random_load(seed), How(backfilling, "fifo")
    machine = replace(drawn.machine, qos={}, accounts={}, users={}, licences={})
    load = NodeLoad(drawn.log, machine)
    jobs, ran = ran_jobs(load, how)
    world = World(jobs, nodes_of(load.machine))
    for time in sorted({*ran.start, *ran.end}):
        world.now = time
        for j in np.flatnonzero(np.array(ran.start) == time).tolist():
            world.start_at(j, ran.place[j])
        order = world.in_order(lambda at: [-at.jobs[j].submit for j in at.pending])
        if order and jobs[order[0]].asks.most == 1:
            assert world.find(order[0]) is None
