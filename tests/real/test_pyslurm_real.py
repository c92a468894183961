"""The adapter by pyslurm on a real Slurm, where a pyslurm of its release is installed."""

from __future__ import annotations

import math
import os
import signal
import time
from dataclasses import fields
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.adapter import (
    PyslurmQueue,
    Slurm,
    ask_pyslurm,
    choose_adapter,
    installed_pyslurm,
)
from slurm_rl_plugin.batch_systems.slurm.answers.fields import QueueRow
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue.reader import Squeue
from slurm_rl_plugin.errors import BatchSystemUnavailable, ChangeRejected
from tests.contracts.batch_system_contract import (
    BatchSystemContract,
    PreparedQueue,
    factors,
    set_factor,
)
from tests.real.cluster_files import ClusterPlan
from tests.real.conftest import StartSlurm, skip_without_daemons
from tests.real.drawn_order import settings_of
from tests.real.private_cluster import PrivateSlurm
from tests.real.slurm_releases import SlurmRelease, installed_number
from tests.real.test_slurm_commands_real import (
    eligible_jobs,
    prepared_queue,
    submit,
    thousand_writes,
)

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def fitting_pyslurm(release: SlurmRelease | None) -> None:
    """Skip where there is no pyslurm for the Slurm that is tested."""
    skip_without_daemons(release)
    major, minor = release.number if release else installed_number()
    found = installed_pyslurm() or "none"
    if not found.startswith(f"{major}.{minor}."):
        pytest.skip(
            f"needs pyslurm {major}.{minor} for this Python (found: {found}): build the newest tag "
            f"v{major}.{minor}.* of github.com/PySlurm/pyslurm, as docs/install.md says"
        )


@pytest.fixture
def pyslurm(closed_slurm: PrivateSlurm) -> Slurm:
    """The adapter over a cluster in which nothing starts."""
    return adapter(closed_slurm)


#: For the child's PYTHONPATH: it reads as root and writes as a user without rights.
WRITES_AS_ALICE = """
import os, pwd, pyslurm

describe = pyslurm.JobSubmitDescription

def describe_as_alice(**values):
    os.seteuid(pwd.getpwnam("alice").pw_uid)
    return describe(**values)

pyslurm.JobSubmitDescription = describe_as_alice
"""


def adapter(cluster: PrivateSlurm, *, seconds: float = 10.0, **environment: str) -> Slurm:
    return Slurm(settings_of(cluster, timeout=seconds, environment={**cluster.env, **environment}))


def sites(cluster: PrivateSlurm) -> list[str]:
    """The factor of each record that sprio lists."""
    return cluster.run("sprio", "-h", "-o", "%S").stdout.split()


class TestContract(BatchSystemContract):
    @pytest.fixture
    def queue(self, closed_slurm: PrivateSlurm) -> PreparedQueue:
        return prepared_queue(closed_slurm, adapter(closed_slurm), eligible_jobs(closed_slurm))


class TestRows:
    def test_same_rows_as_squeue(self, closed_slurm: PrivateSlurm) -> None:
        cluster = closed_slurm
        first = submit(cluster, "--nice=50", name="a|b\ntwo lines é")
        submit(cluster, "--nice=-50", "--partition=batch,short", name="None")
        submit(cluster, "--hold")
        submit(cluster, "--begin=now+1hour")
        submit(cluster, f"--dependency=afterok:{first}")
        submit(cluster, "--array=0-5")
        cluster.submit(user="bob", account="biology", processors=3, minutes=1440)
        cluster.set_partition("up", "short")
        running = [submit(cluster, "--partition=short") for _ in range(2)]
        running.append(submit(cluster, "--partition=short", "--exclusive"))
        for job_id in running[:2]:
            cluster.wait_state(job_id, "RUNNING")
        system = adapter(cluster)
        cluster.wait_until(lambda: _differences(system) == [], 10, "the same rows twice")

    def test_name_that_is_no_text(self, closed_slurm: PrivateSlurm) -> None:
        name = os.fsdecode(b"x\xff")
        submit(closed_slurm, name=name)
        assert len(adapter(closed_slurm).snapshot().pending) == 1


def _differences(system: Slurm) -> list[tuple[int, str, object, object]]:
    """What pyslurm and squeue say differently of the queue, each look a moment apart."""
    theirs = {row.job_id: row for row in Squeue(system._runner).waiting_and_running()}
    ours = {row.job_id: row for row in system._queue.waiting_and_running()}
    assert ours.keys() == theirs.keys()
    return [
        (job_id, column, getattr(row, column), getattr(theirs[job_id], column))
        for job_id, row in ours.items()
        for column in (each.name for each in fields(QueueRow))
        if not _same(getattr(row, column), getattr(theirs[job_id], column))
    ]


def _same(one: object, other: object) -> bool:
    both = (one, other)
    return one == other or all(isinstance(each, float) and math.isnan(each) for each in both)


