"""EASY++ of 2007: its order, predictions and corrections, and events that are decided on singly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError, SimulationError
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.kernel.workload_history import nothing_past
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, simulate_order
from slurm_rl_plugin.simulator.scoring.plan_estimates import PlanRule
from slurm_rl_plugin.units import FloatArray
from tests.reference.loads import jobs_of
from tests.reference.readable_simulator import Job, Moment, Plan, Scorer, rule, simulate
from tests.reference.test_plan_estimates import CAPACITY, limited_workload

CORRECTIONS = ("doubled", "doubled-beyond", "requested", "stepped")
FIRST_COME, BEHIND_HEAD = "first come", "shortest behind the head"


def workload_of_users(seed: int) -> tuple[Workload, FloatArray]:
    """Jobs of three users in whole seconds, many of which end and arrive at the same instant."""
    workload, estimates = limited_workload(seed)
    run_time = np.ceil(workload.run_time / 60) * 60
    submit = np.floor(workload.submit / 60) * 60
    user = np.random.default_rng(seed).integers(0, 3, len(submit))
    past = nothing_past(user, user, np.full(len(user), np.nan))
    limit = np.maximum(workload.estimate, run_time)
    return workload._replace(submit=submit, run_time=run_time, estimate=limit, past=past), estimates


def behind_head(seconds: Sequence[float]) -> Scorer:
    """The jobs that start at once and the head in the order of submission, then the shortest."""

    def scores(jobs: Sequence[Job], at: Moment) -> list[tuple[float, ...]]:
        free = CAPACITY - sum(jobs[j].processors for j in at.running)
        found: list[tuple[float, ...]] = []
        for j in at.pending:
            found.append((1.0, -j) if free >= 0 else (0.0, -seconds[j]))
            if free >= 0:
                free -= jobs[j].processors
        return found

    return scores


def starts(workload: Workload, order: str, **settings: Any) -> list[float]:
    how = SimulationSettings(capacity=CAPACITY, backfilling="easy", **settings)
    first_come = QueueOrder(scores=-np.arange(len(workload.submit), dtype=np.float64))
    queue = QueueOrder(shortest_behind=True) if order == BEHIND_HEAD else first_come
    return simulate_order(workload, queue, how).start.tolist()


@pytest.mark.parametrize("singly", [False, True])
@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("order", [FIRST_COME, BEHIND_HEAD])
def test_given_estimates_are_planned_with_as_the_readable_simulator_does(
    order: str, correction: str, singly: bool
) -> None:
    differ = 0
    for seed in range(3, 8):
        workload, seconds = workload_of_users(seed)
        plan = PlanRule(kind="consistent", seconds=seconds, correction=correction)
        found = starts(workload, order, plan=plan, singly=singly)
        assert found == simulate(
            jobs_of(workload),
            CAPACITY,
            behind_head(seconds.tolist()) if order == BEHIND_HEAD else rule("fifo"),
            easy=True,
            plan=Plan(seconds.tolist(), True, correction=correction),
            singly=singly,
        )
        differ += found != starts(workload, order, plan=plan, singly=not singly)
    assert differ > 0


@pytest.mark.parametrize("singly", [False, True])
@pytest.mark.parametrize("order", [FIRST_COME, BEHIND_HEAD])
def test_requests_are_planned_with_as_the_readable_simulator_does(order: str, singly: bool) -> None:
    for seed in range(3, 8):
        workload, _ = workload_of_users(seed)
        requests = workload.estimate.tolist()
        assert starts(workload, order, singly=singly) == simulate(
            jobs_of(workload),
            CAPACITY,
            behind_head(requests) if order == BEHIND_HEAD else rule("fifo"),
            easy=True,
            singly=singly,
        )


@pytest.mark.parametrize("singly", [False, True])
@pytest.mark.parametrize("kind", ["pending", "consistent"])
def test_the_last_two_runs_are_those_that_had_ended_before_the_job_came(
    kind: str, singly: bool
) -> None:
    for seed in range(3, 8):
        workload, _ = workload_of_users(seed)
        users = workload.past.user.tolist()
        consistent = kind == "consistent"
        found = starts(
            workload, FIRST_COME, plan=PlanRule(kind=kind, last_runs=True), singly=singly
        )
        assert found == simulate(
            jobs_of(workload),
            CAPACITY,
            rule("fifo"),
            easy=True,
            plan=Plan((), consistent, slack=0.1, users=users),
            singly=singly,
        )
        assert found != starts(workload, FIRST_COME, singly=singly)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'tripled': give one of doubled,"):
        PlanRule(kind="consistent", last_runs=True, correction="tripled")
    workload, seconds = workload_of_users(4)
    with pytest.raises(ConfigurationError, match="either predicted or given"):
        PlanRule(kind="consistent", last_runs=True, seconds=seconds)
    nobody = workload._replace(past=nothing_past(*[np.empty(0, dtype=np.int64)] * 2, np.empty(0)))
    with pytest.raises(SimulationError, match="needs to know users"):
        starts(nobody, FIRST_COME, plan=PlanRule(kind="consistent", last_runs=True))
    for wrong in ({"cycle": 30.0}, {"class_limit": ClassLimit()}):
        with pytest.raises(SimulationError, match="no cycle and no class limit"):
            starts(workload, FIRST_COME, singly=True, **wrong)
