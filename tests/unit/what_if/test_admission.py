"""Jobs whose partition allows less than before: what their users would have sent instead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.machine_files.changes import changed
from slurm_rl_plugin.machine_files.reader import DescribedCluster, read_cluster
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.units import HOUR
from slurm_rl_plugin.what_if.variant import admitted
from tests.unit.machine_files.written_files import NODES, machine_of_lines


def cluster_of(folder: Path, *partitions: str) -> DescribedCluster:
    machine_of_lines(folder, NODES, *partitions)
    return read_cluster(folder)


@pytest.fixture
def alone(tmp_path: Path) -> DescribedCluster:
    """No other partition than `short`."""
    return cluster_of(tmp_path, "PartitionName=short Nodes=ALL MaxTime=4:00:00")


def jobs() -> JobLog:
    """Three of `short`: within the new limit, asking for more than it, running longer than it."""
    log = generated_log("mmn:jobs=3,processors=1")
    return replace(
        log,
        partitions=("short",),
        partition=np.zeros(3, dtype=np.int64),
        time_limit=np.array([1.0, 3.0, 4.0]) * HOUR,
        run_time=np.array([0.5, 1.5, 3.5]) * HOUR,
    )


def narrowed(cluster: DescribedCluster) -> tuple[Machine, Machine]:
    return cluster.machine, changed(cluster, "partition short MaxTime=2:00:00").machine


def test_who_ran_no_longer_asks_for_less_and_who_did_goes_elsewhere(tmp_path: Path) -> None:
    cluster = cluster_of(
        tmp_path,
        "PartitionName=short Nodes=ALL MaxTime=4:00:00",
        "PartitionName=tiny Nodes=ALL MaxTime=3:00:00",
        "PartitionName=long Nodes=ALL MaxTime=8:00:00",
    )
    log, sentences = admitted(jobs(), *narrowed(cluster))
    assert log.time_limit.tolist() == [1.0 * HOUR, 2.0 * HOUR, 4.0 * HOUR]
    assert [log.partitions[place] for place in log.partition] == ["short", "short", "long"]
    assert log.run_time.tolist() == jobs().run_time.tolist()
    (sentence,) = sentences
    assert "allows 120 minutes" in sentence
    assert "1 jobs that asked for more" in sentence
    assert "1 go to another partition, 0 end there" in sentence


def test_who_can_go_nowhere_ends_at_the_limit(alone: DescribedCluster) -> None:
    log, (sentence,) = admitted(jobs(), *narrowed(alone))
    assert log.time_limit.tolist() == [1.0 * HOUR, 2.0 * HOUR, 2.0 * HOUR]
    assert log.run_time.tolist() == [0.5 * HOUR, 1.5 * HOUR, 2.0 * HOUR]
    assert "1 end there" in sentence


def test_a_job_without_a_limit_is_held_to_what_it_was_given(alone: DescribedCluster) -> None:
    silent = replace(jobs(), time_limit=np.full(3, np.nan))
    log, (sentence,) = admitted(silent, *narrowed(alone))
    assert log.run_time.tolist() == [0.5 * HOUR, 1.5 * HOUR, 2.0 * HOUR]
    assert log.time_limit.tolist() == [2.0 * HOUR] * 3
    assert "2 jobs that asked for more" in sentence


def test_nobody_goes_where_no_node_holds_him(tmp_path: Path) -> None:
    """The first partition that allows the limit has too few CPUs, the second enough."""
    cluster = cluster_of(
        tmp_path,
        "NodeName=small CPUs=1 RealMemory=16000",
        "PartitionName=short Nodes=n[1-4] MaxTime=4:00:00",
        "PartitionName=tiny Nodes=small MaxTime=9:00:00",
        "PartitionName=long Nodes=n[1-4] MaxTime=9:00:00",
    )
    log, _ = admitted(replace(jobs(), processors=np.array([8, 8, 8])), *narrowed(cluster))
    assert log.partitions[log.partition[2]] == "long"


def test_a_wider_limit_changes_no_job(alone: DescribedCluster) -> None:
    wider = changed(alone, "partition short MaxTime=9:00:00").machine
    log, sentences = admitted(jobs(), alone.machine, wider)
    assert sentences == []
    assert log.time_limit.tolist() == jobs().time_limit.tolist()
