"""What `make bench` measures of a replayed queue, small enough for a test."""

from __future__ import annotations

import itertools

import pytest

from bench.speed.nodes_speed import drawn_machine
from bench.speed.replayed_queue import ORDERS, campaign, renewed, site_and_queue
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log


@pytest.mark.parametrize("order", ORDERS)
def test_replays_end_when_the_time_is_up(order: str) -> None:
    prepared = prepare_log(campaign(3000, 1500), capacity=800)
    site, queue = site_and_queue(prepared, ORDERS[order], "easy", 400)
    ticks = itertools.count()
    found = renewed(site, queue, 3.5, lambda: float(next(ticks)))
    assert found["pending"] == 400
    assert found["replays"] == 3  # a tick each, and a fourth would have ended past the time
    assert found["last start, days"] > 0.0


def test_the_queue_is_one_of_nodes_where_there_are_any() -> None:
    prepared = prepare_log(campaign(300, 40), machine=drawn_machine())
    site, queue = site_and_queue(prepared, ORDERS["fifo"], "easy", 10**9)
    assert site.machine is not None
    assert queue.held is not None
    assert len(queue.running) > 0
