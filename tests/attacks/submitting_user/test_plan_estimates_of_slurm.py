"""Attacker: a user whose jobs are planned by estimates, and who changes them under our hands.

He wants to run beyond his limit's bounds, into a reservation, or past the queue; or that the
estimates of others are lost.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.commands import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.plan_estimates.waiting_jobs import FIELDS
from tests.fakes.fake_cluster import NOW, FakeCluster

SOFT = {"SLURM_VERSION": "26.05.5", "SchedulerParameters": "time_min_as_soft_limit"}
MINE, OTHERS = 7, 8
#: What a user writes as he likes; `squeue` prints it between our separators.
FREE_TEXT = {"Name", "Comment", "WorkDir", "Command", "WCKey", "AdminComment", "SystemComment"}


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    made = FakeCluster(tmp_path)
    made.set(settings=SOFT)
    made.add(MINE, user="mallory", time_limit="1:00:00")
    made.add(OTHERS, time_limit="1:00:00")
    return made


def split(cluster: FakeCluster) -> None:
    cluster.change(MINE, tasks="2-9")
    cluster.add(9, array_id=MINE, tasks="1", time_min=1)


def lengthen(cluster: FakeCluster) -> None:
    cluster.change(MINE, time_limit="UNLIMITED")


def move(cluster: FakeCluster) -> None:
    cluster.change(MINE, partition="short", time_limit="5:00:00", reason="PartitionTimeLimit")


def give_a_deadline(cluster: FakeCluster) -> None:
    cluster.change(MINE, deadline=NOW + 86400)


def reserve(cluster: FakeCluster) -> None:
    cluster.set(reservations={"new": {"start": NOW + 1800, "end": NOW + 7200}})


@pytest.mark.parametrize("change", [split, lengthen, move, give_a_deadline, reserve])
def test_what_changes_after_it_was_told_is_seen_before_the_write(
    cluster: FakeCluster, change: Callable[[FakeCluster], None]
) -> None:
    slurm = SlurmCommands(cluster.adapter_settings())
    assert slurm.estimates()[MINE].obstacle is None
    change(cluster)
    report = slurm.write_estimates({MINE: 300})
    assert (report.applied, report.rejected.keys()) == (0, {MINE})
    assert cluster.record(MINE)["time_min"] == 0


def test_what_was_written_is_an_obstacle_as_soon_as_it_must_go(cluster: FakeCluster) -> None:
    slurm = SlurmCommands(cluster.adapter_settings())
    assert slurm.write_estimates({MINE: 300}).applied == 1
    reserve(cluster)
    told = slurm.estimates()[MINE]
    assert (told.seconds, told.obstacle) == (300, "its time limit reaches into reservation new")


def test_a_limit_that_is_lowered_in_the_last_moment_stops_no_other_write(
    cluster: FakeCluster,
) -> None:
    def lower(command: str, seconds: float) -> None:
        if command == "squeue":
            cluster.change(MINE, time_limit="2:00")

    slurm = SlurmCommands(cluster.adapter_settings(on_call=lower))
    report = slurm.write_estimates({MINE: 300, OTHERS: 300})
    assert report.applied == 1
    assert "Invalid time-min specification" in report.rejected[MINE]
    assert cluster.record(OTHERS)["time_min"] == 5


def test_what_a_user_asks_for_himself_is_told_and_can_be_taken_away(cluster: FakeCluster) -> None:
    cluster.change(MINE, time_min=1)
    slurm = SlurmCommands(cluster.adapter_settings())
    assert slurm.estimates()[MINE].seconds == 60
    assert slurm.write_estimates({MINE: 0}).applied == 1
    (check,) = [
        each for each in slurm.estimate_checks(writes=False) if each.name == "estimates of users"
    ]
    assert "job_submit.lua" in check.what


def test_no_text_of_a_user_is_read() -> None:
    assert not FREE_TEXT.intersection(FIELDS)
