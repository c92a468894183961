"""A real Slurm that counts memory and GPUs: read, ordered, explained, and in the metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES
from tests.real.conftest import running_slurm, skip_without_daemons
from tests.real.daemon_under_test import running_hook, write_configuration
from tests.real.drawn_order import settings_of
from tests.real.load import outcomes
from tests.real.private_cluster import NodeKind, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease
from tests.real.test_kinds_of_nodes import PLAN
from tests.real.test_operator_commands import Operator

pytestmark = pytest.mark.real

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
    snapshot = SlurmCommands(settings_of(cluster, timeout=10.0)).snapshot()
    jobs, now = snapshot.pending.jobs, snapshot.resources
    assert jobs.requests is not None
    assert now is not None
    assert jobs.requests.names == now.names == BASIC_RESOURCES
    told = dict(zip(jobs.job_id.tolist(), jobs.requests.total.tolist(), strict=True))
    assert told == asked
    assert now.capacity.tolist() == [16.0, 88000.0, 2.0]
    assert now.free.tolist() == [15.0, 86000.0, 1.0]


def test_jobs_of_gpus_are_ordered_explained_and_counted(
    cluster: PrivateSlurm, tmp_path: Path
) -> None:
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
        assert hook.stop() == 0
    cluster.wait_until(lambda: len(outcomes(cluster, list(jobs))) == len(jobs), 30, "accounting")
    done = outcomes(cluster, list(jobs))
    assert [jobs[job] for job in sorted(done, key=lambda job: done[job].start)] == sorted(LIMITS)

    write_configuration(tmp_path, "sjf", mode="shadow", cycle=1)
    operator = Operator(cluster=cluster, folder=tmp_path)
    holder = submit(cluster, "--gres=gpu:1")
    cluster.wait_until(lambda: "R" in states(cluster, holder), 20, "a running job")
    job = submit(cluster, "--gres=gpu:2")
    out = operator.types("explain", str(job)).stdout
    assert "It asks for 1 processor, 1000M of memory, 2 GPUs, on one node at least." in out
    assert "It waits for 2 GPUs; 1 is free on one node, none has 2 (1 on all nodes)." in out
    assert operator.queue()[job]["gpus"] == 2.0
    assert re.search(r"GPUS\s+MEMORY", operator.types("queue").stdout)
    status = operator.types("status").stdout
    assert "gpus: 1 of 2 in use, 2 asked for by pending jobs" in status
    assert "cpus: 1 of 16 in use, 1 asked for by pending jobs" in status


@pytest.mark.parametrize("tracked", ["gres/gpu,gres/gpu:a100,gres/gpu:v100", "gres/gpu"])
def test_types_of_gpus(release: SlurmRelease | None, tmp_path: Path, tracked: str) -> None:
    """Tracked by name, and by what the user wrote where only GPUs as such are."""
    skip_without_daemons(release)
    options = {**PLAN.options, "AccountingStorageTRES": tracked}
    plan = replace(PLAN, kinds=TYPED, options=options, partitions=ALL)
    with running_slurm(plan, release) as cluster:
        holder = submit(cluster, "--gres=gpu:v100:1", "--mem=2000")
        cluster.wait_until(lambda: "R" in states(cluster, holder), 20, "a running job")
        first = submit(cluster, "--gres=gpu:v100:2")
        second = submit(cluster, "--hold", "--gpus=a100:3")
        snapshot = SlurmCommands(settings_of(cluster, timeout=10.0)).snapshot()
        jobs, now = snapshot.pending.jobs, snapshot.resources
        assert jobs.requests is not None
        assert now is not None
        assert now.names == (*BASIC_RESOURCES, "gres/gpu:a100", "gres/gpu:v100")
        assert now.capacity.tolist() == [8.0, 32000.0, 6.0, 4.0, 2.0]
        assert now.free.tolist() == [7.0, 30000.0, 5.0, 4.0, 1.0]
        told = dict(zip(jobs.job_id.tolist(), jobs.requests.total.tolist(), strict=True))
        assert told == {first: [1, 1000, 2, 0, 2], second: [1, 1000, 3, 3, 0]}
        write_configuration(tmp_path, "sjf", mode="shadow", cycle=1)
        operator = Operator(cluster=cluster, folder=tmp_path)
        lacks = "2 gres/gpu:v100; 1 is free on one node, none has 2 (1 on all nodes)."
        assert f"It waits for {lacks}" in operator.types("explain", str(first)).stdout


def resource_metrics(text: str) -> dict[tuple[str, str], float]:
    """(usable, running or pending; resource) -> value."""
    found = re.findall(r'^slurm_rl_resource_(\w+)\{resource="([^"]+)"\} (\S+)$', text, re.MULTILINE)
    return {(what, resource): float(value) for what, resource, value in found}


def states(cluster: PrivateSlurm, job: int) -> list[str]:
    return cluster.run("squeue", "-h", "-j", str(job), "-o", "%t", check=False).stdout.split()
