"""Settings that a search tries, the past that it looks at, and what it may not cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.evaluation.heldout import NODE_HEURISTICS
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.machine_files.changes import changed
from slurm_rl_plugin.machine_files.reader import DescribedCluster, read_cluster
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.policies.waiting_rules import SITES_OWN
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import PAST_WORK, prepare_log
from slurm_rl_plugin.units import MINUTE
from slurm_rl_plugin.utility.reward import RewardWeights
from slurm_rl_plugin.what_if.tuning.search import (
    LONGEST_WAITS,
    MISDELIVERED_MORE,
    TuningTask,
    bounded_objective,
    candidate_objective,
    conf_lines,
    past_of,
    policy_lines,
    stretches_of,
)
from slurm_rl_plugin.what_if.tuning.space import TunedSetting, TuningSpace, space_of, words_of
from tests.functional.small_site import write_busy_site
from tests.unit.machine_files.written_files import NODES, PARTITION, machine_of_lines

_LINES = (
    "PriorityWeightAge=1000",
    "PriorityWeightFairshare=10000",
    "PriorityFlags=MAX_TRES",
    "SchedulerParameters=bf_interval=60,sched_interval=5",
)


@pytest.fixture
def cluster(tmp_path: Path) -> DescribedCluster:
    machine_of_lines(tmp_path, NODES, PARTITION, *_LINES)
    return read_cluster(tmp_path)


@pytest.fixture
def space(cluster: DescribedCluster) -> TuningSpace:
    return space_of(cluster.machine)


def test_the_start_changes_nothing(space: TuningSpace) -> None:
    assert space.changes(space.start) == {}
    assert words_of({}) == ""


@pytest.mark.parametrize("place", np.linspace(0.0, 1.0, 23))
def test_every_value_has_the_place_that_it_came_from(place: float) -> None:
    setting = TunedSetting(key="bf_interval", least=10, most=300, now=30, can_be_off=True)
    value = setting.value(place)
    assert value == 0.0 or 10 <= value <= 300
    assert setting.value(setting.place(value)) == pytest.approx(value)


def test_a_setting_that_may_be_off_is_off_at_the_bottom() -> None:
    setting = TunedSetting(key="PriorityWeightAge", least=10, most=1e6, now=0, can_be_off=True)
    assert [setting.value(each) for each in (0.0, 0.05, 0.1, 1.0)] == [0.0, 0.0, 10.0, 1e6]


def test_any_point_is_understood_by_the_reader_of_slurm_conf(
    cluster: DescribedCluster, space: TuningSpace
) -> None:
    for point in np.random.default_rng(3).random((40, space.size)):
        changes = space.changes(point)
        after = changed(cluster, words_of(changes)).machine
        assert after.left_out == cluster.machine.left_out
        if "PriorityMaxAge" in changes:
            assert 3600 <= after.weights.highest_age <= 90 * 86400
        if "PriorityFlags" in changes:
            assert after.weights.flags == {"MAX_TRES", "SMALL_RELATIVE_TO_TIME"}
        assert after.backfill.main_interval == 5.0


def test_weights_that_decide_nothing_are_not_searched(space: TuningSpace) -> None:
    keys = {each.key for each in space.settings}
    assert {"PriorityWeightAge", "PriorityWeightFairshare", "bf_window"} <= keys
    assert not {"PriorityWeightQOS", "PriorityWeightPartition"} & keys


def test_lines_are_comments_with_what_is_now(cluster: DescribedCluster) -> None:
    changes = {"PriorityWeightAge": "2000", "PriorityFavorSmall": "YES", "bf_interval": "30"}
    assert conf_lines(cluster, changes) == [
        "# now: PriorityWeightAge=1000",
        "# PriorityWeightAge=2000",
        "# now: no PriorityFavorSmall",
        "# PriorityFavorSmall=YES",
        "# now: SchedulerParameters=bf_interval=60,sched_interval=5",
        "# SchedulerParameters=sched_interval=5,bf_interval=30",
    ]


@pytest.mark.parametrize("rule", NODE_HEURISTICS)
def test_no_line_tells_the_daemon_to_order_by_what_only_a_log_tells(rule: str) -> None:
    lines = policy_lines(rule)
    assert all(line.startswith("# ") for line in lines)
    named = named_policy(rule)
    assert named is not None
    if named.needs_log:
        assert lines == [f"# The daemon cannot order by {rule}: {named.needs_log}."]
    else:
        assert lines == ["# [policy]", f'# model = "{rule}"']
        assert named.live().name == rule  # as the daemon takes it


@pytest.mark.parametrize(
    ("jobs", "said"),
    [(50, r"30 came in the first 60 % .* and 18 count of"), (1, "too few jobs to tune on: 0 came")],
)
def test_a_log_whose_rest_cannot_judge_is_refused_before_the_search(jobs: int, said: str) -> None:
    log = generated_log("mmn:jobs=50,seed=1").select(np.arange(jobs))
    with pytest.raises(ConfigurationError, match=said):
        past_of(prepare_log(log))


def test_the_past_of_a_longer_log_is_its_first_part() -> None:
    assert len(past_of(prepare_log(generated_log("mmn:jobs=60,seed=1"))).log) == 36


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
