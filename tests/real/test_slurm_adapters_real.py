"""Both adapters on a real Slurm: every behaviour that they rely on, one test each.

The adapter by pyslurm is tried where a pyslurm of Slurm's release is installed.
"""

from __future__ import annotations

import math
import os
import shlex
import signal
import time
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.slurm.adapter import (
    Slurm,
    ask_pyslurm,
    choose_adapter,
    installed_pyslurm,
)
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.errors import BatchSystemUnavailable, ChangeRejected
from tests.contracts.batch_system_contract import (
    BatchSystemContract,
    PreparedQueue,
    factors,
    row_of,
    set_factor,
)
from tests.fakes.pyslurm_cluster import differences
from tests.real.conftest import StartSlurm, skip_without_daemons
from tests.real.drawn_order import settings_of
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease, installed_number

pytestmark = pytest.mark.real

Kind = type[SlurmCommands]


@pytest.fixture(params=[SlurmCommands, Slurm], ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest, release: SlurmRelease | None) -> Kind:
    """The class of the adapter."""
    if request.param is Slurm:
        need_pyslurm(release)
    found: Kind = request.param
    return found


@pytest.fixture
def by_pyslurm(release: SlurmRelease | None) -> Kind:
    need_pyslurm(release)
    return Slurm


def need_pyslurm(release: SlurmRelease | None) -> None:
    """Skip where there is no pyslurm for the Slurm that is tested."""
    skip_without_daemons(release)
    major, minor = release.number if release else installed_number()
    found = installed_pyslurm() or "none"
    if not found.startswith(f"{major}.{minor}."):
        pytest.skip(
            f"needs pyslurm {major}.{minor} for this Python (found: {found}): build the newest tag "
            f"v{major}.{minor}.* of github.com/PySlurm/pyslurm, as docs/install.md says"
        )


def adapter(
    cluster: PrivateSlurm, kind: Kind, *, seconds: float = 10.0, **environment: str
) -> SlurmCommands:
    return kind(settings_of(cluster, timeout=seconds, environment={**cluster.env, **environment}))


def submit(cluster: PrivateSlurm, *options: str, seconds: float = 300, name: str = "t") -> int:
    return cluster.submit(*options, user="alice", account="physics", seconds=seconds, name=name)


def sites(cluster: PrivateSlurm) -> list[str]:
    """The factor of each record that sprio lists."""
    return cluster.run("sprio", "-h", "-o", "%S").stdout.split()


def wait_for_tasks(cluster: PrivateSlurm, number: int) -> None:
    shown = ("squeue", "-h", "-t", "R", "-o", "%i")
    cluster.wait_until(
        lambda: cluster.run(*shown).stdout.count("\n") == number, 10, f"{number} tasks running"
    )


@pytest.mark.promise
class TestContract(BatchSystemContract):
    """On a Slurm whose partitions are down."""

    @pytest.fixture
    def queue(self, closed_slurm: PrivateSlurm, kind: Kind) -> PreparedQueue:
        cluster = closed_slurm

        def start(job_id: int) -> None:
            cluster.set_partition("up", "short")
            cluster.scontrol("update", f"jobid={job_id}", "partition=short")
            cluster.wait_state(job_id, "RUNNING")

        def end(job_id: int) -> None:
            cluster.run("scancel", str(job_id))
            cluster.wait_state(job_id, "CANCELLED")

        waiting = tuple(submit(cluster) for _ in range(3))
        cluster.wait_eligible(waiting)
        held = submit(cluster, "--hold")
        system = adapter(cluster, kind)
        return PreparedQueue(system=system, waiting=waiting, held=held, start=start, end=end)


