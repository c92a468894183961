"""Nothing is lost: writes that slurmctld lost, audit lines while files are moved."""

from __future__ import annotations

import getpass
import grp
import gzip
import json
import os
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.domain import Decision
from slurm_rl_plugin.hook.audit.log import AuditLog
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan
from slurm_rl_plugin.policies.registry import rule_policy
from tests.architecture.markdown_documents import TOP
from tests.fakes.fake_cluster import NOW, FakeCluster
from tests.functional.test_system_files import tool
from tests.unit.hook.queues import cycle_over, pending_jobs, snapshot_of

LIMITS = ("30:00", "20:00", "10:00")


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    """Three jobs that sjf wants in the opposite order."""
    fake = FakeCluster(tmp_path)
    for job, limit in enumerate(LIMITS, start=1):
        fake.add(job, time_limit=limit, submit=NOW - 100 + job)
    return fake


def cycle_on(cluster: FakeCluster, folder: Path) -> Cycle:
    system = SlurmCommands(cluster.adapter_settings(history_days=0.0))
    return cycle_over(system, rule_policy("sjf"), folder)


def factors(cluster: FakeCluster) -> list[int]:
    return [cluster.record(job)["site"] for job in (1, 2, 3)]


def order(cluster: FakeCluster) -> list[int]:
    """Jobs by priority; their native one is the same, and of equal ones the first comes first."""
    return sorted((1, 2, 3), key=lambda job: (-cluster.record(job)["site"], job))


@pytest.mark.parametrize("lost", [(3,), (2, 3), (1, 2, 3)])
def test_factors_lost_by_slurmctld_are_written_again_by_the_next_cycle(
    cluster: FakeCluster, tmp_path: Path, lost: tuple[int, ...]
) -> None:
    cycle = cycle_on(cluster, tmp_path)
    cycle.run()
    assert order(cluster) == [3, 2, 1]
    for job in lost:  # killed before it saved its state: it comes back with what it had
        cluster.change(job, site=0)
    report = cycle.run()
    assert report.writes > 0
    assert order(cluster) == [3, 2, 1]
    assert cycle.run().writes == 0


def test_a_restarted_daemon_takes_factors_from_sprio_and_writes_nothing_anew(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cycle_on(cluster, tmp_path).run()
    before = factors(cluster)
    (tmp_path / "state.json").unlink()  # not even the state file is needed for that
    restarted = cycle_on(cluster, tmp_path)
    assert restarted.run().writes == 0
    assert factors(cluster) == before
    assert restarted.has_outstanding
    restarted.release()
    assert factors(cluster) == [0, 0, 0]


def test_a_lost_factor_of_a_job_with_almost_no_priority_is_written_again(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    none = {"age": 0, "assoc": 0, "fairshare": 0, "size": 0, "qos": 0}
    for job in (1, 2, 3):
        cluster.change(job, factors=none, partition="batch", nice=98)  # two points in all
    cycle = cycle_on(cluster, tmp_path)
    cycle.run()
    assert order(cluster) == [3, 2, 1]
    cluster.change(3, site=0)
    for _ in range(2):
        cycle.run()
    assert order(cluster) == [3, 2, 1]


def test_a_release_that_was_said_and_not_done_is_not_taken_for_done(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken `scontrol` exits with 0 and writes nothing: the jobs must not be forgotten."""
    cycle = cycle_on(cluster, tmp_path)
    cycle.run()
    carrying = {job for job in (1, 2, 3) if cluster.record(job)["site"]}
    before = factors(cluster)
    with monkeypatch.context() as broken:
        broken.setattr(
            "slurm_rl_plugin.batch_systems.slurm.site_factor.Scontrol.send", lambda *_: {}
        )
        report = cycle.release()
    assert factors(cluster) == before
    assert report.later == carrying
    assert cycle.state.read() == carrying
    assert cycle.release().later == frozenset()
    assert factors(cluster) == [0, 0, 0]
    assert cycle.state.read() == set()


SHIPPED = TOP / "deploy" / "logrotate.d" / "slurm-rl"
ROTATIONS = 6
SHADOW = CycleReport(time=0.0, mode="shadow", policy="sjf")


@pytest.fixture
def rotation(tmp_path: Path) -> Path:
    """The shipped file for an audit log of this test's own."""
    log = tmp_path / "log"
    log.mkdir(mode=0o755)
    owner = f"{getpass.getuser()} {grp.getgrgid(os.getgid()).gr_name}"
    text = SHIPPED.read_text().replace("/var/log/slurm-rl", str(log))
    path = tmp_path / "logrotate.conf"
    path.write_text(text.replace("slurmrl slurmrl", owner))
    path.chmod(0o644)
    return path


def rotate(rotation: Path, *words: str) -> str:
    state = rotation.with_name("state")
    done = subprocess.run(
        [tool("logrotate"), *words, f"--state={state}", str(rotation)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def decided(number: int) -> QueuePlan:
    snapshot = snapshot_of(pending_jobs(range(300)), float(number))
    decision = Decision(scores=np.zeros(300))
    return QueuePlan(
        snapshot=snapshot, decision=decision, fallback_reason=None, order=[*range(300)], changes=[]
    )


def test_the_file_is_understood(rotation: Path) -> None:
    (rotation.parent / "log" / "audit.jsonl").write_text("{}\n")
    assert "error" not in rotate(rotation, "--debug").lower()


def test_no_cycle_is_lost_while_files_are_moved(rotation: Path) -> None:
    path = rotation.parent / "log" / "audit.jsonl"
    audit, stop, written = AuditLog(path), threading.Event(), []

    def work() -> None:
        while not stop.is_set():
            audit.record(SHADOW, decided(len(written)), ())
            written.append(len(written))

    daemon = threading.Thread(target=work)
    daemon.start()
    try:
        for _ in range(ROTATIONS):
            before = len(written)
            while len(written) == before:  # something to move
                assert daemon.is_alive()
                stop.wait(0.001)
            rotate(rotation, "--force")
    finally:
        stop.set()
        daemon.join()
    assert len(list(path.parent.iterdir())) > ROTATIONS
    lines = []
    for file in path.parent.iterdir():
        opener = gzip.open if file.suffix == ".gz" else open
        with opener(file, "rt") as text:
            lines += [json.loads(line) for line in text]
    assert sorted(line["time"] for line in lines) == written
    assert all(len(line["order"]) == 300 for line in lines)
