"""A site with `priority/basic`: Nice orders the queue, and every user's own value comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.port import FactorChange
from slurm_rl_plugin.batch_systems.slurm.commands import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.levers.nice import HELD
from tests.contracts.batch_system_contract import BatchSystemContract, PreparedQueue
from tests.real.cluster_files import CLOSED_PARTITIONS
from tests.real.conftest import ACCOUNTS, StartSlurm, running_slurm, skip_without_daemons
from tests.real.daemon_under_test import running_hook, write_configuration
from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.site_factors import site_factors
from tests.real.slurm_releases import SlurmRelease
from tests.real.test_slurm_commands_real import prepared_queue, scontrol, submit
from tests.real.test_slurm_commands_real import wait_eligible as wait_listed

pytestmark = pytest.mark.real

PLAN = ClusterPlan(accounts=ACCOUNTS, options={"PriorityType": "priority/basic"})


@pytest.fixture(scope="module")
def shared_basic(release: SlurmRelease | None) -> Iterator[PrivateSlurm]:
    skip_without_daemons(release)
    with running_slurm(PLAN, release) as cluster:
        yield cluster


@pytest.fixture
def basic(shared_basic: PrivateSlurm) -> Iterator[PrivateSlurm]:
    """A cluster with `priority/basic`, its queue empty and its partitions down."""
    for partition in ("batch", "short"):
        scontrol(shared_basic, "update", f"partition={partition}", "state=down")
    yield shared_basic
    for user in ("root", "alice", "bob"):
        shared_basic.run("scancel", "-u", user)
    shared_basic.wait_until(
        lambda: not shared_basic.run("squeue", "-h").stdout, 20, "an empty queue"
    )


def adapter(cluster: PrivateSlurm, file: Path) -> SlurmCommands:
    return adapter_of(cluster, state_file=file)


def wait_eligible(cluster: PrivateSlurm, count: int) -> None:
    """`sprio` tells nothing here: wait until the scheduler has looked at so many jobs."""
    words = ("squeue", "-h", "-t", "PD", "-O", "EligibleTime")

    def eligible() -> bool:
        times = cluster.run(*words).stdout.split()
        return sum(each != "N/A" for each in times) >= count

    cluster.wait_until(eligible, 10, "eligible jobs")
    time.sleep(1.1)  # a new job is eligible from the next second on


def nice_values(cluster: PrivateSlurm) -> dict[str, str]:
    lines = cluster.run("squeue", "-h", "-O", "JobID:|,Nice:|,Reason:").stdout.splitlines()
    return dict(line.split("|", 1) for line in lines)


class TestContract(BatchSystemContract):
    @pytest.fixture
    def queue(self, basic: PrivateSlurm, tmp_path: Path) -> PreparedQueue:
        waiting = tuple(submit(basic) for _ in range(3))
        wait_eligible(basic, 3)
        return prepared_queue(basic, adapter(basic, tmp_path / "state"), waiting)


def test_jobs_start_in_the_drawn_order_and_keep_their_nice(
    basic: PrivateSlurm, tmp_path: Path
) -> None:
    options = [(), ("--nice=70",), ("--hold",), (), ("--array=1-3",), ("--nice=5",)]
    jobs = [submit(basic, "--ntasks=8", *each, seconds=1) for each in options]
    wait_eligible(basic, len(jobs) - 1)
    before = nice_values(basic)
    policy = DrawnOrder(seed=5)
    cycle = cycle_of(adapter(basic, tmp_path / "state"), policy, tmp_path)
    for policy.sign in (1, -1):
        assert cycle.run().writes > 0
    assert nice_values(basic) != before
    wanted = sorted((job for job in jobs if job != jobs[2]), key=policy.score, reverse=True)
    cycle.release()
    assert nice_values(basic) == before
    assert cycle.run().writes > 0
    scontrol(basic, "update", "partition=batch", "state=up")
    basic.wait_until(
        lambda: (
            basic.run("squeue", "-h", "-t", "PD", "-O", "Reason").stdout.split() == ["JobHeldUser"]
        ),
        60,
        "all but the held job started",
    )
    times = basic.run(
        *("squeue", "-h", "-t", "R,CG,CD", "-O", "ArrayJobID,StartTime"),
        env={"SLURM_TIME_FORMAT": "%s"},
    ).stdout.splitlines()
    starts = sorted((int(start), int(job)) for job, start in (line.split() for line in times))
    assert list(dict.fromkeys(job for _, job in starts)) == wanted


def test_a_killed_daemon_loses_nobodys_nice(basic: PrivateSlurm, tmp_path: Path) -> None:
    jobs = [submit(basic, f"--time={minutes}", "--nice=30") for minutes in (30, 20, 10)]
    wait_eligible(basic, len(jobs))
    before = nice_values(basic)
    with running_hook(basic, tmp_path, "sjf", cycle=0.5) as hook:
        assert "lever=Nice" in hook.log
        hook.process.send_signal(signal.SIGKILL)
        hook.process.wait(timeout=10)
    assert nice_values(basic) != before
    write_configuration(tmp_path, "sjf", mode="active", cycle=1)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "slurm_rl_plugin.cli.entry"),
            *("release", "--config", str(tmp_path / "slurm-rl.toml")),
        ],
        env={**os.environ, **basic.env},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert nice_values(basic) == before


def test_a_held_task_of_an_array_stays_held(basic: PrivateSlurm, tmp_path: Path) -> None:
    array = submit(basic, "--array=1-5")
    wait_eligible(basic, 1)
    scontrol(basic, "hold", f"{array}_3")
    system = adapter(basic, tmp_path / "state")
    system.snapshot()
    report = system.apply([FactorChange(job_id=array, old=0, new=5000)])
    assert report.rejected == {array: HELD}
    words = ("squeue", "-h", "-r", "-j", str(array), "-O", "ArrayTaskID:|,PriorityLong:")
    held = dict(line.split("|") for line in basic.run(*words).stdout.split())
    assert [task for task, priority in held.items() if priority == "0"] == ["3"]


def switch(cluster: PrivateSlurm, old: str, new: str) -> None:
    """Another PriorityType, with which slurmctld has to be started again."""
    conf = cluster.directory / "etc" / "slurm.conf"
    text = conf.read_text()
    assert old in text
    conf.write_text(text.replace(old, new))
    cluster.restart("slurmctld")


def test_factors_from_before_priority_basic_are_gone_when_the_site_comes_back(
    start_slurm: StartSlurm, tmp_path: Path
) -> None:
    cluster = start_slurm(ClusterPlan(nodes=1, accounts=ACCOUNTS, partitions=CLOSED_PARTITIONS))
    jobs = tuple(submit(cluster, f"--time={minutes}") for minutes in (30, 20, 10))
    wait_listed(cluster, jobs)
    before = nice_values(cluster)
    with running_hook(cluster, tmp_path, "sjf", cycle=0.5) as hook:
        assert "lever=SiteFactor" in hook.log
        assert site_factors(cluster)[jobs[2]] > 0
        scontrol(cluster, "hold", str(jobs[2]))
        time.sleep(6)  # slurmctld saves its state
        switch(cluster, "priority/multifactor", "priority/basic")
        seen = hook.log.count("failure=none")
        cluster.wait_until(lambda: hook.log.count("failure=none") > seen, 60, "a good cycle")
        assert hook.stop() == 0
    assert "left_over=SiteFactor given_back=" in hook.log
    after = nice_values(cluster)
    assert "JobHeldAdmin" in after[str(jobs[2])]
    assert [each.partition("|")[0] for each in after.values()] == [
        each.partition("|")[0] for each in before.values()
    ]
    time.sleep(6)
    switch(cluster, "priority/basic", "priority/multifactor")
    scontrol(cluster, "release", str(jobs[2]))
    wait_listed(cluster, jobs)
    assert site_factors(cluster) == dict.fromkeys(jobs, 0)