class TestRows:
    def test_names_with_separators_newlines_and_bytes_that_are_no_text(
        self, closed_slurm: PrivateSlurm, kind: Kind
    ) -> None:
        names = ["a|b", "two\nlines", "x" * 150, os.fsdecode(b"x\xff")]
        jobs = [submit(closed_slurm, name=name) for name in names]
        system = adapter(closed_slurm, kind)
        assert sorted(system.snapshot().pending.jobs.job_id.tolist()) == jobs
        rows = {row.job_id: row for row in system._queue.waiting()}
        assert [rows[job].name for job in jobs[:3]] == names[:3]

    def test_pyslurm_gives_the_rows_of_squeue(
        self, closed_slurm: PrivateSlurm, by_pyslurm: Kind
    ) -> None:
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
        system = adapter(cluster, by_pyslurm)
        cluster.wait_until(lambda: differences(system) == [], 10, "the same rows twice")


class TestWrites:
    def test_a_factor_that_is_not_shown_is_taken_back_by_another_run(
        self, closed_slurm: PrivateSlurm, kind: Kind
    ) -> None:
        first = submit(closed_slurm)
        later = submit(closed_slurm, "--begin=now+1hour")
        after = submit(closed_slurm, f"--dependency=afterok:{first}")
        system = adapter(closed_slurm, kind)
        system.apply([set_factor(after, 300), set_factor(later, 300)])
        snapshot = system.snapshot()
        eligible = snapshot.pending.jobs.eligible
        assert eligible[row_of(snapshot, after)] == math.inf
        assert snapshot.now + 3500 < eligible[row_of(snapshot, later)] < snapshot.now + 3700
        assert not snapshot.pending.held.any()
        assert (factors(snapshot)[after], factors(snapshot)[later]) == (300, 300)
        adapter(closed_slurm, kind).release()
        closed_slurm.scontrol("update", f"jobid={after}", "dependency=")
        closed_slurm.wait_eligible((after,))
        assert factors(system.snapshot())[after] == 0

    def test_a_priority_by_hand_hides_our_factor_and_release_takes_it_back(
        self, closed_slurm: PrivateSlurm, kind: Kind
    ) -> None:
        job = submit(closed_slurm)
        closed_slurm.wait_eligible((job,))
        system = adapter(closed_slurm, kind)
        system.apply([set_factor(job, 900)])
        closed_slurm.scontrol("update", f"jobid={job}", "priority=5000")
        assert factors(system.snapshot()) == {job: 0}
        system.release()
        assert system.snapshot().pending.native_priority.tolist() == [5000]
        closed_slurm.scontrol("release", str(job))
        closed_slurm.wait_eligible((job,))
        snapshot = system.snapshot()
        assert (factors(snapshot), snapshot.pending.admin_set[0]) == ({job: 0}, False)

    def test_a_running_job_takes_a_factor_without_a_word_and_one_that_is_over_refuses(
        self, slurm: PrivateSlurm, kind: Kind
    ) -> None:
        running, over = submit(slurm), submit(slurm, seconds=0)
        array = submit(slurm, "--array=1-2", seconds=0)
        system = adapter(slurm, kind)
        system.snapshot()
        slurm.wait_state(running, "RUNNING")
        slurm.wait_until(
            lambda: slurm.run("squeue", "-h", "-o", "%A").stdout.split() == [str(running)],
            20,
            "the end of the others",
        )
        report = system.apply([set_factor(job, 5) for job in (running, over, array, 999999)])
        finished = "Job has already finished"
        unknown = {999999: "Invalid job id specified"}
        assert report.accepted == {running}
        assert report.rejected == {over: finished, array: finished, **unknown}

    @pytest.mark.promise
    def test_factor_survives_a_restart_and_a_reconfiguration(
        self, slurm: PrivateSlurm, kind: Kind
    ) -> None:
        slurm.wait_state(submit(slurm, "--ntasks=8"), "RUNNING")
        job = submit(slurm, "--ntasks=8")
        slurm.wait_eligible((job,))
        system = adapter(slurm, kind)
        system.apply([set_factor(job, 777)])
        slurm.restart("slurmctld")
        slurm.scontrol("reconfigure")
        slurm.wait_eligible((job,))
        assert factors(system.snapshot()) == {job: 777}


