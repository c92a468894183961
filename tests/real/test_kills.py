"""Killed at any moment: the daemon in mid-write, and every daemon of Slurm under it.

Batch jobs are limited meanwhile. The daemon leaves no factor and no limit, and harms no job.
SLURM_RL_KILLS says how often each is killed (2 by default, 20 for the record).
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.real.conftest import ACCOUNTS, private_slurm
from tests.real.daemon_under_test import started_hook, write_configuration
from tests.real.private_cluster import ClusterPlan, PrivateSlurm

pytestmark = pytest.mark.real

RESTLESS = "tests.real.restless_hook"
KILLS = int(os.environ.get("SLURM_RL_KILLS", "2"))
#: What the site itself allows the batch class.
OWN = "cpu=7,mem=90G"
#: Priorities do not move by themselves; in the partition `closed` nothing starts.
PLAN = ClusterPlan(
    nodes=1,
    processors_per_node=8,
    accounts=ACCOUNTS,
    options={
        "AccountingStorageEnforce": "associations,limits,qos",
        "PriorityWeightAge": "0",
        "PriorityWeightFairshare": "0",
    },
    partitions=(
        "PartitionName=open Nodes=ALL Default=YES MaxTime=1-0 State=UP",
        "PartitionName=closed Nodes=ALL MaxTime=1-0 State=DOWN",
    ),
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
#: Jobs of every kind among those that wait in the closed partition, and how many wait there.
KINDS = ((), ("--nice=70",), ("--hold",), ("--priority=4000",), ("--array=1-50",))
WAITING = 60


def fill(slurm: PrivateSlurm) -> None:
    """One interactive and six batch jobs run on 8 processors, others are pending."""
    slurm.add_qos("batch", f"GrpTRES={OWN}")
    long = {"minutes": 900, "seconds": 9000}
    slurm.submit(user="bob", name="quick", **long)
    for processors in (1, 1, 1, 1, 1, 1, 1, 2, 3, 1):
        slurm.submit("--qos=batch", user="alice", processors=processors, **long)
    for number in range(WAITING):
        kind = KINDS[number] if number < len(KINDS) else ()
        slurm.submit("--partition=closed", *kind, user="bob")


cluster = private_slurm(PLAN, fill)


def records(cluster: PrivateSlurm) -> list[str]:
    """Every job that runs or is pending: restarts, priority, nice value, and reason of a hold."""
    fields = "JobArrayID:|,RestartCnt:|,PriorityLong:|,Nice:|,Reason:"
    lines = cluster.run("squeue", "-h", "-t", "R,PD", "-O", fields).stdout.splitlines()
    # other reasons change by themselves, when Slurm has looked at a job
    rows = (line.strip().rpartition("|") for line in lines)
    return sorted(f"{row}|{why}" if why.startswith("JobHeld") else row for row, _, why in rows)


def live_limit_of(cluster: PrivateSlurm) -> str:
    """As slurmctld goes by it, used processors left out."""
    text = cluster.run("scontrol", "-o", "show", "assoc_mgr", "qos=batch", "flags=qos").stdout
    return text.partition(" GrpTRES=")[2].partition("(")[0]


@pytest.mark.parametrize("victim", ["the hook", "slurmctld", "slurmdbd", "munged"])
def test_after_kills_every_job_and_the_sites_own_limit_are_as_they_were(
    cluster: PrivateSlurm, tmp_path: Path, victim: str
) -> None:
    listed = set(cluster.site_factors())
    before, rng = records(cluster), random.Random(victim)
    write_configuration(tmp_path, "sjf", mode="active", cycle=0.2, more=RESERVE)
    limited = tmp_path / "state.json.limits"

    def watchdog() -> int:
        """Runs what the timer of systemd runs; its exit code."""
        return cluster.slurm_rl("release", "--unattended", folder=tmp_path).returncode

    for number in range(KILLS):
        with started_hook(cluster.env, tmp_path, program=RESTLESS) as hook:
            cluster.wait_until(limited.exists, 60, "a limit on batch jobs")
            assert any(cluster.site_factors().values())
            time.sleep(rng.uniform(0.0, 1.5))  # the limit changes each second, in 0.7 s
            if victim == "the hook":
                hook.process.kill()
            else:
                cluster.kill(victim)
                time.sleep(rng.uniform(0.0, 1.0))
                if number % 2 == 0:
                    hook.process.kill()
                    hook.process.wait(timeout=10)
                    if victim == "slurmdbd" and limited.exists():
                        assert watchdog() == 1  # and the timer runs it again
                cluster.restart(victim)
                if number % 2:  # the daemon goes on until systemd stops it
                    assert hook.stop() == 0
        cluster.wait_until(lambda: watchdog() == 0, 60, "all restored")
        assert cluster.qos_limit() == OWN
        assert not limited.exists()
        cluster.wait_until(lambda: live_limit_of(cluster) == "cpu=7", 20, "slurmctld knows")
        cluster.wait_eligible(listed)
        assert not any(cluster.site_factors().values())
        assert records(cluster) == before
