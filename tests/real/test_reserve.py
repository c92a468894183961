"""The reserve on a real Slurm: batch jobs leave processors free, and nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.daemon_under_test import running_hook
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease

pytestmark = pytest.mark.real

PROCESSORS = 8
PLAN = ClusterPlan(
    nodes=1,
    processors_per_node=PROCESSORS,
    accounts=ACCOUNTS,
    options={"AccountingStorageEnforce": "associations,limits,qos"},
    lines=(f"Licenses=slot:{PROCESSORS}",),
)
BY_QOS = """
[reserve]
mechanism = "qos"
qos = "batch"
most_processors = 4
change_seconds = 1
"""


@pytest.fixture(scope="module")
def limited_slurm(release: SlurmRelease | None) -> Iterator[PrivateSlurm]:
    """One node of 8 processors that enforces limits; batch jobs have QOS batch."""
    skip_without_daemons(release)
    with running_slurm(PLAN, release) as cluster:
        cluster.run("sacctmgr", "-i", "add", "qos", "batch")
        users = ("where", "name=alice,bob")
        cluster.run("sacctmgr", "-i", "modify", "user", *users, "set", "qos+=batch")
        yield cluster


@pytest.fixture
def cluster(limited_slurm: PrivateSlurm) -> Iterator[PrivateSlurm]:
    yield limited_slurm
    for user in ("alice", "bob"):
        limited_slurm.run("scancel", "-u", user)
    limited_slurm.wait_until(
        lambda: not limited_slurm.run("squeue", "-h").stdout, 20, "an empty queue"
    )


def limit_of(cluster: PrivateSlurm) -> str:
    """GrpTRES of QOS batch, as the database has it."""
    words = ("show", "qos", "where", "name=batch", "format=GrpTRES")
    return cluster.run("sacctmgr", "-nP", *words).stdout.strip()


def submit_batch(cluster: PrivateSlurm, count: int, processors: int = 1) -> None:
    for _ in range(count):
        cluster.submit("--qos=batch", user="alice", account="physics", processors=processors)


def running(cluster: PrivateSlurm) -> int:
    return len(cluster.run("squeue", "-h", "-t", "R", "-o", "%A").stdout.split())


def test_processors_stay_free_and_an_interactive_job_starts_at_once(
    cluster: PrivateSlurm, tmp_path: Path
) -> None:
    cluster.submit(user="bob", account="biology", minutes=1, seconds=60)
    with running_hook(cluster, tmp_path, "reserve:2", cycle=0.5, more=BY_QOS) as hook:
        hook.wait_for("batch_limit=5", 30)
        submit_batch(cluster, 12)
        cluster.wait_until(lambda: running(cluster) == 6, 20, "5 batch jobs beside one")
        assert limit_of(cluster) == "cpu=5"
        job = cluster.submit(user="bob", account="biology", minutes=1, seconds=60)
        state = ("squeue", "-h", "-j", str(job), "-o", "%T")
        cluster.wait_until(lambda: cluster.run(*state).stdout.strip() == "RUNNING", 10, "its start")
        assert running(cluster) == 7
        hook.wait_for("batch_limit=4", 30)  # its processor comes on top of the reserve
        assert hook.stop() == 0
    assert limit_of(cluster) == ""
    assert not (tmp_path / "state.json.limits").exists()
    cluster.wait_until(lambda: running(cluster) == PROCESSORS, 20, "batch jobs on all the rest")
