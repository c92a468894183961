"""FIFO on M/M/50 waits as long as queueing theory says."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_scores
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from tests.reference.loads import workload_of

SERVERS = 50
JOBS = 1_200_000
#: The first tenth starts on an empty machine and is not counted.
WARM_UP = JOBS // 10
BATCHES = 27


def erlang_c_mean_wait(servers: int, load: float, mean_run_time: float) -> float:
    """Mean wait of M/M/N: P(wait) * mean run time / (N (1 - load))."""
    offered = servers * load
    blocked = 1.0  # Erlang B by its recursion
    for busy in range(1, servers + 1):
        blocked = offered * blocked / (busy + offered * blocked)
    waits = blocked / (1.0 - load * (1.0 - blocked))
    return waits * mean_run_time / (servers * (1.0 - load))


def test_erlang_c_of_one_server_is_the_known_formula() -> None:
    assert erlang_c_mean_wait(1, 0.8, 10.0) == pytest.approx(0.8 * 10.0 / 0.2)


@pytest.mark.parametrize(
    "load",
    [pytest.param(0.7, marks=pytest.mark.study), 0.9, pytest.param(0.97, marks=pytest.mark.study)],
)
def test_mean_wait_of_mm50_agrees_with_erlang_c(load: float) -> None:
    log = mmn_log(np.random.default_rng(1), load=load, processors=SERVERS, jobs=JOBS)
    workload = workload_of(
        log.submit,
        log.run_time,
        processors=log.processors,
        account=log.account,
        shares=np.full(4, 0.25),
    )
    start = simulate_scores(workload, -log.submit, SimulationSettings(capacity=SERVERS)).start
    mean_run_time = 900.0 / -np.log(0.6)
    expected = erlang_c_mean_wait(SERVERS, load, mean_run_time)
    # batches of 40,000 jobs last about ten relaxation times at 0.97, and far more at lower loads,
    # so that their means are all but independent
    means = (start - log.submit)[WARM_UP:].reshape(BATCHES, -1).mean(axis=1)
    standard_error = means.std(ddof=1) / np.sqrt(BATCHES)
    assert abs(means.mean() - expected) < 3 * standard_error
    # the sample is large enough to distinguish 50 servers from 49
    one_fewer = erlang_c_mean_wait(SERVERS - 1, load * SERVERS / (SERVERS - 1), mean_run_time)
    assert one_fewer - means.mean() > 3 * standard_error
