"""What the hook must not change: arrays, nice values, holds; after a release every priority."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.conftest import ACCOUNTS, private_slurm
from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.users import STAFF

pytestmark = [pytest.mark.real, pytest.mark.promise]

TASKS = 10_000
#: Ages would move priorities while the test looks at them.
STILL = ClusterPlan(
    accounts={**ACCOUNTS, **STAFF},
    options={"PriorityWeightAge": "0", "PrivateData": "jobs,usage,accounts"},
)


#: Priorities do not change here, and the partitions are down.
shared_still_slurm = private_slurm(
    STILL, lambda slurm: slurm.set_partition("down", "batch", "short")
)


@pytest.fixture
def still_slurm(shared_still_slurm: PrivateSlurm) -> Iterator[PrivateSlurm]:
    """The same with an empty queue."""
    yield shared_still_slurm
    shared_still_slurm.cancel("alice", "bob")


def priorities(cluster: PrivateSlurm) -> dict[str, str]:
    """Record -> priority, nice and reason, as a user sees them."""
    lines = cluster.run("squeue", "-h", "-r", "-O", "JobArrayID:|,PriorityLong:|,Nice:|,Reason:")
    return dict(line.split("|", 1) for line in lines.stdout.splitlines())


def test_an_array_of_ten_thousand_tasks_is_one_write_and_is_not_split(
    still_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    array = still_slurm.submit(f"--array=1-{TASKS}", user="alice")
    other = still_slurm.submit(user="bob")
    still_slurm.wait_eligible((array, other))
    policy = DrawnOrder(seed=0)
    cycle = cycle_of(adapter_of(still_slurm), policy, tmp_path)
    writes = []
    for policy.sign in (1, -1, 1):
        report = cycle.run()
        assert report.succeeded
        assert report.snapshot is not None
        assert len(report.snapshot.pending) == 2
        writes.append(report.writes)
    records = still_slurm.run("squeue", "-h", "-o", "%i %F").stdout.split()
    assert sum(writes) >= 2
    assert max(writes) == 1
    assert f"{array}_[1-{TASKS}]" in records
    assert cycle.release().applied == 2


def test_holds_and_nice_stay_and_release_gives_slurms_own_priorities(
    still_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    options = [(), ("--nice=70",), ("--hold",), ("--priority=4000",), ("--nice=-20",)]
    options += [("--partition=batch,short",), ("--array=1-5",), ("--begin=now+1hour",)]
    jobs = {}
    for number in range(24):
        asked = options[number % len(options)]
        jobs[still_slurm.submit(*asked, user=("alice", "bob")[number % 2])] = asked
    unlisted = {("--hold",), ("--begin=now+1hour",)}
    still_slurm.wait_eligible(tuple(job for job, asked in jobs.items() if asked not in unlisted))
    for job in jobs:  # Slurm shows a job of two partitions anew once it has looked at it again
        still_slurm.run("scontrol", "update", f"jobid={job}", "sitefactor=0")
    plain = priorities(still_slurm)
    cycle = cycle_of(adapter_of(still_slurm), policy := DrawnOrder(seed=3), tmp_path)
    for policy.sign in (1, -1, 1):
        assert cycle.run().writes > 0
    ours = priorities(still_slurm)
    assert {job: text.partition("|")[2] for job, text in ours.items()} == {
        job: text.partition("|")[2] for job, text in plain.items()
    }
    assert ours != plain
    cycle.release()
    assert priorities(still_slurm) == plain