class TestArrays:
    def test_split_tasks_get_the_factor_of_their_array(
        self, closed_slurm: PrivateSlurm, kind: Kind
    ) -> None:
        array = submit(closed_slurm, "--array=0-4")
        closed_slurm.wait_eligible((array,))
        system = adapter(closed_slurm, kind)
        system.snapshot()
        system.apply([set_factor(array, 22)])
        assert sites(closed_slurm) == ["22"]  # a write splits nothing off
        closed_slurm.scontrol("update", f"jobid={array}_0", "nice=5")
        closed_slurm.scontrol("hold", f"{array}_3")
        report = system.apply([set_factor(array, 33)])
        snapshot = system.snapshot()
        assert (report.applied, factors(snapshot)) == (1, {array: 33})
        assert not snapshot.pending.held[0]
        assert sites(closed_slurm) == ["33", "33"]  # the rest and task 0
        closed_slurm.scontrol("release", f"{array}_3")
        closed_slurm.wait_until(
            lambda: sites(closed_slurm) == ["33"] * 3, 10, "the factor of the task that was held"
        )

    def test_partly_running_array(self, slurm: PrivateSlurm, kind: Kind) -> None:
        array = submit(slurm, "--array=1-12")
        wait_for_tasks(slurm, 8)
        system = adapter(slurm, kind)
        system.snapshot()
        system.apply([set_factor(array, 33)])
        snapshot = system.snapshot()
        assert factors(snapshot) == {array: 33}
        assert snapshot.pending.jobs.eligible[0] <= snapshot.now
        assert len(snapshot.running) == len(set(snapshot.running.jobs.job_id.tolist())) == 8
        assert len(snapshot.started) == 0

    def test_array_at_its_task_limit_is_not_orderable(
        self, slurm: PrivateSlurm, kind: Kind
    ) -> None:
        array = submit(slurm, "--array=1-4%2")
        wait_for_tasks(slurm, 2)
        slurm.wait_until(
            lambda: "JobArrayTaskLimit" in slurm.run("squeue", "-h", "-o", "%r").stdout, 10, "limit"
        )
        jobs = adapter(slurm, kind).snapshot().pending.jobs
        assert (jobs.job_id.tolist(), jobs.eligible.tolist()) == ([array], [math.inf])


class TestStartsAndEnds:
    def test_every_task_starts_and_ends_once_and_a_requeued_job_has_not_ended(
        self, slurm: PrivateSlurm, kind: Kind
    ) -> None:
        slurm.set_partition("down")
        array, single = submit(slurm, "--array=1-12", seconds=1), submit(slurm, seconds=1)
        requeued = submit(slurm, "--requeue", "--priority=99999999")
        system = adapter(slurm, kind)
        assert len(system.snapshot().started) == 0
        slurm.set_partition("up")
        slurm.wait_state(requeued, "RUNNING")
        started: list[int] = []
        ended: dict[int, float] = {}
        end = time.monotonic() + 60
        while len(ended) < 13 and time.monotonic() < end:
            snapshot = system.snapshot()
            started += snapshot.started.jobs.job_id.tolist()
            told = snapshot.ended
            assert not set(told.jobs.job_id.tolist()) & set(ended)
            ended.update(zip(told.jobs.job_id.tolist(), told.end - told.start, strict=True))
            time.sleep(0.3)
            if requeued in started and slurm.state_of(requeued) == "RUNNING":
                slurm.scontrol("requeue", str(requeued))
        tasks = [job for job in started if job != requeued]
        assert len(tasks) == len(set(tasks)) == 13
        assert {array, single} <= set(tasks) == set(ended)
        assert all(1 <= run_time <= 10 for run_time in ended.values())

    def test_jobs_of_whole_nodes_are_known_by_what_they_asked_for(
        self, slurm: PrivateSlurm, kind: Kind
    ) -> None:
        slurm.set_partition("down")
        job = submit(slurm, "--exclusive", seconds=2)
        system = adapter(slurm, kind)
        assert system.snapshot().pending.jobs.processors.tolist() == [1]
        slurm.set_partition("up")
        slurm.wait_state(job, "RUNNING")
        running = system.snapshot().running
        assert running.jobs.processors.tolist() == [4]
        assert running.as_requested.processors.tolist() == [1]
        slurm.wait_state(job, "COMPLETED")
        assert system.snapshot().ended.jobs.processors.tolist() == [1]
        # accounting lists a job up to `now` only some seconds after its end
        slurm.wait_until(
            lambda: job in adapter(slurm, kind).snapshot().ended.jobs.job_id, 20, "accounting"
        )
        past = adapter(slurm, kind).snapshot().ended
        assert past.from_accounting
        place = past.jobs.job_id.tolist().index(job)
        assert past.jobs.processors[place] == 1
        assert 2 <= past.end[place] - past.start[place] <= 10


