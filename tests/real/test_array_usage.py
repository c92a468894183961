"""What tasks of an array use counts before slurmctld's own calculation, which is minutes apart."""

from __future__ import annotations

import time

import pytest

from tests.real.conftest import ACCOUNTS, StartSlurm
from tests.real.drawn_order import adapter_of
from tests.real.private_cluster import ClusterPlan, PrivateSlurm

pytestmark = pytest.mark.real


def raw_usage(cluster: PrivateSlurm) -> dict[str, float]:
    said = cluster.run("sshare", "-a", "-P", "-h", "-o", "Account,User,RawUsage").stdout
    rows = (line.strip().split("|") for line in said.splitlines())
    return {account: float(used) for account, user, used in rows if user and account != "root"}


def test_usage_moves_while_tasks_of_an_array_run(start_slurm: StartSlurm) -> None:
    options = {"AccountingStorageEnforce": "associations,limits,qos"}
    cluster = start_slurm(ClusterPlan(nodes=2, accounts=ACCOUNTS, options=options))
    cluster.submit(user="bob", seconds=2)
    cluster.wait_until(lambda: raw_usage(cluster)["biology"] > 0, 30, "usage of a job that ended")
    array = cluster.submit("--array=1-20", user="alice", seconds=60)
    states = ("squeue", "-h", "-j", str(array), "-t", "R", "-o", "%t")
    cluster.wait_until(lambda: bool(cluster.run(*states).stdout), 30, "a running task")
    time.sleep(5.0)
    before = raw_usage(cluster)
    adapter = adapter_of(cluster)
    first = adapter.snapshot()
    time.sleep(5.0)
    second = adapter.snapshot()
    if raw_usage(cluster) != before:
        pytest.skip("slurmctld calculated meanwhile")
    assert before["physics"] == 0.0
    at = first.accounts.index("physics")
    assert 0.0 < first.usage[at] < second.usage[at]
    assert second.pending.last_start is not None
    assert abs(second.now - second.pending.last_start.max() - 10.0) < 8.0
