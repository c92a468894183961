"""The command adapter on a real Slurm: every behaviour that it relies on, one test each."""

from __future__ import annotations

import math
import shlex
import signal
import time

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.port import BatchSystem
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.domain.job_class import JobClassifier, JobClassRule, JobDescription
from slurm_rl_plugin.errors import BatchSystemUnavailable, ChangeRejected
from tests.contracts.batch_system_contract import (
    BatchSystemContract,
    PreparedQueue,
    factors,
    row_of,
    set_factor,
)
from tests.fakes.fake_cluster import OF_A_MINUTE
from tests.real.conftest import StartSlurm
from tests.real.drawn_order import settings_of, wall_clock
from tests.real.private_cluster import ClusterPlan, PrivateSlurm

pytestmark = pytest.mark.real


def adapter(
    cluster: PrivateSlurm, *, seconds: float = 10.0, seen: list[JobDescription] | None = None
) -> SlurmCommands:
    class Classes(JobClassifier):
        def matching_rule(self, job: JobDescription) -> JobClassRule | None:
            if seen is not None:
                seen.append(job)
            return super().matching_rule(job)

    return SlurmCommands(
        settings_of(cluster, classifier=Classes(OF_A_MINUTE.rules), timeout=seconds)
    )


def submit(cluster: PrivateSlurm, *options: str, seconds: float = 300, name: str = "t") -> int:
    return cluster.submit(*options, user="alice", account="physics", seconds=seconds, name=name)


def prepared_queue(
    cluster: PrivateSlurm, system: BatchSystem, waiting: tuple[int, ...]
) -> PreparedQueue:
    """The queue of the contract on a real Slurm whose partitions are down."""

    def start(job_id: int) -> None:
        cluster.set_partition("up", "short")
        cluster.scontrol("update", f"jobid={job_id}", "partition=short")
        cluster.wait_state(job_id, "RUNNING")

    def end(job_id: int) -> None:
        cluster.run("scancel", str(job_id))
        cluster.wait_state(job_id, "CANCELLED")

    held = submit(cluster, "--hold")
    return PreparedQueue(system=system, waiting=waiting, held=held, start=start, end=end)


def eligible_jobs(cluster: PrivateSlurm) -> tuple[int, ...]:
    """Three of them, just submitted."""
    waiting = tuple(submit(cluster) for _ in range(3))
    cluster.wait_eligible(waiting)
    return waiting


@pytest.mark.promise
class TestContract(BatchSystemContract):
    @pytest.fixture
    def queue(self, closed_slurm: PrivateSlurm) -> PreparedQueue:
        return prepared_queue(closed_slurm, adapter(closed_slurm), eligible_jobs(closed_slurm))


