"""What `make bench` measures of nodes, on a load small enough for a test."""

from __future__ import annotations

import numpy as np
import pytest

from bench.speed import nodes_speed
from bench.speed.nodes_speed import drawn_log, drawn_machine, load, rates
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log


def test_the_drawn_load_fits_the_drawn_nodes_and_asks_for_each_resource() -> None:
    prepared = prepare_log(drawn_log(500), machine=drawn_machine())
    assert drawn_machine().nodes == 217
    assert len(prepared.log) == 500
    assert prepared.log.requests is not None
    assert (prepared.log.requests.total.sum(axis=0) > 0).all()


def test_the_load_is_drawn_where_there_is_no_week(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_RL_TRACES", raising=False)
    monkeypatch.setattr(nodes_speed, "JOBS", 300)
    name, prepared = load()
    assert name == "jobs drawn for its nodes"
    assert np.isfinite(prepared.log.time_limit).all()


def test_every_order_has_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes_speed, "POLICIES", ("fifo",))
    found = rates(prepare_log(drawn_log(200), machine=drawn_machine()))
    assert set(found) == {"fifo, easy", "fifo, slurm", "fifo, processors only"}
    assert min(found.values()) > 0
