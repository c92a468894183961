"""Settings as numbers: every number is a value of slurm.conf, and the cluster as it is has one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.learning.evaluation.heldout import NODE_HEURISTICS
from slurm_rl_plugin.machine_files.changes import changed
from slurm_rl_plugin.machine_files.reader import DescribedCluster, read_cluster
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.what_if.tuning.choices import conf_lines, policy_lines
from slurm_rl_plugin.what_if.tuning.space import TunedSetting, TuningSpace, space_of, words_of
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
