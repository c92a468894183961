"""Plan estimates: the compiled loop and the readable simulator plan alike."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError, SimulationError
from slurm_rl_plugin.features.history.run_prediction import RunTimePrediction
from slurm_rl_plugin.policies.ordering_rules import STATIC_RULES
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_order
from slurm_rl_plugin.simulator.scoring.plan_estimates import PlanRule
from slurm_rl_plugin.units import FloatArray
from tests.reference.loads import jobs_of, random_workload, table_of
from tests.reference.readable_simulator import Plan, rule, simulate

CAPACITY = 12


def limited_workload(seed: int) -> tuple[Workload, FloatArray]:
    """Jobs that ask for more than they run, and estimates between, some of them too short."""
    workload = random_workload(seed, parallel=True)
    rng = np.random.default_rng(seed)
    limit = np.ceil(workload.run_time * rng.choice([1.0, 2.0, 8.0], len(workload.submit)) / 60) * 60
    estimates = np.ceil(workload.run_time * rng.choice([0.3, 1.0, 1.5], len(workload.submit)))
    return workload._replace(estimate=limit, time_limit=limit), estimates


def starts(workload: Workload, name: str, plan: PlanRule | None, cycle: float = 0.0) -> list[float]:
    order = QueueOrder(rule=name)
    if name in STATIC_RULES:
        scores = STATIC_RULES[name](table_of(workload), workload.estimate)
        order = QueueOrder(scores=np.asarray(scores, dtype=np.float64))
    how = SimulationSettings(capacity=CAPACITY, backfilling="easy", plan=plan, cycle=cycle)
    return simulate_order(workload, order, how).start.tolist()


@pytest.mark.parametrize("cycle", [0.0, 30.0])
@pytest.mark.parametrize("slack", [0.0, 0.5])
@pytest.mark.parametrize("kind", ["pending", "consistent"])
@pytest.mark.parametrize("name", ["fifo", "sjf", "wfp3"])
def test_the_compiled_loop_plans_as_the_readable_simulator_does(
    name: str, kind: str, slack: float, cycle: float
) -> None:
    differ = 0
    for seed in range(3, 9):
        workload, seconds = limited_workload(seed)
        found = starts(workload, name, PlanRule(kind=kind, seconds=seconds, slack=slack), cycle)
        assert found == simulate(
            jobs_of(workload),
            CAPACITY,
            rule(name),
            easy=True,
            cycle=cycle,
            plan=Plan(seconds.tolist(), kind == "consistent", slack),
        )
        differ += found != starts(workload, name, None, cycle)
    assert differ > 0


@pytest.mark.parametrize("kind", ["pending", "consistent"])
def test_a_plan_by_the_limits_is_the_plan_by_requests(kind: str) -> None:
    workload, _ = limited_workload(4)
    plan = PlanRule(kind=kind, seconds=workload.estimate)
    assert starts(workload, "sjf", plan) == starts(workload, "sjf", None)


def test_no_candidate_pushes_the_head_beyond_its_promise() -> None:
    """Every estimate is a second: heads start when they were promised to, or a minute later."""
    for seed in range(3, 9):
        workload, _ = limited_workload(seed)
        plan = PlanRule(kind="pending", seconds=np.ones(len(workload.submit)), slack=0.0)
        with_plan = starts(workload, "fifo", plan)
        by_requests = starts(workload, "fifo", None)
        assert with_plan != by_requests
        # under first come, first served each job is head in its turn: pushes add up, but slowly
        late = np.array(with_plan) - by_requests
        assert late.max() <= 60.0 * len(workload.submit)


def test_a_plan_needs_run_times_of_one_kind() -> None:
    prediction = RunTimePrediction.untrained()
    for wrong in ({}, {"seconds": np.ones(2), "prediction": prediction}):
        with pytest.raises(ConfigurationError, match="either predicted or given"):
            PlanRule(kind="pending", **wrong)
    with pytest.raises(ConfigurationError, match="'truth'"):
        PlanRule(kind="truth", seconds=np.ones(2))
    workload, _ = limited_workload(4)
    with pytest.raises(SimulationError, match="an estimate of each job"):
        starts(workload, "fifo", PlanRule(kind="pending", seconds=np.ones(2)))
