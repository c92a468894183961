"""Memory, GPUs, whole nodes, features and licences: read, ordered, measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_rl_plugin.domain import JobTable
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourcesNow
from tests.real.conftest import ACCOUNTS, private_slurm, running_slurm, skip_without_daemons
from tests.real.daemon_under_test import running_hook
from tests.real.drawn_order import adapter_of
from tests.real.load import outcomes
from tests.real.private_cluster import ClusterPlan, NodeKind, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease

pytestmark = pytest.mark.real

PLAN = ClusterPlan(
    kinds=(
        NodeKind(name="n", count=2, processors=4, memory=8000, features=("old",), weight=10),
        NodeKind(name="b", count=1, processors=4, memory=64000, weight=20),
        NodeKind(name="g", count=1, processors=4, memory=8000, gpus=2, weight=30),
    ),
    accounts=ACCOUNTS,
    options={
        "SelectTypeParameters": "CR_Core_Memory,CR_CORE_DEFAULT_DIST_BLOCK",
        "AccountingStorageTRES": "gres/gpu",
    },
    partitions=(
        "PartitionName=all Nodes=ALL Default=YES DefMemPerCPU=1000 State=UP",
        "PartitionName=gpu Nodes=g1 DefMemPerCPU=1000 PriorityTier=2 State=UP",
    ),
)
PARTITIONS = ("all", "gpu")
TYPED = [
    NodeKind(name=name, count=1, processors=4, gpus=gpus, gpu_type=kind)
    for name, gpus, kind in (("a", 4, "a100"), ("v", 2, "v100"))
]
#: Where nodes have other names than there.
ALL = ("PartitionName=all Nodes=ALL Default=YES DefMemPerCPU=1000 State=UP",)
#: Minutes that each job of two GPUs asks for, as they are submitted.
LIMITS = (9, 3, 7, 2, 5)


@pytest.fixture(params=["tracked", "not tracked"])
def cluster(request: pytest.FixtureRequest, release: SlurmRelease | None) -> Iterator[PrivateSlurm]:
    """With `AccountingStorageTRES=gres/gpu`, and as a site that leaves it out."""
    skip_without_daemons(release)
    tracked = {"AccountingStorageTRES": "gres/gpu" if request.param == "tracked" else None}
    with running_slurm(replace(PLAN, options={**PLAN.options, **tracked}), release) as cluster:
        yield cluster


def submit(cluster: PrivateSlurm, *options: str, seconds: float = 300, minutes: float = 5) -> int:
    given = {"user": "alice", "account": "physics", "seconds": seconds, "minutes": minutes}
    return cluster.submit(*options, **given)  # type: ignore[arg-type]


def close(cluster: PrivateSlurm, state: str = "down") -> None:
    for name in PARTITIONS:
        cluster.set_partition(state, name)


def looked(cluster: PrivateSlurm) -> tuple[JobTable, ResourcesNow]:
    """The pending jobs and the machine."""
    snapshot = adapter_of(cluster, timeout=10.0).snapshot()
    assert snapshot.pending.jobs.requests is not None
    assert snapshot.resources is not None
    return snapshot.pending.jobs, snapshot.resources


def test_requests_of_each_kind_and_what_is_free(cluster: PrivateSlurm) -> None:
    holder = submit(cluster, "--gres=gpu:1", "--mem=2000")
    cluster.wait_until(lambda: "R" in states(cluster, holder), 20, "a running job")
    close(cluster)
    asked = {
        submit(cluster, "--ntasks=2"): [2.0, 2000.0, 0.0],  # DefMemPerCPU
        submit(cluster, "--nodes=1", "--mem=4000", "--gres=gpu:2"): [1.0, 4000.0, 2.0],
        submit(cluster, "--gpus=2"): [1.0, 1000.0, 2.0],
        submit(cluster, "--ntasks=2", "--gpus-per-task=1"): [2.0, 2000.0, 2.0],
        submit(cluster, "--gpus-per-socket=2", "--sockets-per-node=1"): [1.0, 1000.0, 2.0],
        submit(cluster, "--gpus=2", "--cpus-per-gpu=2", "--mem=500"): [4.0, 500.0, 2.0],
        submit(cluster, "--array=1-3", "--gpus-per-node=1"): [1.0, 1000.0, 1.0],
        submit(cluster, "--gres=gpu:1", ":", "--ntasks=2"): [3.0, 3000.0, 1.0],
    }
    jobs, now = looked(cluster)
    assert jobs.requests.names == now.names == BASIC_RESOURCES
    assert dict(zip(jobs.job_id.tolist(), jobs.requests.total.tolist(), strict=True)) == asked
    assert now.capacity.tolist() == [16.0, 88000.0, 2.0]
    assert now.free.tolist() == [15.0, 86000.0, 1.0]


def test_jobs_of_gpus_are_ordered_and_counted(cluster: PrivateSlurm, tmp_path: Path) -> None:
    close(cluster)
    jobs = {
        submit(cluster, "--gres=gpu:2", minutes=minutes, seconds=1): minutes for minutes in LIMITS
    }
    with running_hook(cluster, tmp_path, "sjf", cycle=1) as hook:
        told = resource_metrics(hook.metrics())
        assert told["pending", "gpus"] == 2.0 * len(jobs)
        assert told["usable", "gpus"] == 2.0
        assert told["usable", "memory"] == 88000.0 * 1024**2
        assert told["running", "memory"] == 0.0
        close(cluster, "up")
        cluster.wait_empty(60)
    cluster.wait_until(lambda: len(outcomes(cluster, list(jobs))) == len(jobs), 30, "accounting")
    done = outcomes(cluster, list(jobs))
    assert [jobs[job] for job in sorted(done, key=lambda job: done[job].start)] == sorted(LIMITS)


@pytest.mark.parametrize("tracked", ["gres/gpu,gres/gpu:a100,gres/gpu:v100", "gres/gpu"])
def test_types_of_gpus(release: SlurmRelease | None, tracked: str) -> None:
    """Tracked by name, and by what the user wrote where only GPUs as such are."""
    skip_without_daemons(release)
    options = {**PLAN.options, "AccountingStorageTRES": tracked}
    plan = replace(PLAN, kinds=TYPED, options=options, partitions=ALL)
    with running_slurm(plan, release) as cluster:
        holder = submit(cluster, "--gres=gpu:v100:1", "--mem=2000")
        cluster.wait_until(lambda: "R" in states(cluster, holder), 20, "a running job")
        first = submit(cluster, "--gres=gpu:v100:2")
        second = submit(cluster, "--hold", "--gpus=a100:3")
        jobs, now = looked(cluster)
        assert now.names == (*BASIC_RESOURCES, "gres/gpu:a100", "gres/gpu:v100")
        assert now.capacity.tolist() == [8.0, 32000.0, 6.0, 4.0, 2.0]
        assert now.free.tolist() == [7.0, 30000.0, 5.0, 4.0, 1.0]
        told = dict(zip(jobs.job_id.tolist(), jobs.requests.total.tolist(), strict=True))
        assert told == {first: [1, 1000, 2, 0, 2], second: [1, 1000, 3, 3, 0]}


def resource_metrics(text: str) -> dict[tuple[str, str], float]:
    """(usable, running or pending; resource) -> value."""
    found = re.findall(r'^slurm_rl_resource_(\w+)\{resource="([^"]+)"\} (\S+)$', text, re.MULTILINE)
    return {(what, resource): float(value) for what, resource, value in found}


def states(cluster: PrivateSlurm, job: int) -> list[str]:
    return cluster.run("squeue", "-h", "-j", str(job), "-o", "%t", check=False).stdout.split()


#: Two nodes with a feature, one of much memory, one of two GPUs; two licences.
licensing = private_slurm(replace(PLAN, options={**PLAN.options, "Licenses": "matlab:2"}))


def test_whole_nodes_features_and_licences(licensing: PrivateSlurm) -> None:
    whole = submit(licensing, "--exclusive", "--constraint=old", "--mem=1000")
    licensed = submit(licensing, "--licenses=matlab:2", "--constraint=old", "--mem=2000")
    for job in (whole, licensed):
        licensing.wait_until(lambda job=job: "R" in states(licensing, job), 20, "a running job")  # type: ignore[misc]
    third = submit(licensing, "--licenses=matlab:1")
    alone = submit(licensing, "--exclusive", "--constraint=old|old")
    plain = submit(licensing, "--hold", "--constraint=(old|old)&old")

    jobs, now = looked(licensing)
    requests = jobs.requests
    place = {job: row for row, job in enumerate(jobs.job_id.tolist())}
    exclusive = {job: bool(requests.exclusive[row]) for job, row in place.items()}
    assert exclusive == {third: False, alone: True, plain: False}
    told = {job: requests.constraints[requests.constraint[row]] for job, row in place.items()}
    assert told == {third: "", alone: "old|old", plain: "(old|old)&old"}
    assert requests.of("license/matlab")[place[third]] == 1.0
    # the first job has its node whole, whatever it asked for, of another the second has 2000 MB
    assert now.free.tolist() == [16.0 - 4 - 1, 88000.0 - 8000 - 2000, 2.0]
    licensing.run("scancel", *(str(job) for job in (whole, licensed, third, alone, plain)))
    licensing.wait_empty(30)


def test_a_request_made_larger_after_it_was_ranked_is_seen(
    licensing: PrivateSlurm, tmp_path: Path
) -> None:
    """Memory, then GPUs; jobs without an update change nothing, though Slurm tries them."""
    close(licensing)
    job = submit(licensing, "--mem=1000", "--gres=gpu:1", minutes=1)
    others = [submit(licensing, "--partition=all,gpu", minutes=3), submit(licensing, "--exclusive")]
    with running_hook(licensing, tmp_path, "sjf", cycle=0.5) as hook:
        for number, change in enumerate(("minmemorynode=6000", "gres=gpu:2"), start=1):
            licensing.run("scontrol", "update", f"jobid={job}", change, user="alice")
            licensing.wait_until(
                lambda number=number: len(changes(hook.audit)) == number,  # type: ignore[misc]
                20,
                f"line of {change}",
            )
        seen = hook.log.count("cycle=done")
        licensing.wait_until(lambda: hook.log.count("cycle=done") > seen + 3, 20, "further cycles")
        assert changes(hook.audit) == [
            (job, "memory", 1000.0, 6000.0),
            (job, "gpus", 1.0, 2.0),
        ]
    licensing.run("scancel", *(str(each) for each in (job, *others)))
    close(licensing, "up")


def changes(audit: list[dict[str, object]]) -> list[tuple[object, ...]]:
    names = ("job", "reason", "old", "new")
    return [tuple(line[name] for name in names) for line in audit if line["event"] == "request"]