class TestJobs:
    def test_name_with_separator_and_newline(self, closed_slurm: PrivateSlurm) -> None:
        names = ["a|b", "two\nlines", "x" * 150]
        jobs = [submit(closed_slurm, name=name) for name in names]
        seen: list[JobDescription] = []
        snapshot = adapter(closed_slurm, seen=seen).snapshot()
        assert sorted(snapshot.pending.jobs.job_id.tolist()) == jobs
        assert sorted(job.name for job in seen) == sorted(names)
        assert {(job.user, job.account, job.partition, job.qos) for job in seen} == {
            ("alice", "physics", "batch", "normal")
        }

    def test_columns_of_a_job(self, closed_slurm: PrivateSlurm) -> None:
        before = wall_clock()
        job = closed_slurm.submit(
            "--nice=50", user="bob", account="biology", processors=3, minutes=1
        )
        closed_slurm.wait_eligible((job,))
        snapshot = adapter(closed_slurm).snapshot()
        pending, jobs = snapshot.pending, snapshot.pending.jobs
        assert (jobs.job_id[0], jobs.processors[0], jobs.time_limit[0]) == (job, 3, 60.0)
        assert (pending.nice[0], jobs.interactive[0]) == (50, True)
        assert before - 1 <= jobs.submit[0] <= jobs.eligible[0] <= snapshot.now
        assert snapshot.accounts[jobs.account[0]] == "biology"
        assert (snapshot.capacity, snapshot.partitions) == (8, ("batch",))
        assert snapshot.shares[jobs.account[0]] == pytest.approx(0.3)

    def test_time_limit_of_days_and_account_outside_sshare(
        self, closed_slurm: PrivateSlurm
    ) -> None:
        closed_slurm.submit(minutes=1440)
        snapshot = adapter(closed_slurm).snapshot()
        assert snapshot.pending.jobs.time_limit.tolist() == [86400.0]
        assert snapshot.accounts[-1] == "root"
        assert snapshot.shares[-1] == 0

    def test_job_for_two_partitions(self, closed_slurm: PrivateSlurm) -> None:
        job = submit(closed_slurm, "--partition=batch,short")
        closed_slurm.wait_eligible((job,))
        system = adapter(closed_slurm)
        before = system.snapshot().pending
        system.apply([set_factor(job, 12)])
        after = system.snapshot().pending
        assert (before.factor[0], after.factor[0], after.admin_set[0]) == (0, 12, False)
        assert after.native_priority[0] == pytest.approx(before.native_priority[0], abs=20)

    def test_dependency_and_begin_time(self, closed_slurm: PrivateSlurm) -> None:
        first = submit(closed_slurm)
        later = submit(closed_slurm, "--begin=now+1hour")
        after = submit(closed_slurm, f"--dependency=afterok:{first}")
        system = adapter(closed_slurm)
        system.apply([set_factor(after, 300), set_factor(later, 300)])
        snapshot = system.snapshot()
        eligible = snapshot.pending.jobs.eligible
        assert eligible[row_of(snapshot, after)] == math.inf
        assert snapshot.now + 3500 < eligible[row_of(snapshot, later)] < snapshot.now + 3700
        assert not snapshot.pending.held.any()
        assert (factors(snapshot)[after], factors(snapshot)[later]) == (300, 300)
        # Another run of the program does not know these factors, and still takes them back.
        adapter(closed_slurm).release()
        closed_slurm.scontrol("update", f"jobid={after}", "dependency=")
        closed_slurm.wait_eligible((after,))
        assert factors(system.snapshot())[after] == 0

    def test_factor_of_a_running_job_is_accepted_without_a_word(self, slurm: PrivateSlurm) -> None:
        job = submit(slurm)
        slurm.wait_state(job, "RUNNING")
        report = adapter(slurm).apply([set_factor(job, 12)])
        assert (report.applied, report.rejected) == (1, {})

    def test_factor_of_a_finished_job_and_array_is_refused(self, slurm: PrivateSlurm) -> None:
        job, array = submit(slurm, seconds=0), submit(slurm, "--array=1-2", seconds=0)
        slurm.wait_state(job, "COMPLETED")
        slurm.wait_empty(20)
        report = adapter(slurm).apply([set_factor(job, 5), set_factor(array, 5)])
        assert report.applied == 0
        assert set(report.rejected) == {job, array}
        assert set(report.rejected.values()) == {"Job has already finished"}


class TestPriorityByHand:
    @pytest.mark.parametrize("partition", ["batch", "batch,short"])
    def test_is_told_from_ours(self, closed_slurm: PrivateSlurm, partition: str) -> None:
        job, other = submit(closed_slurm, f"--partition={partition}"), submit(closed_slurm)
        closed_slurm.wait_eligible((job, other))
        closed_slurm.scontrol("update", f"jobid={job}", "priority=5000")
        snapshot = adapter(closed_slurm).snapshot()
        pending = snapshot.pending
        assert pending.admin_set[row_of(snapshot, job)]
        assert not pending.admin_set[row_of(snapshot, other)]
        assert factors(snapshot) == {job: 0, other: 0}

    def test_hides_our_factor_and_release_takes_it_back(self, closed_slurm: PrivateSlurm) -> None:
        job = submit(closed_slurm)
        closed_slurm.wait_eligible((job,))
        system = adapter(closed_slurm)
        system.apply([set_factor(job, 900)])
        closed_slurm.scontrol("update", f"jobid={job}", "priority=5000")
        assert factors(system.snapshot()) == {job: 0}
        system.release()
        assert system.snapshot().pending.native_priority.tolist() == [5000]
        closed_slurm.scontrol("release", str(job))
        closed_slurm.wait_eligible((job,))
        snapshot = system.snapshot()
        assert (factors(snapshot), snapshot.pending.admin_set[0]) == ({job: 0}, False)

    def test_hold_of_the_administrator(self, closed_slurm: PrivateSlurm) -> None:
        job = submit(closed_slurm)
        closed_slurm.wait_eligible((job,))
        system = adapter(closed_slurm)
        system.apply([set_factor(job, 900)])
        closed_slurm.scontrol("hold", str(job))
        snapshot = system.snapshot()
        assert (snapshot.pending.held[0], factors(snapshot)) == (True, {job: 900})
        assert snapshot.pending.native_priority.tolist() == [0]
        closed_slurm.scontrol("release", str(job))
        closed_slurm.wait_eligible((job,))
        assert factors(system.snapshot()) == {job: 900}


