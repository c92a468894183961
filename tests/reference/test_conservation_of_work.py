"""No order without preemption buys much work-weighted waiting: it only moves it about."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.learning.evaluation.paired import Candidate, starts_under
from slurm_rl_plugin.policies.ordering_rules import STATIC_RULES
from slurm_rl_plugin.policies.waiting_rules import WAITING_RULES
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log

SETTINGS = SimulationSettings(capacity=50)
SEEDS = range(5)
FRACTIONS = (0.2, 0.4, 0.5)


@pytest.fixture(scope="module", params=FRACTIONS)
def logs(request: pytest.FixtureRequest) -> list[PreparedLog]:
    """The 2008 load, rho .99, for one interactive fraction."""
    return [
        prepare_log(mmn_log(np.random.default_rng(seed), interactive=request.param), capacity=50)
        for seed in SEEDS
    ]


def weighted_waits(logs: list[PreparedLog], rule: str) -> float:
    """Sum over all jobs of run time * wait."""
    total = 0.0
    for each in logs:
        start = starts_under(Candidate(name=rule), each, each.workload(None), SETTINGS)
        total += float(each.log.run_time @ (start - each.log.submit))
    return total


@pytest.fixture(scope="module")
def of_fifo(logs: list[PreparedLog]) -> float:
    return weighted_waits(logs, "fifo")


@pytest.mark.parametrize("rule", [*STATIC_RULES, *WAITING_RULES])
def test_no_rule_gets_below_the_work_weighted_wait_of_fifo(
    rule: str, logs: list[PreparedLog], of_fifo: float
) -> None:
    assert weighted_waits(logs, rule) >= 0.97 * of_fifo


def test_interactive_first_keeps_the_work_weighted_wait_of_fifo(
    logs: list[PreparedLog], of_fifo: float
) -> None:
    # it looks at the class alone, so that it can hardly gain by packing
    assert weighted_waits(logs, "interactive-first") == pytest.approx(of_fifo, rel=0.02)


def test_a_reserve_does_not_conserve_it(logs: list[PreparedLog], of_fifo: float) -> None:
    """Processors left idle cost work-weighted wait: the law is one of greedy schedules."""
    held = SimulationSettings(capacity=50, reserve=2)
    total = 0.0
    for each in logs:
        start = starts_under(Candidate(name="interactive-first"), each, each.workload(None), held)
        total += float(each.log.run_time @ (start - each.log.submit))
    assert total > 1.05 * of_fifo
