"""What a setting may cost on the past: misdelivery in the mean, longest wait on each stretch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.machine_files.reader import read_cluster
from slurm_rl_plugin.policies.waiting_rules import SITES_OWN
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_shares import PAST_WORK
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.units import MINUTE
from slurm_rl_plugin.utility.reward import RewardWeights
from slurm_rl_plugin.what_if.tuning.search import (
    LONGEST_WAITS,
    MISDELIVERED_MORE,
    TuningTask,
    bounded_objective,
    candidate_objective,
    stretches_of,
)
from tests.functional.small_site import write_busy_site

OWN = Candidate(name=SITES_OWN)
SHARES = {"1": 0.6, "2": 0.3, "3": 0.1}


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> TuningTask:
    """A stretch of the past, and the same with denser arrivals."""
    folder = tmp_path_factory.mktemp("site")
    write_busy_site(folder)
    cluster = read_cluster(folder / "slurm.conf")
    prepared = prepare_log(read_log(folder / "log.swf")[0], machine=cluster.machine, shares=SHARES)
    settings = SimulationSettings(capacity=prepared.capacity, backfilling="slurm")
    parts = stretches_of(prepared, 1, 600)
    return TuningTask.of(cluster, parts, settings, RewardWeights())


def cost(task: TuningTask, lost: tuple[float, float], longest: float = 1.0) -> float:
    """What the site's own order pays, had it misdelivered more and its longest wait grown."""
    guarded = tuple(
        (misdelivered - more, wait / longest)
        for (misdelivered, wait), more in zip(task.guarded, lost, strict=True)
    )
    now = bounded_objective(replace(task, guarded=guarded), OWN)
    return candidate_objective(task, OWN) - now


def test_shares_that_nobody_configured_bound_nothing(task: TuningTask) -> None:
    parts = [replace(each.prepared, shares_from=PAST_WORK) for each in task.loads[:1]]
    derived = TuningTask.of(task.cluster, parts, task.loads[0].settings, task.weights)
    assert derived.guarded[0][0] == 0.0 < task.guarded[0][0]
    assert derived.guarded[0][1] == task.guarded[0][1]


def test_what_costs_nothing_pays_nothing(task: TuningTask) -> None:
    assert cost(task, (0.0, 0.0)) == 0.0
    assert cost(task, (-0.2, -0.1), 0.5) == 0.0


def test_misdelivery_is_bounded_in_the_mean_over_the_stretches(task: TuningTask) -> None:
    assert cost(task, (1.8 * MISDELIVERED_MORE, 0.0)) == 0.0
    assert cost(task, (5.0 * MISDELIVERED_MORE, -4.0 * MISDELIVERED_MORE)) == 0.0
    dear = cost(task, (3.0 * MISDELIVERED_MORE, 0.0))
    assert dear > 1.0  # more than most orders have to give
    assert cost(task, (1.5 * MISDELIVERED_MORE, 1.5 * MISDELIVERED_MORE)) == pytest.approx(dear)


def test_a_stretch_on_which_nobody_waits_makes_no_order_fairer(task: TuningTask) -> None:
    (misdelivered, longest), now = task.guarded[0], task.guarded[1]
    less_fair = (misdelivered - 1.5 * MISDELIVERED_MORE, longest)
    for second, allowed in ((now, True), ((now[0], MINUTE), False)):
        changed = replace(task, guarded=(less_fair, second))
        starving = replace(task, guarded=((misdelivered, longest), second))
        lost = bounded_objective(starving, OWN) - bounded_objective(changed, OWN)
        assert (lost == 0.0) == allowed


def test_the_longest_wait_is_bounded_on_each_stretch(task: TuningTask) -> None:
    assert cost(task, (0.0, 0.0), LONGEST_WAITS * 0.99) == 0.0
    assert cost(task, (0.0, 0.0), LONGEST_WAITS * 2.0) > 1.0
