"""Killed at any moment: the daemon in mid-write, and every daemon of Slurm under it.

SLURM_RL_KILLS says how often each is killed (2 by default, 20 for the record).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.cluster_files import CLOSED_PARTITIONS
from tests.real.conftest import ACCOUNTS, private_slurm
from tests.real.daemon_under_test import write_configuration
from tests.real.private_cluster import ClusterPlan, PrivateSlurm

pytestmark = pytest.mark.real

KILLS = int(os.environ.get("SLURM_RL_KILLS", "2"))
JOBS = 150
PLAN = ClusterPlan(
    accounts=ACCOUNTS, options={"PriorityWeightAge": "0"}, partitions=CLOSED_PARTITIONS
)


def fill(slurm: PrivateSlurm) -> None:
    """A mixed queue, in which nothing starts."""
    options = [(), ("--nice=70",), ("--hold",), ("--priority=4000",), ("--array=1-50",)]
    for number in range(JOBS):
        user, account = (("alice", "physics"), ("bob", "biology"))[number % 2]
        chosen = options[number] if number < len(options) else ()
        slurm.submit(*chosen, user=user, account=account)


closed_cluster = private_slurm(PLAN, fill)


def queue_of(cluster: PrivateSlurm) -> list[str]:
    """Every record with its state, reason, priority and nice; sprio's terms for the eligible."""
    records = cluster.run(
        "squeue", "-h", "-O", "JobArrayID:|,State:|,Reason:|,PriorityLong:|,Nice:"
    )
    sites = cluster.run("sprio", "-h", "-o", "%i site %S")
    return sorted([*records.stdout.splitlines(), *sites.stdout.splitlines()])


class RestlessDaemon:
    """The restless daemon as a process, started again after each kill, and its watchdog."""

    def __init__(self, cluster: PrivateSlurm, folder: Path, more: str = "") -> None:
        self.cluster, self.folder = cluster, folder
        write_configuration(folder, "sjf", mode="active", cycle=0.2, more=more)
        self.log = folder / "daemon.log"

    def start(self) -> None:
        words = ("tests.real.restless_hook", "run", "--config", f"{self.folder}/slurm-rl.toml")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *words], env=self.cluster.env, stdout=log, stderr=log
            )

    def wait_until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not condition():
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            assert time.monotonic() < end, self.log.read_text()[-2000:]
            time.sleep(0.02)

    def wait_for_writes(self) -> None:
        """Waits for two more successful cycles: then it writes again."""
        wanted = self.log.read_text().count("failure=none") + 2
        self.wait_until(lambda: self.log.read_text().count("failure=none") >= wanted)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=10)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def watchdog(self) -> int:
        """Runs what the timer of systemd runs; its exit code."""
        return self.cluster.slurm_rl("release", "--unattended", folder=self.folder).returncode


@pytest.mark.parametrize("victim", ["the hook", "slurmctld", "slurmdbd", "munged"])
def test_after_kills_every_job_is_there_and_as_it_was(
    closed_cluster: PrivateSlurm, tmp_path: Path, victim: str
) -> None:
    cluster = closed_cluster
    ids = cluster.run("squeue", "-h", "-t", "PD", "-o", "%A").stdout.split()
    held = cluster.run("squeue", "-h", "-t", "PD", "-O", "JobID:|,Reason:").stdout
    listed = tuple(int(job) for job in ids if f"{job}|JobHeldUser" not in held)
    cluster.wait_eligible(listed)
    before = queue_of(cluster)
    assert len(ids) == JOBS
    hook, rng = RestlessDaemon(cluster, tmp_path), random.Random(victim)
    hook.start()
    try:
        for _ in range(KILLS):
            hook.wait_for_writes()
            time.sleep(rng.uniform(0.0, 0.4))
            if victim == "the hook":
                hook.kill()
                hook.start()
            else:
                cluster.kill(victim)
                time.sleep(rng.uniform(0.0, 1.0))
                cluster.restart(victim)
        hook.wait_for_writes()
        assert hook.stop() == 0
    finally:
        hook.process.kill()
    cluster.wait_eligible(listed)
    assert queue_of(cluster) == before
