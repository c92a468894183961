"""A slurmctld that struggles: the daemon does nothing, waits, and goes on afterwards."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.answers.settings import BUSY_THREADS
from tests.real.cluster_files import CLOSED_PARTITIONS
from tests.real.conftest import ACCOUNTS, private_slurm
from tests.real.daemon_under_test import RunningHook, running_hook
from tests.real.private_cluster import ClusterPlan, PrivateSlurm

pytestmark = pytest.mark.real

NO_THREAD = "a silent client keeps no thread of this slurmctld: run it on the installed 22.05"
PLAN = ClusterPlan(
    nodes=1,
    accounts=ACCOUNTS,
    partitions=CLOSED_PARTITIONS,
    options={"MessageTimeout": "60", "PriorityWeightAge": "0"},
)


closed = private_slurm(PLAN, scope="function")


@contextmanager
def silent_clients(cluster: PrivateSlurm, number: int) -> Iterator[None]:
    """Clients that connect to slurmctld and say nothing: each keeps one of its threads."""
    lines = cluster.run("scontrol", "show", "config").stdout.splitlines()
    (port,) = [line.split("=")[1].strip() for line in lines if line.startswith("SlurmctldPort")]
    with ExitStack() as stack:
        for _ in range(number):
            stack.enter_context(socket.create_connection(("127.0.0.1", int(port)), 10.0))
        yield


def threads(cluster: PrivateSlurm) -> int:
    lines = cluster.run("sdiag").stdout.splitlines()
    (count,) = [line.rpartition(":")[2] for line in lines if "Server thread count" in line]
    return int(count)


def submit(cluster: PrivateSlurm, *limits: float) -> list[int]:
    return [cluster.submit(user="alice", minutes=each) for each in limits]


def calls_longer_than(hook: RunningHook, seconds: str) -> float:
    """Calls to Slurm that took more than one of the metric's buckets."""
    inside = everything = 0.0
    for line in hook.metrics().splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith("slurm_rl_batch_system_call_duration_seconds_bucket"):
            inside += float(value) if f'le="{seconds}"' in name else 0.0
        if name.startswith("slurm_rl_batch_system_call_duration_seconds_count"):
            everything += float(value)
    assert inside > 0
    return everything - inside


def test_while_slurmctld_has_too_many_callers_nothing_is_asked_or_written(
    closed: PrivateSlurm, tmp_path: Path
) -> None:
    if closed.number > (22, 5):
        pytest.skip(NO_THREAD)
    jobs = submit(closed, 30, 20)
    closed.wait_eligible(tuple(jobs))
    with running_hook(closed, tmp_path, "sjf", cycle=0.5) as hook:
        hook.wait_for("failure=none", 30)
        with silent_clients(closed, BUSY_THREADS + 20):
            closed.wait_until(lambda: threads(closed) > BUSY_THREADS, 20, "a busy slurmctld")
            hook.wait_for("failure=busy", 30)
            before = closed.site_factors()
            jobs += submit(closed, 5)
            closed.wait_eligible(tuple(jobs))
            seen = hook.log.count("failure=busy")
            closed.wait_until(lambda: hook.log.count("failure=busy") > seen, 30, "another cycle")
            # the new job goes first in our order, and still has no factor
            assert closed.site_factors() == {**before, jobs[2]: 0}
        assert "calls at once" in hook.log
        hook.wait_for("pending=3 running=0 writes=1", 60)
        assert calls_longer_than(hook, "30.0") == 0
    assert closed.site_factors() == dict.fromkeys(jobs, 0)