#: For the child's PYTHONPATH: it reads as root and writes as a user without rights.
WRITES_AS_ALICE = """
import os, pwd, pyslurm

describe = pyslurm.JobSubmitDescription

def describe_as_alice(**values):
    os.seteuid(pwd.getpwnam("alice").pw_uid)
    return describe(**values)

pyslurm.JobSubmitDescription = describe_as_alice
"""


class TestFaults:
    def test_user_without_the_right(
        self, closed_slurm: PrivateSlurm, kind: Kind, tmp_path: Path
    ) -> None:
        job = submit(closed_slurm)
        closed_slurm.wait_eligible((job,))
        tmp_path.joinpath("sitecustomize.py").write_text(WRITES_AS_ALICE)
        scontrol = closed_slurm.directory / "as-alice" / "scontrol"
        scontrol.parent.mkdir(exist_ok=True)
        words = shlex.join([*closed_slurm.as_user("alice"), "scontrol"])
        scontrol.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        scontrol.chmod(0o755)
        path = f"{scontrol.parent}:{closed_slurm.env['PATH']}"
        system = adapter(closed_slurm, kind, PATH=path, PYTHONPATH=str(tmp_path))
        system.snapshot()
        with pytest.raises(ChangeRejected, match="AdminLevel=Operator"):
            system.apply([set_factor(job, 5)])
        assert factors(system.snapshot()) == {job: 0}

    def test_hung_and_dead_slurmctld(self, start_slurm: StartSlurm, kind: Kind) -> None:
        cluster = start_slurm(ClusterPlan(nodes=1))
        job = cluster.submit("--hold")
        system = adapter(cluster, kind, seconds=1.5)
        system.snapshot()
        cluster.kill("slurmctld", signal.SIGSTOP)
        for call in (system.snapshot, lambda: system.apply([set_factor(job, 1)]), system.release):
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

    @pytest.mark.usefixtures("by_pyslurm")
    def test_configuration_that_is_missing(self, closed_slurm: PrivateSlurm) -> None:
        """libslurm ends the interpreter, or waits for a minute: here it is the child's."""
        environment = {**closed_slurm.env, "SLURM_CONF": "/nonexistent/slurm.conf"}
        given = settings_of(closed_slurm, environment=environment, timeout=3.0)
        began = time.monotonic()
        with pytest.raises(BatchSystemUnavailable):
            ask_pyslurm(CommandRunner.of(given), "pyslurm_read", {"read": ["id"]})
        assert time.monotonic() - began < 5


def _answers(system: SlurmCommands) -> bool:
    try:
        return len(system.snapshot().pending) == 1
    except BatchSystemUnavailable:
        return False


def test_auto_takes_pyslurm(closed_slurm: PrivateSlurm, by_pyslurm: Kind) -> None:
    found, because = choose_adapter("auto", CommandRunner.of(settings_of(closed_slurm)))
    assert found is by_pyslurm
    assert "is for this Slurm" in because
