"""Kills while batch jobs are limited: the site's own limit is restored, no job is harmed.

SLURM_RL_KILLS says how often each is killed (2 by default, 50 for the record).
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.real.conftest import ACCOUNTS, private_slurm
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.test_kills import KILLS, RestlessDaemon

pytestmark = pytest.mark.real

#: What the site itself allows the batch class.
OWN = "cpu=7,mem=90G"
PLAN = ClusterPlan(
    nodes=1,
    processors_per_node=8,
    accounts=ACCOUNTS,
    options={"AccountingStorageEnforce": "associations,limits,qos"},
)
RESERVE = """
[reserve]
mechanism = "qos"
qos = "batch"
most_processors = 4
change_seconds = 1

[[job_class]]
class = "interactive"
name = "quick"
"""


def fill(slurm: PrivateSlurm) -> None:
    """One interactive and six batch jobs run on 8 processors, other batch jobs are pending."""
    slurm.add_qos("batch", f"GrpTRES={OWN}")
    long = {"minutes": 900, "seconds": 9000}
    slurm.submit(user="bob", account="biology", name="quick", **long)
    for processors in (1, 1, 1, 1, 1, 1, 1, 2, 3, 1):
        slurm.submit("--qos=batch", user="alice", account="physics", processors=processors, **long)


cluster = private_slurm(PLAN, fill)


def live_limit_of(cluster: PrivateSlurm) -> str:
    """As slurmctld goes by it, used processors left out."""
    text = cluster.run("scontrol", "-o", "show", "assoc_mgr", "qos=batch", "flags=qos").stdout
    return text.partition(" GrpTRES=")[2].partition("(")[0]


def batch_jobs(cluster: PrivateSlurm) -> dict[str, str]:
    """Job -> how often it was restarted and its state; of those that ever were."""
    fields = "JobID:|,RestartCnt:|,State:"
    lines = cluster.run("squeue", "-h", "-t", "all", "-u", "alice", "-O", fields).stdout
    return {line.partition("|")[0]: line.partition("|")[2].strip() for line in lines.splitlines()}


@pytest.mark.parametrize("victim", ["the hook", "slurmdbd", "slurmctld"])
def test_after_kills_the_sites_own_limit_stands_and_every_job_runs_on(
    cluster: PrivateSlurm, tmp_path: Path, victim: str
) -> None:
    before = batch_jobs(cluster)
    assert len(before) == 10
    hook, rng = RestlessDaemon(cluster, tmp_path, RESERVE), random.Random(victim)
    record = tmp_path / "state.json.limits"
    try:
        for _ in range(KILLS):
            hook.start()
            hook.wait_until(record.exists)
            time.sleep(rng.uniform(0.0, 1.5))  # the limit changes each second, in 0.7 s
            if victim != "the hook":
                cluster.kill(victim)
                time.sleep(rng.uniform(0.0, 1.0))
            hook.kill()
            if victim == "slurmdbd" and record.exists():
                assert hook.watchdog() == 1  # and the timer runs it again
            if victim != "the hook":
                cluster.restart(victim)
            cluster.wait_until(lambda: hook.watchdog() == 0, 60, "the limit restored")
            assert cluster.qos_limit() == OWN
            assert not record.exists()
            cluster.wait_until(lambda: live_limit_of(cluster) == "cpu=7", 20, "slurmctld knows")
            now = batch_jobs(cluster)
            assert now.keys() == before.keys()
            assert {each.partition("|")[0] for each in now.values()} == {"0"}
            assert {each.partition("|")[2] for each in now.values()} <= {"RUNNING", "PENDING"}
    finally:
        if hook.process.poll() is None:
            hook.kill()
