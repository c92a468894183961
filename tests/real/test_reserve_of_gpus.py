"""The reserve on a real Slurm with counted GPUs and memory: they stay free as processors do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.conftest import ACCOUNTS, private_slurm
from tests.real.daemon import ClusterError
from tests.real.daemon_under_test import running_hook, write_configuration
from tests.real.private_cluster import ClusterPlan, NodeKind, PrivateSlurm

pytestmark = pytest.mark.real

GPUS = 4
PLAN = ClusterPlan(
    kinds=(NodeKind(name="g", count=1, processors=16, memory=16000, gpus=GPUS),),
    accounts=ACCOUNTS,
    options={
        "SelectTypeParameters": "CR_Core_Memory",
        "AccountingStorageTRES": "gres/gpu",
        "AccountingStorageEnforce": "associations,limits,qos",
    },
    partitions=("PartitionName=all Nodes=ALL Default=YES DefMemPerCPU=100 State=UP",),
)
#: One user may hold the whole reserve: bob's second job counts as interactive too.
BY_QOS = """
[reserve]
mechanism = "qos"
qos = "batch"
most_processors = 2
most_resources = ["gres/gpu=2", "mem=4G"]
change_seconds = 1
account_share = 1
user_share = 1
"""


#: A node of four GPUs that enforces limits; batch jobs have QOS batch.
cluster = private_slurm(PLAN, lambda slurm: slurm.add_qos("batch"))


def limit_of(cluster: PrivateSlurm) -> set[str]:
    """GrpTRES of QOS batch, as the database has it."""
    return set(filter(None, cluster.qos_limit().split(",")))


def in_state(cluster: PrivateSlurm, state: str, *options: str) -> list[str]:
    """Why each job in this state waits, or `None`."""
    return cluster.run("squeue", "-h", "-t", state, "-o", "%r", *options).stdout.split()


def test_gpus_stay_free_and_an_interactive_job_gets_them_at_once(
    cluster: PrivateSlurm, tmp_path: Path
) -> None:
    gpus = "--gres=gpu:1"
    quick = cluster.submit(user="bob", account="biology", minutes=1, seconds=60)
    with running_hook(cluster, tmp_path, "reserve:2", cycle=0.5, more=BY_QOS) as hook:
        hook.wait_for("batch_limit=13,gpus=2,memory=", 30)
        # in addition to one processor and 100 MiB of the interactive job
        assert limit_of(cluster) == {"cpu=13", "gres/gpu=2", f"mem={16000 - 100 - 4096}M"}
        for _ in range(6):
            cluster.submit("--qos=batch", gpus, user="alice", account="physics")
        cluster.wait_until(lambda: len(in_state(cluster, "R")) == 3, 20, "two batch jobs on GPUs")
        cluster.wait_until(
            lambda: "QOSGrpGRES" in in_state(cluster, "PD"), 20, "jobs below the limit"
        )
        job = cluster.submit(gpus, user="bob", account="biology", minutes=1, seconds=60)
        runs = lambda: in_state(cluster, "R", "-j", str(job)) != []  # noqa: E731
        cluster.wait_until(runs, 10, "its start")
        hook.wait_for("batch_limit=12,gpus=1,memory=", 30)  # its GPU comes on top
        of = '{resource="gpus"}'
        assert hook.metric(f"slurm_rl_batch_limit_resource{of} ") == 1
    assert limit_of(cluster) == set()
    assert not (tmp_path / "state.json.limits").exists()
    cluster.wait_until(
        lambda: len(in_state(cluster, "R")) == 2 + GPUS - 1, 20, "batch jobs on the other GPUs"
    )
    assert in_state(cluster, "R", "-j", str(quick)) != []


def test_without_a_reserve_it_waits(cluster: PrivateSlurm) -> None:
    """All GPUs are busy with batch jobs of five minutes."""
    cluster.run("scancel", "-u", "bob")
    cluster.wait_until(lambda: len(in_state(cluster, "R")) == GPUS, 20, "all GPUs busy")
    job = cluster.submit("--gres=gpu:1", user="bob", account="biology", minutes=1, seconds=60)
    with pytest.raises(ClusterError):
        cluster.wait_until(lambda: in_state(cluster, "R", "-j", str(job)) != [], 8, "its start")


def test_check_says_what_of_the_cluster_may_be_kept_free(
    cluster: PrivateSlurm, tmp_path: Path
) -> None:
    write_configuration(tmp_path, "reserve:2", mode="shadow", cycle=2, more=BY_QOS)
    checked = cluster.slurm_rl("check", folder=tmp_path).stdout
    assert "2 GPUs of 4 GPUs at most" in checked
    assert "4 GiB of memory of 15.62 GiB of memory at most" in checked
    assert "this user may limit batch jobs" in checked
