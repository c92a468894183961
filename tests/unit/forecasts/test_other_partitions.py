"""Each right that keeps a job out of another partition, from what scontrol prints of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.slurm.answers.machine import (
    SHOW_ASSOCIATIONS,
    read_running_cluster,
)
from slurm_rl_plugin.domain import QueueSnapshot, RunningJobs
from slurm_rl_plugin.domain.machine import (
    Machine,
)
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.forecasts.live.other_partitions import other_partitions
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.units import HOUR
from tests.assets.record_slurm_answers import ASSETS
from tests.case_files import rows
from tests.unit.batch_systems.test_slurm_requests import recorded
from tests.unit.hook.queues import job_table, pending_jobs, snapshot_of

RELEASES = sorted(ASSETS.iterdir())
#: What scontrol of the newest release prints, and the partition whose rights are tried.
FOLDER = RELEASES[-1]
LINES = FOLDER.joinpath("machine-partitions.txt").read_text()
SHORT = next(line for line in LINES.splitlines() if line.startswith("PartitionName=short"))


def machine(line: str, associations: str = "") -> Machine:
    """The recorded cluster with another line for one partition."""
    answers = recorded(FOLDER, partitions=LINES.replace(SHORT, line))

    def read(command: Sequence[str]) -> str:
        own = associations if tuple(command) == SHOW_ASSOCIATIONS else ""
        return answers(command) + own

    return read_running_cluster(read).machine


def queue(nodes: int = 2, limit: float = HOUR) -> QueueSnapshot:
    """A job of alice, account physics and QOS normal, that waits in batch."""
    pending = pending_jobs([1], time_limit=[limit])
    asked = ResourceRequests.of_totals(
        np.array([[4.0, 0.0, 0.0]]), nodes=np.array([nodes], dtype=np.int64)
    )
    pending = replace(
        pending,
        jobs=replace(pending.jobs, requests=asked, user=np.zeros(1, dtype=np.int64)),
        qos=np.zeros(1, dtype=np.int64),
        one_partition=np.ones(1, dtype=np.bool_),
    )
    return replace(
        snapshot_of(pending),
        users=("alice",),
        accounts=("physics",),
        partitions=("batch",),
        qos=("normal",),
    )


@pytest.mark.parametrize("folder", RELEASES, ids=lambda path: path.name)
def test_what_each_release_prints_is_open(folder: Path) -> None:
    found = other_partitions(queue(), 0, read_running_cluster(recorded(folder)).machine)
    assert found == ["gpu", "short"]


def with_right(key: str, text: str) -> str:
    """The line of `short` with another value of a key; without the key for ""."""
    line, found = re.subn(rf" {key}=\S+", f" {key}={text}" if text else "", SHORT)
    assert found == 1
    return line


@rows("partitions", "closed", "key text")
def test_a_right_that_is_missing_or_unknown_refuses(key: str, text: str) -> None:
    assert other_partitions(queue(), 0, machine(with_right(key, text))) == ["gpu"]


@rows("partitions", "denied", "recorded text")
def test_who_is_denied_is_refused(recorded: str, text: str) -> None:
    assert other_partitions(queue(), 0, machine(SHORT.replace(recorded, text))) == ["gpu"]


@rows("partitions", "allowed", "key text")
def test_a_job_within_the_rights_may_go(key: str, text: str) -> None:
    assert other_partitions(queue(), 0, machine(with_right(key, text))) == ["gpu", "short"]


def test_a_job_that_names_more_or_is_not_known_whole_stays() -> None:
    look, open_machine = queue(), machine(SHORT)
    pending = look.pending
    several = replace(pending, one_partition=np.zeros(1, dtype=np.bool_))
    nobody = replace(pending, jobs=replace(pending.jobs, user=np.full(1, -1)))
    for each in (several, replace(pending, one_partition=None), nobody):
        assert other_partitions(replace(look, pending=each), 0, open_machine) == []
    assert other_partitions(queue(limit=np.nan), 0, open_machine) == []
    assert other_partitions(queue(limit=25 * HOUR), 0, open_machine) == ["gpu"]
    assert other_partitions(queue(nodes=0), 0, open_machine) == ["short"]  # gpu has MaxNodes
    assert other_partitions(look, 0, None) == []
    moved = replace(look, partitions=("short",))
    assert other_partitions(moved, 0, open_machine) == ["gpu", "batch"]
    unnamed = replace(look, accounts=("",), qos=("",))
    assert other_partitions(unnamed, 0, machine(with_right("AllowQos", "normal"))) == ["gpu"]


def test_who_is_not_known_whole_is_not_admitted() -> None:
    """Slurm denies an account with all below it, so its parents must be known; so must the user."""
    read = machine(SHORT.replace("AllowAccounts=ALL", "DenyAccounts=chemistry"))
    assert other_partitions(queue(), 0, read) == ["gpu", "short"]
    for parents in ({}, {"physics": "science"}, {"physics": "science", "science": "physics"}):
        assert other_partitions(queue(), 0, replace(read, parent_of=parents)) == ["gpu"]
    assert other_partitions(replace(queue(), users=("",)), 0, read) == []


def test_a_user_with_an_association_for_one_partition_stays() -> None:
    bound = "trial|physics|alice|batch||1|||||||||||\n"
    assert other_partitions(queue(), 0, machine(SHORT, bound)) == []
    assert other_partitions(queue(), 0, machine(SHORT, bound.replace("alice", "bob"))) != []


def test_of_a_slurm_conf_the_rights_are_not_known(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(
        "ClusterName=c\nNodeName=n[1-4] CPUs=4\nPartitionName=batch Nodes=ALL Default=YES\n"
        "PartitionName=short Nodes=ALL AllowGroups=ALL\n"
    )
    assert other_partitions(queue(), 0, read_machine(tmp_path)) == []


def test_the_partition_with_the_least_demand_comes_first() -> None:
    """Jobs on shared nodes count, running ones and pending ones of no lower tier."""
    idle = queue()
    running = RunningJobs.seen(job_table(1, processors=[8], partition=[1]), np.zeros(1), 1000.0)
    busy = replace(idle, running=running, partitions=("batch", "gpu"))
    assert other_partitions(busy, 0, machine(SHORT)) == ["short", "gpu"]
