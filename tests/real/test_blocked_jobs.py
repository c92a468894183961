"""Jobs that cannot start yet, or again: ordered once they can, and no factor is left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_rl_plugin.hook.cycle.cycle import Cycle
from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease

pytestmark = pytest.mark.real


def written(folder: Path) -> list[int]:
    """Jobs that were written, by the audit log."""
    lines = (folder / "audit.jsonl").read_text().splitlines()
    return [line["job"] for line in map(json.loads, lines) if line["event"] == "write"]


def run_one_of_three(
    cluster: PrivateSlurm, folder: Path
) -> tuple[tuple[int, int, int], DrawnOrder, Cycle]:
    """Three jobs that need the whole cluster, ordered; the first one runs with its factor."""
    jobs = tuple(cluster.submit(user="alice", account="physics", processors=8) for _ in range(3))
    first, second, third = jobs
    cluster.wait_eligible(jobs)
    policy = DrawnOrder(seed=0, scores={first: 1.0, second: 3.0, third: 2.0})
    cycle = cycle_of(adapter_of(cluster), policy, folder)
    assert cycle.run().writes > 0
    assert cluster.site_factors()[second] > 0
    cluster.set_partition("up")
    cluster.wait_state(second, "RUNNING")
    cluster.set_partition("down")
    assert cycle.run().succeeded
    return (second, first, third), policy, cycle


def check_ordered_again(
    cluster: PrivateSlurm, jobs: tuple[int, int, int], policy: DrawnOrder, cycle: Cycle
) -> None:
    """The first of the jobs goes where its score puts it, and a release leaves no factor."""
    cluster.scontrol("update", f"jobid={jobs[0]}", "starttime=now")  # Slurm delays requeued jobs
    cluster.wait_eligible(jobs)
    for score in (0.0, 9.0):
        policy.scores[jobs[0]] = score
        assert cycle.run().writes > 0
        assert cluster.by_priority() == sorted(jobs, key=lambda job: -policy.scores[job])
    cycle.release()
    assert cluster.site_factors() == dict.fromkeys(jobs, 0)


@pytest.mark.parametrize(("command", "why"), [("requeue", "not_eligible"), ("requeuehold", "held")])
def test_a_requeued_job_is_left_alone_until_it_may_start(
    closed_slurm: PrivateSlurm, tmp_path: Path, command: str, why: str
) -> None:
    cluster = closed_slurm
    jobs, policy, cycle = run_one_of_three(cluster, tmp_path)
    before = written(tmp_path)
    cluster.scontrol(command, str(jobs[0]))
    cluster.wait_state(jobs[0], "PENDING", 60)

    def shown() -> str:
        return cluster.run("squeue", "-h", "-j", str(jobs[0]), "-o", "%Q %r").stdout.strip()

    was = shown()
    for policy.sign in (-1, 1, -1):
        assert cycle.run().suppressed[why] == 1
    assert (shown() == was, was.startswith("0 ")) == (True, why == "held")
    assert jobs[0] not in written(tmp_path)[len(before) :]
    policy.sign = 1
    if why == "held":
        cluster.scontrol("release", str(jobs[0]))
    check_ordered_again(cluster, jobs, policy, cycle)


def test_they_get_no_factor_before_and_their_place_afterwards(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    cluster = closed_slurm

    def submit(*options: str, seconds: float = 300) -> int:
        return cluster.submit(
            *options, user="alice", account="physics", processors=8, seconds=seconds
        )

    parent = submit(seconds=1)
    after = submit(f"--dependency=afterok:{parent}")
    later = submit("--begin=now+15")
    cancelled = submit()
    never = submit(f"--dependency=afterok:{cancelled}")
    plain = [submit() for _ in range(3)]
    cluster.wait_eligible((parent, *plain))
    cluster.run("scancel", str(cancelled))
    cluster.wait_until(
        lambda: "DependencyNeverSatisfied" in cluster.run("squeue", "-h", "-o", "%r").stdout,
        30,
        "a dependency that cannot be met",
    )
    policy = DrawnOrder(seed=9, scores={parent: 9.0, after: 8.0, later: 0.5})
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    for policy.sign in (-1, 1):
        report = cycle.run()
        assert report.suppressed["not_eligible"] == 3
    assert {after, later, never}.isdisjoint(written(tmp_path))
    cluster.run("scancel", str(never))
    cluster.set_partition("up")
    cluster.wait_state(parent, "RUNNING")
    cluster.set_partition("down")
    cluster.wait_eligible((after,))
    cluster.wait_until(lambda: later in cluster.site_factors(), 30, "the begin time")
    sites = cluster.site_factors()
    assert (sites[after], sites[later]) == (0, 0)  # as Slurm shows it, whatever our log says
    assert cycle.run().writes > 0
    jobs = (after, later, *plain)
    assert cluster.by_priority() == sorted(jobs, key=lambda job: -policy.score(job))
    cycle.release()
    assert cluster.site_factors() == dict.fromkeys(jobs, 0)


def test_a_job_whose_reservation_has_ended_is_ordered_and_keeps_no_factor(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    cluster = closed_slurm
    cluster.scontrol(
        *("create", "reservation=gone", "starttime=now", "duration=60"),
        *("users=alice", "nodes=n2"),
    )
    inside = cluster.submit("--reservation=gone", user="alice", account="physics", processors=4)
    plain = cluster.submit(user="bob", account="biology", processors=4)
    cluster.scontrol("update", "reservation=gone", "endtime=now+2")
    cluster.wait_until(
        lambda: cluster.state_of(inside) == "RESV_DEL_HOLD",
        120,
        "slurmctld to end the reservation",
    )
    policy = DrawnOrder(seed=4, scores={inside: 9.0, plain: 1.0})
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    cluster.wait_eligible((plain,))
    assert cycle.run().succeeded
    assert cluster.site_factors().get(inside, 0) == 0  # it is held
    cluster.scontrol("release", str(inside))
    cluster.wait_eligible((inside, plain))
    assert cluster.state_of(inside) == "RESV_DEL_HOLD"  # and yet it may start
    for score in (9.0, 0.0):
        policy.scores[inside] = score
        cycle.run()
        jobs = sorted((inside, plain), key=lambda job: -policy.scores[job])
        assert cluster.by_priority() == jobs
    policy.scores[inside] = 9.0
    cycle.run()
    assert cluster.site_factors()[inside] > 0
    cycle.release()
    assert cluster.site_factors() == {inside: 0, plain: 0}
    cluster.set_partition("up")
    cluster.wait_state(inside, "RUNNING")


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
