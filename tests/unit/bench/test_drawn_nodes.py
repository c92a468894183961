"""Logs of processors put on drawn nodes: what is kept, what is drawn, and that it fits."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.bench.drawn_nodes import DrawnLoad, on_drawn_nodes
from tests.reference.loads import log_of, users_workload

PROCESSORS = 64


def log() -> JobLog:
    workload = users_workload(3, 400, parallel=True)
    asked = workload.past.asked[workload.past.template]
    return log_of(workload, available=PROCESSORS, time_limit=asked)


def drawn(seed: int) -> DrawnLoad:
    return on_drawn_nodes(log(), PROCESSORS, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(6))
def test_jobs_and_machine_fit_and_the_busiest_resource_is_asked_for_as_drawn(seed: int) -> None:
    found, before = drawn(seed), log()
    assert found.log.run_time.tolist() == before.run_time.tolist()
    assert np.argsort(found.log.submit, kind="stable").tolist() == list(range(len(before)))
    asked, whole = found.log.requests, found.machine.capacity
    assert asked is not None
    span = found.log.submit[-1] - found.log.submit[0]
    loads = (found.log.run_time @ asked.total) / (span * np.maximum(whole, 1.0))
    assert 0.7 <= loads.max() <= 1.1
    assert (asked.total[:, 0] == found.log.processors).all()
    assert (asked.of("memory") > 0.0).all()
    prepared = prepare_log(found.log, machine=found.machine)
    assert len(prepared.log) > 0.9 * len(before)  # few ask for more memory than there is


def test_a_user_asks_for_the_same_again_and_draws_differ() -> None:
    gpus, memories = [], []
    for seed in range(8):
        found = drawn(seed)
        asked = found.log.requests
        assert asked is not None
        gpus.append((asked.of("gpus") > 0).mean())
        kinds = np.column_stack([log().user, log().processors, np.nan_to_num(log().time_limit)])
        place = np.unique(kinds, axis=0, return_inverse=True)[1].reshape(-1)
        for each in np.unique(place):
            assert len(np.unique(asked.total[place == each], axis=0)) == 1
        memories.append(float(asked.of("memory").sum()))
    assert len(set(memories)) == len(memories)
    assert max(gpus) > 0.0