class TestArrays:
    def test_split_tasks_share_the_row(self, closed_slurm: PrivateSlurm) -> None:
        array = submit(closed_slurm, "--array=1-4")
        closed_slurm.scontrol("update", f"jobid={array}_2", "nice=5")
        closed_slurm.scontrol("hold", f"{array}_3")
        closed_slurm.wait_eligible((array,))
        system = adapter(closed_slurm)
        report = system.apply([set_factor(array, 33)])
        snapshot = system.snapshot()
        assert (report.applied, factors(snapshot)) == (1, {array: 33})
        assert not snapshot.pending.held[0]
        sites = closed_slurm.run("sprio", "-h", "-o", "%S").stdout.split()
        assert sites == ["33", "33"]  # the rest and task 2; the held one is not listed

    def test_partly_running_array(self, slurm: PrivateSlurm) -> None:
        array = submit(slurm, "--array=1-12")
        slurm.wait_until(
            lambda: slurm.run("squeue", "-h", "-t", "R", "-o", "%i").stdout.count("\n") == 8,
            10,
            "8 tasks running",
        )
        system = adapter(slurm)
        system.snapshot()
        system.apply([set_factor(array, 33)])
        snapshot = system.snapshot()
        assert factors(snapshot) == {array: 33}
        assert snapshot.pending.jobs.eligible[0] <= snapshot.now
        assert len(snapshot.running) == len(set(snapshot.running.jobs.job_id.tolist())) == 8
        assert len(snapshot.started) == 0

    def test_array_at_its_task_limit_is_not_orderable(self, slurm: PrivateSlurm) -> None:
        array = submit(slurm, "--array=1-4%2")
        slurm.wait_until(
            lambda: slurm.run("squeue", "-h", "-t", "R", "-o", "%i").stdout.count("\n") == 2,
            10,
            "2 tasks running",
        )
        slurm.wait_until(
            lambda: "JobArrayTaskLimit" in slurm.run("squeue", "-h", "-o", "%r").stdout, 10, "limit"
        )
        snapshot = adapter(slurm).snapshot()
        assert snapshot.pending.jobs.job_id.tolist() == [array]
        assert snapshot.pending.jobs.eligible.tolist() == [math.inf]

    def test_every_task_counts_as_started_once(self, slurm: PrivateSlurm) -> None:
        slurm.set_partition("down")
        array, single = submit(slurm, "--array=1-12", seconds=0.2), submit(slurm, seconds=0.2)
        system = adapter(slurm)
        assert len(system.snapshot().started) == 0
        slurm.set_partition("up")
        started: list[int] = []
        end = time.monotonic() + 30
        while len(started) < 13 and time.monotonic() < end:
            started += system.snapshot().started.jobs.job_id.tolist()
            time.sleep(0.3)
        slurm.wait_empty(20)
        started += system.snapshot().started.jobs.job_id.tolist()
        assert len(started) == len(set(started)) == 13
        assert {array, single} <= set(started)


class TestStarts:
    def test_job_that_came_and_went(self, slurm: PrivateSlurm) -> None:
        slurm.set_partition("down")
        ran, cancelled = submit(slurm, seconds=0), submit(slurm)
        system = adapter(slurm)
        system.snapshot()
        slurm.run("scancel", str(cancelled))
        slurm.set_partition("up")
        slurm.wait_state(ran, "COMPLETED")
        snapshot = system.snapshot()
        assert snapshot.started.jobs.job_id.tolist() == [ran]
        assert snapshot.now - 30 < snapshot.started.start[0] <= snapshot.now
        assert len(system.snapshot().started) == 0


class TestEnds:
    def test_every_task_ends_once_and_a_requeued_job_has_not_ended(
        self, slurm: PrivateSlurm
    ) -> None:
        system = adapter(slurm)
        system.snapshot()
        requeued = submit(slurm, "--requeue")
        array, single = submit(slurm, "--array=1-12", seconds=1), submit(slurm, seconds=1)
        system.snapshot()
        slurm.wait_state(requeued, "RUNNING")
        ended: dict[int, float] = {}
        end = time.monotonic() + 40
        while len(ended) < 13 and time.monotonic() < end:
            told = system.snapshot().ended
            assert not set(told.jobs.job_id.tolist()) & set(ended)
            ended.update(zip(told.jobs.job_id.tolist(), told.end - told.start, strict=True))
            time.sleep(0.3)
            if requeued:
                slurm.scontrol("requeue", str(requeued))
                requeued = 0
        assert {array, single} <= set(ended)
        assert len(ended) == 13
        assert all(1 <= run_time <= 10 for run_time in ended.values())

    def test_jobs_of_whole_nodes_are_known_by_what_they_asked_for(
        self, slurm: PrivateSlurm
    ) -> None:
        slurm.set_partition("down")
        job = submit(slurm, "--exclusive", seconds=2)
        system = adapter(slurm)
        assert system.snapshot().pending.jobs.processors.tolist() == [1]
        slurm.set_partition("up")
        slurm.wait_state(job, "RUNNING")
        running = system.snapshot().running
        assert (running.jobs.processors.tolist(), running.as_requested.processors.tolist()) == (
            [4],
            [1],
        )
        slurm.wait_state(job, "COMPLETED")
        assert system.snapshot().ended.jobs.processors.tolist() == [1]
        # accounting lists a job up to `now` only some seconds after its end
        slurm.wait_until(
            lambda: job in adapter(slurm).snapshot().ended.jobs.job_id, 20, "accounting"
        )
        past = adapter(slurm).snapshot().ended
        assert past.from_accounting
        place = past.jobs.job_id.tolist().index(job)
        assert past.jobs.processors[place] == 1
        assert 2 <= past.end[place] - past.start[place] <= 10


