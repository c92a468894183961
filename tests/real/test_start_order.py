"""Jobs start in the order that was decided: two partitions, drawn scores, turned round midway."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import combinations
from pathlib import Path

import pytest

from tests.real.conftest import StartSlurm
from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import Account, ClusterPlan, PrivateSlurm

pytestmark = [pytest.mark.real, pytest.mark.promise]

JOBS_A_PARTITION = 100
PARTITIONS = {"left": "n1", "right": "n2"}
PLAN = ClusterPlan(
    accounts={"physics": Account(share=1, users=("alice",))},
    partitions=[f"PartitionName={name} Nodes={node}" for name, node in PARTITIONS.items()],
    # 26.05 does not log a start by backfill; that of one kind of job follows the same order
    options={"SchedulerParameters": "sched_interval=1,bf_interval=3600"},
)
#: slurmctld's log line of a start, by its main scheduler and by backfill.
STARTED = re.compile(
    r"^\[(?P<time>[^\]]+)\] sched(?:/backfill)?: "
    r"(?:_start_job: Started|Allocate) JobId=(?P<job>\d+)"
)


def starts(cluster: PrivateSlurm) -> Iterator[tuple[float, int]]:
    """When and what slurmctld started, in its order."""
    for line in (cluster.directory / "log" / "slurmctld.log").read_text().splitlines():
        if found := STARTED.match(line):
            yield datetime.fromisoformat(found["time"]).timestamp(), int(found["job"])


def inversions(started: Sequence[int], policy: DrawnOrder, sign: int) -> list[tuple[int, int]]:
    """Pairs that started in the wrong order."""
    pairs = combinations(started, 2)
    return [(a, b) for a, b in pairs if sign * policy.scores[a] < sign * policy.scores[b]]


def submit_to(cluster: PrivateSlurm, partition: str) -> list[int]:
    return [
        cluster.submit("-p", partition, user="alice", seconds=0.3) for _ in range(JOBS_A_PARTITION)
    ]


def test_the_start_order_is_the_decided_one_and_follows_a_reversal(
    start_slurm: StartSlurm, tmp_path: Path
) -> None:
    cluster = start_slurm(PLAN)
    for name in PARTITIONS:
        cluster.set_partition("down", name)
    jobs = {name: submit_to(cluster, name) for name in PARTITIONS}
    time.sleep(1.1)  # until the last one is eligible
    policy = DrawnOrder(seed=1)
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    assert cycle.run().succeeded
    for name in PARTITIONS:
        cluster.set_partition("up", name)
    steady = []
    while sum(1 for _ in starts(cluster)) < JOBS_A_PARTITION:
        steady.append(cycle.run().writes)
        time.sleep(0.2)
    policy.sign, turned = -1, datetime.now().timestamp()
    assert cycle.run().writes > 0
    written = datetime.now().timestamp()
    cluster.wait_empty(90)

    assert set(steady) == {0}  # nothing to write while the order stays
    order = list(starts(cluster))
    for ids in jobs.values():
        before = [job for at, job in order if job in ids and at < turned]
        after = [job for at, job in order if job in ids and at > written]
        assert len(before) > JOBS_A_PARTITION / 4
        assert len(after) > JOBS_A_PARTITION / 4
        assert inversions(before, policy, 1) == []
        assert inversions(after, policy, -1) == []
    assert len(order) == 2 * JOBS_A_PARTITION
