"""Changes of a configuration: each is put into what is said, before a machine is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.domain.share_tree import Association
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.changes import changed
from slurm_rl_plugin.machine_files.reader import DescribedCluster, read_cluster
from slurm_rl_plugin.units import HOUR
from tests.unit.machine_files.written_files import NODES, PARTITION, machine_of_lines

_LINES = (
    "PriorityWeightAge=1000",
    "SchedulerParameters=bf_interval=30,bf_max_job_test=9",
    "AccountingStorageEnforce=limits,qos",
    "PartitionName=short Nodes=n[1-2] MaxTime=4:00:00",
)
_SACCTMGR = """add account physics Fairshare=10
add user alice DefaultAccount=physics Account=physics
add qos interactive Priority=100
"""


@pytest.fixture
def cluster(tmp_path: Path) -> DescribedCluster:
    """Four nodes of eight CPUs, two partitions, an account with a user, a QOS."""
    machine_of_lines(tmp_path, NODES, PARTITION, *_LINES, sacctmgr_script=_SACCTMGR)
    return read_cluster(tmp_path)


def test_a_key_of_the_cluster_is_set(cluster: DescribedCluster) -> None:
    after = changed(cluster, "PriorityWeightAge=2000 PriorityFavorSmall=YES").machine
    assert after.weights.age == 2000.0
    assert after.weights.favours_small
    assert cluster.machine.weights.age == 1000.0


def test_parameters_are_added_and_taken_away_by_their_names(cluster: DescribedCluster) -> None:
    added = changed(cluster, "SchedulerParameters+=bf_interval=60,bf_window=4320").machine
    assert (added.backfill.interval, added.backfill.window) == (60.0, 4320 * 60.0)
    assert added.backfill.most_jobs == 9
    removed = changed(cluster, "SchedulerParameters-=bf_interval").machine
    assert removed.backfill.interval == 30.0  # Slurm's default
    assert removed.backfill.most_jobs == 9


def test_a_partition_changes_alone(cluster: DescribedCluster) -> None:
    after = changed(cluster, "partition short MaxTime=2:00:00 PriorityTier=5").machine
    limits = {each.name: (each.longest, each.tier) for each in after.partitions}
    assert limits["short"] == (2 * HOUR, 5)
    assert limits["batch"] == (float("inf"), 1)


def test_a_new_partition_names_its_nodes(cluster: DescribedCluster) -> None:
    after = changed(cluster, "PartitionName=night Nodes=n4").machine
    assert [each.name for each in after.partitions] == ["batch", "short", "night"]


def test_what_is_new_begins_with_what_default_lines_say(tmp_path: Path) -> None:
    defaults = (
        "PartitionName=DEFAULT Nodes=n1 MaxTime=8:00:00 PriorityTier=3",
        "NodeName=DEFAULT CPUs=16 RealMemory=32000",
        "PartitionName=DEFAULT PriorityTier=4",
    )
    machine_of_lines(tmp_path, NODES, PARTITION, *defaults)
    cluster = read_cluster(tmp_path)
    after = changed(cluster, "partition night Nodes=n4").machine
    night = {each.name: each for each in after.partitions}["night"]
    assert (night.longest, night.tier) == (8 * HOUR, 4)
    more = changed(cluster, "node m[1-2] CPUs=4").machine
    sizes = {kind.name: kind.resources[:2] for kind in more.kinds}
    assert sizes["m[1-2]"] == (4.0, 32000.0)


def test_some_nodes_of_a_line_change(cluster: DescribedCluster) -> None:
    after = changed(cluster, "node n[3-4] RealMemory=64000 Features=big").machine
    kinds = {kind.name: (kind.count, kind.resources[1]) for kind in after.kinds}
    assert kinds == {"n[1-2]": (2, 16000.0), "n[3-4]": (2, 64000.0)}


def test_nodes_of_a_partition_are_taken_out_of_a_range(cluster: DescribedCluster) -> None:
    fewer = changed(cluster, "partition short Nodes-=n2").machine
    by_name = {each.name: each for each in fewer.partitions}
    assert sum(fewer.kinds[kind].count for kind in by_name["short"].kinds) == 1
    more = changed(cluster, "partition short Nodes+=n[3-4]").machine
    by_name = {each.name: each for each in more.partitions}
    assert sum(more.kinds[kind].count for kind in by_name["short"].kinds) == 4


def test_new_nodes_say_how_large_they_are(cluster: DescribedCluster) -> None:
    after = changed(cluster, "node m[1-3] CPUs=32 RealMemory=128000").machine
    assert after.capacity[0] == 4 * 8 + 3 * 32


def test_nodes_are_taken_away(cluster: DescribedCluster) -> None:
    assert changed(cluster, "node n1 State=DOWN").machine.nodes == 3


def test_the_database_changes(cluster: DescribedCluster) -> None:
    assert (
        changed(cluster, "qos interactive Priority=500").machine.qos["interactive"].priority == 500
    )
    assert Association("physics", parent="root", share=50.0) in (
        changed(cluster, "account Physics Fairshare=50").machine.associations
    )
    limited = changed(cluster, "user alice MaxJobs=5").machine
    assert limited.users["alice"].group == {"jobs": 5.0}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("qos fast Priority=5", "no such qos; it has interactive"),
        ("user bob MaxJobs=5", "no such user; it has alice"),
        ("partition short", "write partition NAME KEY=VALUE"),
        ("partition DEFAULT Nodes=ALL", "a DEFAULT line applies to later lines"),
        ("PriorityWeightAge", "no key=value"),
        ("PriorityWeightAge=much", "no whole number"),
        ("qos interactive Flags+=DenyOnLimit", r"cannot be changed by \+ and -"),
        ("", "write KEY=VALUE"),
        ("SchedulerParameters-=bf_window", "bf_window: it is not set"),
        ("partition night MaxTime=1:00:00", "no such partition; it has batch, short"),
        ("node m[1-3] Weight=3", "no such node"),
        ("node n[4-5] CPUs=32", "in two changes"),
    ],
)
def test_what_cannot_be_meant_is_told_in_one_sentence(
    cluster: DescribedCluster, words: str, sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        _ = changed(cluster, words).machine


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("FancyScheduling=yes", ["FancyScheduling=yes: not known here, so it has no effect."]),
        (
            "partition short AllowQOS=interactive MaxNodes=1",
            [
                f"{key}: access to partitions is not simulated: jobs of the log stay in theirs."
                for key in ("AllowQOS=interactive", "MaxNodes=1")
            ],
        ),
    ],
)
def test_what_has_no_effect_is_named(
    cluster: DescribedCluster, words: str, named: list[str]
) -> None:
    found = [each for each in changed(cluster, words).machine.left_out if "--change" in each]
    assert found == [f"--change: {each}" for each in named]