@pytest.mark.promise
class TestOrder:
    def test_factor_survives_a_restart_and_a_reconfiguration(self, slurm: PrivateSlurm) -> None:
        slurm.wait_state(submit(slurm, "--ntasks=8"), "RUNNING")
        job = submit(slurm, "--ntasks=8")
        slurm.wait_eligible((job,))
        system = adapter(slurm)
        system.apply([set_factor(job, 777)])
        slurm.restart("slurmctld")
        slurm.scontrol("reconfigure")
        slurm.wait_eligible((job,))
        assert factors(system.snapshot()) == {job: 777}


class TestFaults:
    def test_user_without_the_right(self, closed_slurm: PrivateSlurm) -> None:
        job = submit(closed_slurm)
        closed_slurm.wait_eligible((job,))
        done = closed_slurm.run(
            "scontrol", stdin=f"update jobid={job} sitefactor=5\n", user="alice", check=False
        )
        assert f"Access/permission denied for job {job}" in done.stderr
        path = f"{_as_alice(closed_slurm)}:{closed_slurm.env['PATH']}"
        environment = {**closed_slurm.env, "PATH": path}
        system = SlurmCommands(settings_of(closed_slurm, environment=environment))
        with pytest.raises(ChangeRejected, match="AdminLevel=Operator"):
            system.apply([set_factor(job, 5)])
        assert factors(adapter(closed_slurm).snapshot()) == {job: 0}

    def test_hung_and_dead_slurmctld(self, start_slurm: StartSlurm) -> None:
        cluster = start_slurm(ClusterPlan(nodes=1))
        job = cluster.submit("--hold")
        system = adapter(cluster, seconds=1.0)
        cluster.kill("slurmctld", signal.SIGSTOP)
        for call in (system.snapshot, lambda: system.apply([set_factor(job, 1)]), system.release):
            began = time.monotonic()
            with pytest.raises(BatchSystemUnavailable, match="no answer within"):
                call()
            assert time.monotonic() - began < 3
        cluster.kill("slurmctld", signal.SIGCONT)
        cluster.wait_until(lambda: len(_pending(system)) == 1, 10, "an answer again")
        cluster.kill("slurmctld")
        with pytest.raises(BatchSystemUnavailable):
            system.snapshot()
        cluster.restart("slurmctld")
        assert len(system.snapshot().pending) == 1

    def test_accounting_daemon_down(self, start_slurm: StartSlurm) -> None:
        cluster = start_slurm(ClusterPlan(nodes=1))
        cluster.submit("--hold")
        cluster.kill("slurmdbd")
        assert len(adapter(cluster).snapshot().pending) == 1


def thousand_writes(cluster: PrivateSlurm, system: BatchSystem) -> None:
    """Five writes to each of 200 jobs, and a release of all."""
    script = "#!/bin/sh\nsleep 1\n"
    loop = f"for i in $(seq 200); do printf '{script}' | sbatch --uid=bob -A biology -o /dev/null"
    cluster.run("sh", "-c", f"{loop} --chdir=/; done", timeout=120)
    jobs = system.snapshot().pending.jobs.job_id
    for round_number in range(5):
        changes = [set_factor(int(job), int(job) + round_number) for job in jobs]
        assert system.apply(changes).applied == 200
    time.sleep(1.1)  # until the last one is eligible and thus in sprio
    assert factors(system.snapshot()) == {int(job): int(job) + 4 for job in jobs}
    assert system.release(np.array(jobs)).applied == 200
    assert set(factors(system.snapshot()).values()) == {0}


def test_thousand_writes_and_release(closed_slurm: PrivateSlurm) -> None:
    thousand_writes(closed_slurm, adapter(closed_slurm))


def _pending(system: SlurmCommands) -> list[int]:
    try:
        return list(system.snapshot().pending.jobs.job_id)
    except BatchSystemUnavailable:
        return []


def _as_alice(cluster: PrivateSlurm) -> str:
    """A folder with a scontrol that runs as alice."""
    folder = cluster.directory / "as-alice"
    folder.mkdir(exist_ok=True)
    words = shlex.join([*cluster.as_user("alice"), "scontrol"])
    folder.joinpath("scontrol").write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    folder.joinpath("scontrol").chmod(0o755)
    return str(folder)
