"""Protected jobs: the compiled loop, the readable simulator and a live policy agree on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.learning.export.network import export_network
from slurm_rl_plugin.policies.ordering_rules import STATIC_RULES
from slurm_rl_plugin.policies.protected_policy import protected_policy
from slurm_rl_plugin.policies.protection import Protection
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.policies.registry import rule_policy
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.kernel.workload_history import nothing_past
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.policy_driver import simulate_policy
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_network,
    simulate_order,
    simulate_scores,
)
from tests.functional.small_network import small_network
from tests.reference.loads import jobs_of, random_workload, table_of
from tests.reference.readable_simulator import Protect, rule, simulate
from tests.reference.test_policy_driver import LOAD, WORKLOAD

CAPACITY = 12
WAYS = [("none", 0.0), ("easy", 0.0), ("easy", 30.0)]


def order_of(name: str, workload: Workload, protection: Protection | None) -> QueueOrder:
    if name not in STATIC_RULES:
        return QueueOrder(rule=name, protection=protection)
    scores = STATIC_RULES[name](table_of(workload), workload.estimate)
    return QueueOrder(scores=np.asarray(scores, dtype=np.float64), protection=protection)


@pytest.mark.parametrize("protection", [Protection(jobs=1, after=0.1), Protection(jobs=3, after=0)])
@pytest.mark.parametrize(("backfilling", "cycle"), WAYS)
@pytest.mark.parametrize("name", ["sjf", "interactive-first", "wfp3"])
def test_the_compiled_loop_protects_whom_the_readable_simulator_protects(
    name: str, backfilling: str, cycle: float, protection: Protection
) -> None:
    for seed in (7, 8, 9):
        workload = random_workload(seed, parallel=True)
        how = SimulationSettings(capacity=CAPACITY, backfilling=backfilling, cycle=cycle)
        found = simulate_order(workload, order_of(name, workload, protection), how).start.tolist()
        assert found == simulate(
            jobs_of(workload),
            CAPACITY,
            rule(name),
            easy=backfilling == "easy",
            cycle=cycle,
            protect=Protect(protection.jobs, protection.after),
        )
        unprotected = simulate_order(workload, order_of(name, workload, None), how).start.tolist()
        assert found != unprotected


@pytest.mark.parametrize(("backfilling", "cycle"), WAYS)
def test_a_protected_rule_drives_as_the_compiled_loop_does(backfilling: str, cycle: float) -> None:
    how = SimulationSettings(capacity=16, backfilling=backfilling, cycle=cycle)
    driven = simulate_policy(LOAD, WORKLOAD, rule_policy("protected:2,0.05:sjf"), how)
    order = QueueOrder(scores=-WORKLOAD.estimate, protection=Protection(jobs=2, after=0.05))
    assert driven.start.tolist() == simulate_order(WORKLOAD, order, how).start.tolist()
    assert driven.start.tolist() != simulate_scores(WORKLOAD, order.scores, how).start.tolist()


def test_a_protected_model_drives_as_the_compiled_network_does(tmp_path) -> None:
    network = replace(small_network(hidden=4), protection=Protection(jobs=2, after=0.05))
    export_network(network, tmp_path / "model.onnx", {"estimates": "requested"})
    scorer = load_q_network(tmp_path / "model.onnx")
    policy = protected_policy(scorer, network.protection)
    how = SimulationSettings(capacity=16, backfilling="easy")
    driven = simulate_policy(LOAD, WORKLOAD, policy, how).start.tolist()
    assert driven == simulate_network(WORKLOAD, network, how).start.tolist()
    assert (
        driven != simulate_network(WORKLOAD, replace(network, protection=None), how).start.tolist()
    )


def stream_of_narrow_jobs(hours: float) -> Workload:
    """A job of all processors, and narrow short ones that could keep the machine full for ever."""
    count = int(hours * 3600 / 60)
    submit = np.concatenate([[0.0, 1.0], 2.0 + 60.0 * np.arange(count)])
    jobs = len(submit)
    run_time = np.full(jobs, 1300.0)
    run_time[0], run_time[1] = 600.0, 3600.0
    processors = np.ones(jobs, dtype=np.int64)
    processors[1] = 16
    return Workload(
        submit=submit,
        run_time=run_time,
        estimate=run_time,
        time_limit=run_time,
        processors=processors,
        account=np.zeros(jobs, dtype=np.int64),
        interactive=np.zeros(jobs, dtype=np.bool_),
        shares=np.ones(1),
        past=nothing_past(np.arange(jobs), np.arange(jobs), run_time),
    )


@pytest.mark.parametrize("backfilling", ["none", "easy"])
def test_a_wide_job_under_a_stream_of_narrow_ones_starts(backfilling: str) -> None:
    workload = stream_of_narrow_jobs(hours=48.0)
    how = SimulationSettings(capacity=16, backfilling=backfilling)
    order = QueueOrder(scores=-workload.estimate)
    starved = simulate_order(workload, order, how).start[1]
    protected = simulate_order(workload, replace(order, protection=Protection()), how).start[1]
    assert starved > 24 * 3600.0
    assert protected < 2 * 3600.0