class TestWrites:
    def test_zero_takes_a_factor_back(self, closed_slurm: PrivateSlurm, pyslurm: Slurm) -> None:
        job = submit(closed_slurm)
        closed_slurm.wait_eligible((job,))
        pyslurm.snapshot()
        pyslurm.apply([set_factor(job, 900)])
        assert sites(closed_slurm) == ["900"]
        pyslurm.apply([set_factor(job, 0)])
        assert factors(pyslurm.snapshot()) == {job: 0}

    def test_split_tasks_get_the_factor_of_their_array(
        self, closed_slurm: PrivateSlurm, pyslurm: Slurm
    ) -> None:
        array = submit(closed_slurm, "--array=0-4")
        closed_slurm.wait_eligible((array,))
        pyslurm.snapshot()
        closed_slurm.scontrol("update", f"jobid={array}_0", "nice=5")  # splits task 0 off
        closed_slurm.scontrol("hold", f"{array}_3")
        report = pyslurm.apply([set_factor(array, 33)])
        snapshot = pyslurm.snapshot()
        assert (report.applied, factors(snapshot)) == (1, {array: 33})
        assert sites(closed_slurm) == ["33", "33"]
        closed_slurm.scontrol("release", f"{array}_3")
        closed_slurm.wait_until(
            lambda: sites(closed_slurm) == ["33"] * 3, 10, "the factor of the task that was held"
        )

    def test_array_stays_unsplit(self, closed_slurm: PrivateSlurm, pyslurm: Slurm) -> None:
        array = submit(closed_slurm, "--array=1-50")
        closed_slurm.wait_eligible((array,))
        pyslurm.snapshot()
        pyslurm.apply([set_factor(array, 33)])
        assert len(sites(closed_slurm)) == 1
        pyslurm.release()
        assert factors(pyslurm.snapshot()) == {array: 0}

    def test_job_that_is_over_and_job_that_is_unknown(self, slurm: PrivateSlurm) -> None:
        slurm.set_partition("down")
        job = submit(slurm, seconds=0)
        system = adapter(slurm)
        system.snapshot()
        slurm.set_partition("up")
        slurm.wait_state(job, "COMPLETED")
        assert isinstance(system._queue, PyslurmQueue)
        system._queue.single |= {999999}  # as if it had been seen
        report = system.apply([set_factor(job, 5), set_factor(999999, 5)])
        assert report.applied == 0
        assert report.rejected == {
            job: "Job has already finished",
            999999: "Invalid job id specified",
        }


class TestFaults:
    def test_user_without_the_right(self, closed_slurm: PrivateSlurm, tmp_path: Path) -> None:
        job = submit(closed_slurm)
        closed_slurm.wait_eligible((job,))
        tmp_path.joinpath("sitecustomize.py").write_text(WRITES_AS_ALICE)
        system = adapter(closed_slurm, PYTHONPATH=str(tmp_path))
        system.snapshot()
        with pytest.raises(ChangeRejected, match="AdminLevel=Operator"):
            system.apply([set_factor(job, 5)])
        assert factors(system.snapshot()) == {job: 0}

    def test_hung_and_dead_slurmctld(self, start_slurm: StartSlurm) -> None:
        cluster = start_slurm(ClusterPlan(nodes=1))
        job = cluster.submit("--hold")
        system = adapter(cluster, seconds=1.5)
        system.snapshot()
        cluster.kill("slurmctld", signal.SIGSTOP)
        for call in (system.snapshot, lambda: system.apply([set_factor(job, 1)])):
            began = time.monotonic()
            with pytest.raises(BatchSystemUnavailable, match="no answer within"):
                call()
            assert time.monotonic() - began < 3
        cluster.kill("slurmctld", signal.SIGCONT)
        cluster.wait_until(lambda: _answers(system), 20, "an answer again")
        cluster.kill("slurmctld")
        began = time.monotonic()
        with pytest.raises(BatchSystemUnavailable):
            system.snapshot()
        assert time.monotonic() - began < 3
        cluster.restart("slurmctld")
        assert len(system.snapshot().pending) == 1

    def test_configuration_that_is_missing(self, closed_slurm: PrivateSlurm) -> None:
        """libslurm ends the interpreter, or waits for a minute: here it is the child's."""
        environment = {**closed_slurm.env, "SLURM_CONF": "/nonexistent/slurm.conf"}
        given = settings_of(closed_slurm, environment=environment, timeout=3.0)
        began = time.monotonic()
        with pytest.raises(BatchSystemUnavailable):
            ask_pyslurm(CommandRunner.of(given), "pyslurm_read", {"read": ["id"]})
        assert time.monotonic() - began < 5


def test_auto_takes_it(closed_slurm: PrivateSlurm) -> None:
    adapter, because = choose_adapter("auto", CommandRunner.of(settings_of(closed_slurm)))
    assert adapter is Slurm
    assert "is for this Slurm" in because


def test_thousand_writes_and_release(closed_slurm: PrivateSlurm) -> None:
    thousand_writes(closed_slurm, adapter(closed_slurm))


def _answers(system: Slurm) -> bool:
    try:
        return len(system.snapshot().pending) == 1
    except BatchSystemUnavailable:
        return False
