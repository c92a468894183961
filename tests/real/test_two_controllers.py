"""Two real controllers of one cluster, with a daemon on the host of each: only one acts.

The hosts are this machine under two names and addresses. Only what Slurm itself does on one machine
as on two is tried: who is in charge, who takes over, and which answers its commands give meanwhile.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.real.cluster_files import CLOSED_PARTITIONS
from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.daemon_under_test import RunningHook, running_hook
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease

pytestmark = pytest.mark.real

#: Seconds in which slurmctld saves its state; what is younger dies with it.
SAVED = 7.0
FIRST, SECOND = HOSTS = ("ctl1", "ctl2")


@pytest.fixture
def two_controllers(release: SlurmRelease | None) -> Iterator[PrivateSlurm]:
    """A cluster with two controllers, in which nothing starts."""
    skip_without_daemons(release)
    if release is not None:
        pytest.skip("another release's folder has one list of host names: run it on the installed")
    plan = ClusterPlan(
        nodes=1,
        accounts=ACCOUNTS,
        controllers=HOSTS,
        partitions=CLOSED_PARTITIONS,
        options={
            "PriorityWeightAge": "0",
            "SlurmctldTimeout": "3",
            "MessageTimeout": "5",
        },
    )
    with running_slurm(plan) as cluster:
        yield cluster


class Pair:
    """A daemon on the host of each controller; they share the state file, as documented."""

    def __init__(self, cluster: PrivateSlurm, folder: Path, stack: ExitStack) -> None:
        self.cluster = cluster
        self.hooks: dict[str, RunningHook] = {
            host: stack.enter_context(
                running_hook(
                    cluster,
                    folder / host,
                    "sjf",
                    cycle=0.5,
                    more="beside_controllers = true",
                    state=folder / "state.json",
                    before=cluster.on_host(host),
                )
            )
            for host in HOSTS
        }

    def last_cycle(self, host: str) -> tuple[str, str]:
        """Its mode, and what failed."""
        lines = [line for line in self.hooks[host].log.splitlines() if "cycle=done" in line]
        words = dict(word.split("=", 1) for word in lines[-1].split() if "=" in word)
        return words["mode"], words["failure"]

    def wait_for_modes(self, *modes: str) -> None:
        """Wait until the last cycle of each was such a one and did not fail."""
        wanted = [(mode, "none") for mode in modes]
        self.cluster.wait_until(
            lambda: [self.last_cycle(host) for host in HOSTS] == wanted, 60, f"modes {modes}"
        )

    def writes(self, host: str) -> int:
        """Writes in its audit log so far, which has its first line with its first decision."""
        hook = self.hooks[host]
        if not (hook.folder / "audit.jsonl").exists():
            return 0
        return sum(each["event"] == "write" for each in hook.audit)


def priorities(cluster: PrivateSlurm) -> dict[int, tuple[str, str]]:
    """Job -> its priority and nice."""
    lines = cluster.run("squeue", "-h", "-O", "JobID:|,PriorityLong:|,Nice:").stdout.splitlines()
    return {int(job): (priority, nice) for job, priority, nice in (x.split("|") for x in lines)}


def submit(cluster: PrivateSlurm, minutes: float, *options: str) -> int:
    return cluster.submit(*options, user="alice", account="physics", minutes=minutes)


def order(cluster: PrivateSlurm, jobs: list[int]) -> list[int]:
    """The jobs as Slurm would start them."""
    now = priorities(cluster)
    return sorted(jobs, key=lambda job: -int(now[job][0]))


def queue_of_three(cluster: PrivateSlurm) -> tuple[list[int], dict[int, tuple[str, str]]]:
    """Three jobs of one user, the longest first, and what they are like.

    Their nice is equal: among a user's jobs the lowest nice goes first, whatever their length.
    """
    jobs = [submit(cluster, minutes, "--nice=7") for minutes in (30, 20, 10)]
    time.sleep(2.1)  # eligible from the next second on
    return jobs, priorities(cluster)


def wait_for_order(pair: Pair, jobs: list[int]) -> None:
    """Wait until the first daemon has turned the queue round, and slurmctld saved it."""
    pair.wait_for_modes("active", "standby")
    pair.cluster.wait_until(lambda: order(pair.cluster, jobs) == jobs[::-1], 30, "our order")
    time.sleep(SAVED)


def wait_in_front(cluster: PrivateSlurm, job: int, others: list[int]) -> None:
    cluster.wait_until(lambda: order(cluster, [*others, job])[0] == job, 60, f"{job} in front")


def test_the_daemon_beside_the_controller_in_charge_acts_alone(
    two_controllers: PrivateSlurm, tmp_path: Path
) -> None:
    cluster = two_controllers
    jobs, plain = queue_of_three(cluster)
    with ExitStack() as stack:
        pair = Pair(cluster, tmp_path, stack)
        wait_for_order(pair, jobs)
        assert pair.writes(FIRST) > 0
        assert pair.writes(SECOND) == 0
        assert "pending=3" not in pair.hooks[SECOND].log  # nor was the queue read
        ours = priorities(cluster)
        cluster.kill("slurmctld")
        pair.wait_for_modes("standby", "active")
        assert priorities(cluster) == ours  # nothing lost, and nothing to write again
        writes = pair.writes(FIRST)
        jobs.append(submit(cluster, 5))
        wait_in_front(cluster, jobs[-1], jobs[:-1])
        assert pair.writes(SECOND) > 0
        time.sleep(SAVED)
        cluster.restart("slurmctld")  # the first one takes charge again
        pair.wait_for_modes("active", "standby")
        jobs.append(submit(cluster, 3))
        wait_in_front(cluster, jobs[-1], jobs[:-1])
        assert pair.writes(FIRST) > writes
        ours = priorities(cluster)
        assert pair.hooks[SECOND].stop() == 0
        assert priorities(cluster) == ours  # a standby takes nothing back
        assert pair.hooks[FIRST].stop() == 0
    nobody_is_left_with_ours(cluster, jobs, plain)


def test_who_takes_over_also_takes_back_what_the_other_wrote(
    two_controllers: PrivateSlurm, tmp_path: Path
) -> None:
    """A held job shows no factor: only the state file records it."""
    cluster = two_controllers
    jobs, plain = queue_of_three(cluster)
    with ExitStack() as stack:
        pair = Pair(cluster, tmp_path, stack)
        wait_for_order(pair, jobs)
        cluster.run("scontrol", "hold", str(jobs[2]))
        time.sleep(SAVED)
        cluster.run("scontrol", "takeover")
        pair.wait_for_modes("standby", "active")
        assert pair.hooks[FIRST].stop() == 0
        jobs.append(submit(cluster, 5))
        wait_in_front(cluster, jobs[-1], jobs[:-1])
        assert pair.hooks[SECOND].stop() == 0
    cluster.run("scontrol", "release", str(jobs[2]))
    nobody_is_left_with_ours(cluster, jobs, plain)


def nobody_is_left_with_ours(
    cluster: PrivateSlurm, jobs: list[int], plain: dict[int, tuple[str, str]], said: str = ""
) -> None:
    """Every job has its user's nice value and no factor; else shows what the daemons said."""
    after = priorities(cluster)
    assert sorted(after) == sorted(jobs)
    assert {job: after[job][1] for job in plain} == {job: plain[job][1] for job in plain}
    cluster.wait_eligible(tuple(jobs))
    assert cluster.site_factors() == dict.fromkeys(jobs, 0), said
    again = priorities(cluster)
    assert {job: again[job] for job in plain} == plain


def test_a_controller_that_hangs_makes_both_daemons_wait(
    two_controllers: PrivateSlurm, tmp_path: Path
) -> None:
    """Slurm's own commands fail until the hung one is gone: they do not ask the other."""
    cluster = two_controllers
    jobs, plain = queue_of_three(cluster)
    with ExitStack() as stack:
        pair = Pair(cluster, tmp_path, stack)
        wait_for_order(pair, jobs)
        cluster.kill("slurmctld", signal.SIGSTOP)
        for hook in pair.hooks.values():
            hook.wait_for("failure=batch_system", 60)
        cluster.kill("slurmctld")
        pair.wait_for_modes("standby", "active")
        assert order(cluster, jobs) == jobs[::-1]
        for host in HOSTS:
            assert pair.hooks[host].stop() == 0
        said = "\n".join(pair.hooks[host].log[-2000:] for host in HOSTS)
    nobody_is_left_with_ours(cluster, jobs, plain, said)
