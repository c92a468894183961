"""logrotate moves the audit log of a running daemon: no line is lost or torn."""

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

from slurm_rl_plugin.domain import Decision
from slurm_rl_plugin.hook.audit.log import AuditLog
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan
from tests.architecture.markdown_documents import TOP
from tests.functional.test_system_files import tool
from tests.unit.hook.queues import pending_jobs, snapshot_of

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
