"""Heterogeneous jobs on a real Slurm: one place in the queue, and no factor left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.daemon_under_test import write_configuration
from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import PrivateSlurm
from tests.real.test_nothing_changed import priorities
from tests.real.test_operator_commands import Operator

pytestmark = pytest.mark.real

#: Components after the first one, as sbatch takes them: they differ in size and partition.
OTHERS = (":", "--ntasks=2", "--nice=30", ":", "--ntasks=1", "--partition=short")


def submit_het(cluster: PrivateSlurm, *others: str, seconds: float = 300) -> list[int]:
    """Submit a heterogeneous job; numbers of its components, the leader's first."""
    others = others or OTHERS
    leader = cluster.submit(*others, user="alice", processors=3, seconds=seconds, name="het")
    return list(range(leader, leader + 1 + others.count(":")))


def submit_plain(cluster: PrivateSlurm, count: int, **options: float) -> list[int]:
    return [
        cluster.submit(user="bob", **options)  # type: ignore[arg-type]
        for _ in range(count)
    ]


def test_components_keep_together_through_orders_and_release(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    cluster = closed_slurm
    # all of one account, so that plain jobs are between components under every usage, and of one
    # nice value, which sbatch gives to each component
    plain = [cluster.submit("--nice=30", user="alice") for _ in range(3)]
    groups = [submit_het(cluster) for _ in range(2)]
    plain += [cluster.submit("--nice=30", user="alice") for _ in range(3)]
    records = [*plain, *(part for parts in groups for part in parts)]
    cluster.wait_eligible(tuple(records))
    before = kept(cluster)
    policy = DrawnOrder(seed=2)
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    for policy.sign in (1, -1, 1):
        report = cycle.run()
        assert report.succeeded
        assert report.snapshot is not None
        jobs = sorted([*plain, *(parts[0] for parts in groups)])
        assert sorted(report.snapshot.pending.jobs.job_id.tolist()) == jobs
        order = by_component(cluster)
        decided = sorted(jobs, key=lambda job: -policy.score(job))
        together = {parts[0]: parts for parts in groups}
        assert order == [part for job in decided for part in together.get(job, [job])]
        assert cycle.run().writes == 0  # one round of writes was enough
    cycle.release()
    assert set(cluster.site_factors().values()) == {0}
    assert kept(cluster) == before


def kept(cluster: PrivateSlurm) -> dict[str, str]:
    """Record -> nice and reason, as a user sees them."""
    return {record: text.partition("|")[2] for record, text in priorities(cluster).items()}


def by_component(cluster: PrivateSlurm) -> list[int]:
    """Every record in the order in which Slurm tries them: by priority, then by number."""
    lines = cluster.run("squeue", "-h", "-O", "PriorityLong:|,JobID:").stdout.splitlines()
    cells = [[int(cell) for cell in line.split("|")] for line in lines]
    return [record for _, record in sorted((-total, record) for total, record in cells)]


def test_a_plain_job_between_two_components_does_not_block_both_for_ever(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    cluster = closed_slurm
    # by the site's own priority one component is before the plain job and one after it under every
    # usage: all are of one account
    plain = cluster.submit(user="alice", processors=8, seconds=0.5)
    parts = submit_het(cluster, ":", "--ntasks=4", "--partition=short", seconds=0.5)
    cluster.wait_eligible((plain, *parts))
    assert by_component(cluster) == [parts[1], plain, parts[0]]
    policy = DrawnOrder(seed=0, scores={plain: 2.0, parts[0]: 1.0})
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    assert cycle.run().writes == 1  # though the place of no job is wrong
    assert cycle.run().writes == 0
    assert by_component(cluster) == [plain, *parts]
    cluster.set_partition("up", "short", "batch")
    cluster.wait_empty(60)
    assert cluster.run_order((plain, parts[0])) == [plain, parts[0], parts[0]]


def test_they_start_together_in_the_decided_place(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    cluster = closed_slurm
    plain = submit_plain(cluster, 4, processors=8, seconds=0.5)  # both nodes, as those below
    groups = [submit_het(cluster, ":", "--ntasks=4", seconds=0.5) for _ in range(2)]
    groups.append(submit_het(cluster, ":", "--ntasks=4", "--partition=short", seconds=0.5))
    leaders = {parts[0] for parts in groups}
    cluster.wait_eligible((*plain, *leaders))
    policy = DrawnOrder(seed=5)
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    assert cycle.run().writes > 0
    assert cycle.run().writes == 0
    cluster.set_partition("up", "short", "batch")
    cluster.wait_empty(120)
    jobs = [*plain, *leaders]
    ran = cluster.run_order(jobs)
    assert list(dict.fromkeys(ran)) == sorted(jobs, key=lambda job: -policy.score(job))
    assert {job: ran.count(job) for job in leaders} == dict.fromkeys(leaders, 2)


@pytest.mark.parametrize("held", ["{leader}", "{leader}+1"])
def test_a_hold_of_any_component_is_a_hold_of_the_job(
    closed_slurm: PrivateSlurm, tmp_path: Path, held: str
) -> None:
    cluster = closed_slurm
    parts, plain = submit_het(cluster), submit_plain(cluster, 3)
    cluster.wait_eligible((*parts, *plain))
    name = held.format(leader=parts[0])
    cluster.scontrol("hold", name)
    policy = DrawnOrder(seed=8)
    policy.scores[parts[0]] = 2.0  # it would come first
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    report = cycle.run()
    assert report.succeeded
    assert report.suppressed["held"] == 1
    cluster.scontrol("release", name)
    cluster.wait_eligible(tuple(parts))
    assert {cluster.site_factors()[part] for part in parts} == {0}  # nothing was written meanwhile
    assert cycle.run().writes > 0
    assert by_component(cluster)[: len(parts)] == parts
    assert all(cluster.site_factors()[part] for part in parts)
    cluster.scontrol("hold", name)
    cycle.release()
    cluster.scontrol("release", name)
    cluster.wait_eligible(tuple(parts))
    assert set(cluster.site_factors().values()) == {0}


def test_one_that_is_requeued_comes_back_whole(slurm: PrivateSlurm, tmp_path: Path) -> None:
    cluster = slurm
    cluster.set_partition("down", "batch", "short")
    # components never share a node, and there are two
    parts = submit_het(cluster, ":", "--ntasks=4", "--partition=short")
    plain = submit_plain(cluster, 2, processors=8)
    cluster.wait_eligible((*parts, *plain))
    policy = DrawnOrder(seed=8)
    policy.scores[parts[0]] = 2.0
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    cycle.run()
    cluster.set_partition("up", "short", "batch")
    for part in parts:
        cluster.wait_state(part, "RUNNING", 60)
    running = cycle.run().snapshot
    assert running is not None
    assert running.running.jobs.job_id.tolist() == [parts[0]]
    assert running.running.jobs.processors.tolist() == [7]
    assert running.started.jobs.job_id.tolist() == [parts[0]]
    cluster.set_partition("down", "short", "batch")
    cluster.scontrol("requeue", str(parts[0]))
    for part in parts:
        cluster.wait_state(part, "PENDING", 60)
    assert cycle.run().suppressed["not_eligible"] == 1
    cluster.scontrol("update", f"jobid={parts[0]}", "starttime=now")  # Slurm delays requeued jobs
    cluster.wait_eligible(tuple(parts))
    policy.sign = -1
    assert cycle.run().writes > 0
    assert by_component(cluster)[-len(parts) :] == parts
    cycle.release()
    assert set(cluster.site_factors().values()) == {0}


def test_operators_see_one_job_and_may_name_a_component(
    closed_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    cluster = closed_slurm
    parts, plain = submit_het(cluster), submit_plain(cluster, 2)
    cluster.wait_eligible((*parts, *plain))
    write_configuration(tmp_path, "sjf", mode="active", cycle=1)
    operator = Operator(cluster=cluster, folder=tmp_path)
    queue = operator.queue()
    assert set(queue) == {parts[0], *plain}
    assert queue[parts[0]]["processors"] == 6
    for name in (str(parts[0]), f"{parts[0]}+1", str(parts[2])):
        why = operator.reads("explain", name)
        assert (why["job"], why["processors"], why["partition"]) == (parts[0], 6, "batch")
        assert list(why["terms"]) == ["batch"]
