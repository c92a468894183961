"""What `make bench` measures of the simulator, on a log small enough for a test."""

from __future__ import annotations

import numpy as np

from bench.speed.simulator_speed import (
    against_the_reference,
    events_alone,
    on_whole_logs,
    per_decision,
)
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log


def small() -> PreparedLog:
    return prepare_log(mmn_log(np.random.default_rng(1), processors=5, jobs=200, load=0.9))


def test_every_scorer_has_a_rate() -> None:
    rates = on_whole_logs(small())
    assert set(rates) == {
        *("fifo", "saf", "linear scorer"),
        *("16 hidden units", "16 hidden units, past runs"),
    }
    assert min(rates.values()) > 0


def test_a_machine_on_which_nobody_waits_has_a_rate() -> None:
    assert events_alone(small()) > 0


def test_the_readable_reference_gives_the_same_schedule_and_a_ratio() -> None:
    assert min(against_the_reference(small()).values()) > 0


def test_a_decision_takes_some_time_with_and_without_a_network() -> None:
    taken = per_decision(10)
    assert set(taken) == {"fixed scores", "16 hidden units"}
    assert min(taken.values()) > 0
