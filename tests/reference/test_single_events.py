"""The plans and orders of SC 2015, with events that are decided on one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.papers.backfilling_predictions_2015.plan import (
    CONSISTENT,
    CORRECTIONS,
    DOUBLED,
    PENDING_ONLY,
    behind_head,
    by_last_runs,
    by_requests,
    starts_under,
)
from slurm_rl_plugin.papers.backfilling_predictions_2015.plan import Plan as CompiledPlan
from slurm_rl_plugin.simulator.kernel.workload import NO_PAST, Workload, nothing_past
from slurm_rl_plugin.units import FloatArray
from tests.reference.loads import jobs_of, random_workload
from tests.reference.readable_simulator import Job, Moment, Plan, Scorer, rule, simulate

CAPACITY = 12
FIRST_COME, BEHIND_HEAD = "first come", "shortest behind the head"
ORDERS = pytest.mark.parametrize("order", [FIRST_COME, BEHIND_HEAD])


def workload_of_users(seed: int) -> tuple[Workload, FloatArray]:
    """Jobs of three users in whole seconds; many end and arrive at the same instant.

    They ask for more than they run; some of the estimates are too short.
    """
    workload = random_workload(seed, parallel=True)
    rng = np.random.default_rng(seed)
    limit = np.ceil(workload.run_time * rng.choice([1.0, 2.0, 8.0], len(workload.submit)) / 60) * 60
    estimates = np.ceil(workload.run_time * rng.choice([0.3, 1.0, 1.5], len(workload.submit)))
    run_time = np.ceil(workload.run_time / 60) * 60
    submit = np.floor(workload.submit / 60) * 60
    user = np.random.default_rng(seed).integers(0, 3, len(submit))
    each = np.arange(len(user))
    past = nothing_past(user, each, np.full(len(user), np.nan), workload.processors)
    limit = np.maximum(limit, run_time)
    changed = {"submit": submit, "run_time": run_time, "estimate": limit, "time_limit": limit}
    return workload.having(**changed, past=past), estimates


def shortest_behind_head(seconds: Sequence[float]) -> Scorer:
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


def planned(
    workload: Workload,
    seconds: FloatArray,
    kind: int,
    correction: str = DOUBLED,
    slack: float = 0.0,
) -> CompiledPlan:
    """A plan by given estimates."""
    code = CORRECTIONS[correction]
    return by_requests(workload)._replace(kind=kind, correction=code, seconds=seconds, part=slack)


def starts(
    workload: Workload, order: str, plan: CompiledPlan, seconds: FloatArray | None = None
) -> list[float]:
    assumed = plan.seconds if seconds is None else seconds
    queue = behind_head(assumed if order == BEHIND_HEAD else np.zeros_like(assumed))
    return starts_under(workload, CAPACITY, queue, plan).tolist()


def read(workload: Workload, scorer: Scorer, plan: Plan | None) -> list[float]:
    return simulate(jobs_of(workload), CAPACITY, scorer, easy=True, plan=plan, singly=True)


#: Kind of a plan, and what its estimates are corrected by or how late a head may start.
PLANS = [
    *((CONSISTENT, {"correction": each}) for each in CORRECTIONS),
    *((PENDING_ONLY, {"slack": each}) for each in (0.0, 0.5)),
]


@pytest.mark.parametrize(("kind", "more"), PLANS)
@ORDERS
def test_given_estimates_are_planned_with_as_the_readable_simulator_does(
    order: str, kind: int, more: dict[str, Any]
) -> None:
    differ = 0
    for seed in range(3, 8):
        workload, seconds = workload_of_users(seed)
        found = starts(workload, order, planned(workload, seconds, kind, **more))
        scorer = rule("fifo") if order == FIRST_COME else shortest_behind_head(seconds.tolist())
        plan = Plan(seconds.tolist(), kind == CONSISTENT, **more)
        assert found == read(workload, scorer, plan)
        differ += found != starts(workload, order, by_requests(workload), seconds)
    assert differ > 0


@ORDERS
def test_requests_are_planned_with_as_the_readable_simulator_does(order: str) -> None:
    for seed in range(3, 8):
        workload, _ = workload_of_users(seed)
        requests = workload.estimate
        scorer = rule("fifo") if order == FIRST_COME else shortest_behind_head(requests.tolist())
        found = starts(workload, order, by_requests(workload), requests)
        assert found == read(workload, scorer, None)
        for kind in (PENDING_ONLY, CONSISTENT):
            assert found == starts(workload, order, planned(workload, requests, kind))


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_the_last_two_runs_are_those_that_had_ended_before_the_job_came(correction: str) -> None:
    for seed in range(3, 8):
        workload, _ = workload_of_users(seed)
        users = workload.past.user.tolist()
        found = starts(workload, FIRST_COME, by_last_runs(workload, correction))
        plan = Plan((), True, correction=correction, users=users)
        assert found == read(workload, rule("fifo"), plan)
        assert found != starts(workload, FIRST_COME, by_requests(workload))


def test_a_plan_by_last_runs_needs_users() -> None:
    workload, _ = workload_of_users(4)
    nobody = workload.having(past=NO_PAST)
    with pytest.raises(SimulationError, match="needs to know users"):
        by_last_runs(nobody, DOUBLED)
