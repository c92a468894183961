"""Nodes of three kinds in a private cluster: memory and GPUs bind, processors free or not."""

from __future__ import annotations

import re
import time

import pytest

from slurm_rl_plugin.machine_files.statements import expand
from tests.real.conftest import ACCOUNTS, private_slurm
from tests.real.private_cluster import ClusterPlan, NodeKind, PrivateSlurm

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
#: sbatch's options, processors, and where it runs; those that wait are the last, because a plan for
#: one keeps its whole nodes from all later ones.
JOBS: tuple[tuple[tuple[str, ...], int, list[str] | None], ...] = (
    (("--nodes=1",), 3, ["n1"]),
    (("--nodes=1", "--mem=8000"), 1, ["n2"]),  # n1 has a processor left and 5000 MB
    (("--nodes=1", "--mem=60000"), 1, ["b1"]),
    (("--nodes=1", "--partition=gpu", "--gres=gpu:1"), 1, ["g1"]),
    (("--nodes=1", "--gres=gpu:1"), 1, ["g1"]),
    (("--nodes=2", "--mem=1000"), 2, ["b1", "n1"]),
    (("--nodes=1", "--partition=gpu", "--gres=gpu:1"), 1, []),  # one of its processors is free
    (("--nodes=1", "--constraint=old", "--mem=6000"), 1, []),  # three are free on n2
    (("--nodes=1", "--mem=20000"), 1, []),  # two are free on b1
    (("--nodes=1", "--mem=70000"), 1, None),
    (("--nodes=1", "--exclusive", "--partition=gpu"), 1, []),
    (("--nodes=1", "--partition=gpu"), 1, []),  # would fit, after its turn
)


cluster = private_slurm(PLAN)


def test_memory_and_gpus_bind(cluster: PrivateSlurm) -> None:
    wanted = {}
    for options, processors, where in JOBS:
        words = (*options, "--chdir=/", "--output=/dev/null", f"--ntasks={processors}", "--time=5")
        done = cluster.run("sbatch", "--parsable", *words, "--wrap=sleep 300", check=False)
        if where is None:
            assert "configuration is not available" in done.stderr
            continue
        job = int(done.stdout)
        wanted[job] = where
        if where:
            cluster.wait_until(lambda job=job: placed(cluster, job) != [], 20, str(options))  # type: ignore[misc]
    time.sleep(4.0)  # rounds of both schedulers
    assert {job: placed(cluster, job) for job in wanted} == wanted
    assert " Nodes=n1 CPU_IDs=0-2 Mem=3000" in shown(cluster, 1)  # DefMemPerCPU
    assert " JOB_GRES=gpu:1 " in shown(cluster, 4)
    assert re.search(r" Nodes=g1 CPU_IDs=\d Mem=1000", shown(cluster, 4))


def shown(cluster: PrivateSlurm, job: int) -> str:
    return cluster.run("scontrol", "-o", "-d", "show", "job", str(job)).stdout


def placed(cluster: PrivateSlurm, job: int) -> list[str]:
    """Names of its nodes; none while it waits."""
    return expand(cluster.run("squeue", "-h", "-j", str(job), "-o", "%N").stdout.strip())
