"""A job that was preempted and requeued: ordered again, nothing lost, no factor left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease

pytestmark = pytest.mark.real

#: What makes a job preempt others, by PreemptType.
URGENT = {"partition_prio": "--partition=high", "qos": "--qos=urgent"}


@pytest.fixture(scope="module", params=list(URGENT))
def preempting_slurm(
    request: pytest.FixtureRequest, release: SlurmRelease | None
) -> Iterator[tuple[PrivateSlurm, str]]:
    """A cluster of one node where urgent jobs preempt others, and the option that makes one."""
    skip_without_daemons(release)
    plan = ClusterPlan(
        nodes=1,
        accounts=ACCOUNTS,
        options={"PreemptType": f"preempt/{request.param}", "PreemptMode": "REQUEUE"},
        partitions=[
            "PartitionName=low Nodes=n1 Default=YES PriorityTier=1 State=DOWN",
            "PartitionName=high Nodes=n1 PriorityTier=9 State=UP",
        ],
    )
    with running_slurm(plan, release) as cluster:
        if request.param == "qos":
            cluster.add_qos("urgent", "preempt=normal")
        yield cluster, URGENT[request.param]


def test_a_preempted_job_is_ordered_again_and_keeps_nothing(
    preempting_slurm: tuple[PrivateSlurm, str], tmp_path: Path
) -> None:
    cluster, urgent = preempting_slurm

    def submit(*options: str, seconds: float = 300) -> int:
        return cluster.submit(
            *options, user="alice", account="physics", processors=4, seconds=seconds
        )

    def partition(state: str) -> None:
        cluster.set_partition(state, "low")

    first, second, third = [submit("--requeue") for _ in range(3)]
    cluster.wait_eligible((first, second, third))
    policy = DrawnOrder(seed=0, scores={first: 1.0, second: 3.0, third: 2.0})
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    assert cycle.run().writes > 0
    partition("up")
    cluster.wait_state(second, "RUNNING")
    assert cycle.run().succeeded
    preemptor = submit(urgent, seconds=5)
    cluster.wait_state(preemptor, "RUNNING", 60)
    cluster.wait_state(second, "PENDING", 60)
    partition("down")

    report = cycle.run()
    assert report.succeeded
    assert report.snapshot is not None
    assert report.suppressed["not_eligible"] == 1  # Slurm delays requeued jobs
    assert second not in report.snapshot.ended.jobs.job_id
    cluster.scontrol("update", f"jobid={second}", "starttime=now")
    cluster.wait_eligible((first, second, third))
    for scores in ({second: 0.0}, {second: 9.0}):
        policy.scores.update(scores)
        assert cycle.run().writes > 0
        waiting = [job for job in cluster.by_priority() if job != preemptor]
        assert waiting == sorted((first, second, third), key=lambda job: -policy.scores[job])

    partition("up")
    cluster.wait_state(second, "RUNNING", 60)
    partition("down")
    restarts = cluster.run("squeue", "-h", "-j", str(second), "-O", "RestartCnt:")
    assert restarts.stdout.strip() == "1"
    assert cluster.site_factors().keys() == {first, third}
    cycle.release()
    cluster.scontrol("requeue", str(second))
    cluster.wait_state(second, "PENDING", 60)
    cluster.scontrol("update", f"jobid={second}", "starttime=now")
    cluster.wait_eligible((first, second, third))
    assert cluster.site_factors() == {first: 0, second: 0, third: 0}
    assert json.loads((tmp_path / "state.json").read_text())["jobs"] == []
