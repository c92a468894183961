"""A slurmctld that struggles or hangs: the daemon does nothing, waits, and goes on afterwards."""

from __future__ import annotations

import signal
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

#: As many calls as slurmctld serves at once.
THREADS = 256
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
    return [cluster.submit(user="alice", account="physics", minutes=each) for each in limits]


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


@pytest.mark.parametrize("how", ["hung", "out of threads"])
def test_no_call_outlasts_its_time_out_and_the_daemon_goes_on(
    closed: PrivateSlurm, tmp_path: Path, how: str
) -> None:
    if how == "out of threads" and closed.number > (24, 11):
        pytest.skip(NO_THREAD)
    jobs = submit(closed, 30, 20)
    closed.wait_eligible(tuple(jobs))
    more = "[batch_system]\ntimeout = 1.0\n"
    with (
        running_hook(closed, tmp_path, "sjf", cycle=0.5, more=more) as hook,
        ExitStack() as trouble,
    ):
        hook.wait_for("failure=none", 30)
        if how == "hung":
            closed.kill("slurmctld", signal.SIGSTOP)
            trouble.callback(closed.kill, "slurmctld", signal.SIGCONT)
        else:
            trouble.enter_context(silent_clients(closed, THREADS + 50))
        closed.wait_until(lambda: hook.log.count("failure=batch_system") > 2, 60, "failed cycles")
        assert "gave no answer within 1 s" in hook.log
        assert calls_longer_than(hook, "10.0") == 0  # Slurm's own clients wait 60 s
        trouble.close()
        jobs += submit(closed, 5)
        hook.wait_for("pending=3 running=0 writes=1", 60)
    closed.wait_eligible(tuple(jobs))
    assert closed.site_factors() == dict.fromkeys(jobs, 0)
