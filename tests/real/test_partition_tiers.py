"""Partitions of different PriorityTier: our order within a tier, and ranks that know of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.conftest import ACCOUNTS, private_slurm
from tests.real.daemon_under_test import write_configuration
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.test_operator_commands import Operator, ranked

pytestmark = pytest.mark.real

#: Each job takes the only node, so that all start one after the other.
PLAN = ClusterPlan(
    nodes=1,
    accounts=ACCOUNTS,
    options={"PriorityWeightAge": "0", "PriorityWeightFairshare": "0"},  # priorities stand still
    partitions=[
        # its points are the most, and do not count where a job may also start in a higher tier
        "PartitionName=low Nodes=n1 Default=YES PriorityTier=2 PriorityJobFactor=50 State=DOWN",
        "PartitionName=high Nodes=n1 PriorityTier=9 State=DOWN",
        "PartitionName=middle Nodes=n1 PriorityTier=4 Hidden=YES State=DOWN",
    ],
)
WHERE = ("low", "high", "low,high", "middle", "middle,low", "low")
TIERS = {"low": 2, "high": 9, "middle": 4}
JOBS = 18


shared_tiers = private_slurm(PLAN)


@pytest.fixture
def jobs(shared_tiers: PrivateSlurm) -> Iterator[dict[int, str]]:
    """Job -> partitions that it names; none can start yet."""
    cluster = shared_tiers
    set_partitions(cluster, "down")
    found = {}
    for number in range(JOBS):
        where = WHERE[number % len(WHERE)]
        found[
            cluster.submit(
                # one nice for each user's jobs of a partition: it moves none of them
                *("-p", where, f"--nice={(37 * (number % len(WHERE))) % 101}"),
                user=("alice", "bob")[number % 2],
                processors=4,
                seconds=0.2,
                minutes=1 + (7 * number) % JOBS,
            )
        ] = where
    cluster.wait_eligible(tuple(found))
    for job in found:  # Slurm shows a job of two partitions anew once it has looked at it again
        cluster.scontrol("update", f"jobid={job}", "sitefactor=0")
    yield found
    cluster.cancel("alice", "bob")


def set_partitions(cluster: PrivateSlurm, state: str) -> None:
    for name in sorted(TIERS, key=lambda name: -TIERS[name]):
        cluster.set_partition(state, name)


def start_all(cluster: PrivateSlurm, jobs: dict[int, str]) -> list[int]:
    """Let Slurm start every job; their numbers in that order."""
    set_partitions(cluster, "up")
    cluster.wait_empty(120)
    return cluster.run_order(jobs)


@pytest.mark.parametrize("hook", [False, True], ids=["plain Slurm", "with the hook"])
def test_jobs_start_by_tier_and_within_one_in_the_order_of_the_ranks(
    shared_tiers: PrivateSlurm, jobs: dict[int, str], tmp_path: Path, hook: bool
) -> None:
    cluster = shared_tiers
    write_configuration(tmp_path, "sjf", mode="active", cycle=1)
    operator = Operator(cluster=cluster, folder=tmp_path)
    if hook:
        assert operator.types("run", "--once").returncode == 0
        assert any(cluster.site_factors().values())
    queue = operator.queue()
    tiers = {job: max(TIERS[name] for name in where.split(",")) for job, where in jobs.items()}
    assert {job: row["tier"] for job, row in queue.items()} == tiers
    if hook:
        shortest_first = sorted(jobs, key=lambda job: (-tiers[job], queue[job]["timelimit"]))
        assert ranked(queue, "rank") == ranked(queue, "nowrank") == shortest_first
    started = start_all(cluster, jobs)
    assert started == ranked(queue, "nowrank" if hook else "siterank")
    assert [tiers[job] for job in started] == sorted(tiers.values(), reverse=True)


def test_a_job_of_two_tiers_is_one_write_and_keeps_nothing(
    shared_tiers: PrivateSlurm, jobs: dict[int, str], tmp_path: Path
) -> None:
    cluster = shared_tiers
    write_configuration(tmp_path, "sjf", mode="active", cycle=1)
    operator = Operator(cluster=cluster, folder=tmp_path)
    before = operator.queue()
    log = cluster.directory / "log" / "slurmctld.log"
    lines = len(log.read_text().splitlines())
    assert operator.types("run", "--once").returncode == 0
    new = log.read_text().splitlines()[lines:]
    written = [line.rpartition("JobId=")[2] for line in new if "AdinPrioFactor" in line]
    assert written
    assert len(written) == len(set(written))
    assert {int(job) for job in written} & {job for job, where in jobs.items() if "," in where}
    assert operator.types("release").returncode == 0
    assert set(cluster.site_factors().values()) == {0}
    after = operator.queue()
    assert {job: row["siterank"] for job, row in after.items()} == {
        job: row["siterank"] for job, row in before.items()
    }
